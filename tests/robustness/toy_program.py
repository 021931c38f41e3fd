"""`python -m experiments` with the toy as its only experiment; a program, so that its workers know it too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

import experiments
import toy_experiment as toy
from experiments.__main__ import main

experiments.find_protocol = lambda name: toy.PROTOCOL

if __name__ == "__main__":
    sys.exit(main())
