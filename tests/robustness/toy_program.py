"""`kernelkin` with the toy as its only experiment: a program, so that the processes it starts know the toy too."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from experiments import toy
from kernelkin import cli, experiments

experiments.find_protocol = lambda name: toy.PROTOCOL

if __name__ == "__main__":
    sys.exit(cli.main(sys.argv[1:]))
