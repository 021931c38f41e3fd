"""Work that is killed by SIGKILL leaves no half-written file."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelkin import load_model

PROGRAM = Path(__file__).with_name("killed.py")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    # Threads of BLAS would not survive a fork.
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    argv = [sys.executable, str(PROGRAM), str(tmp_path_factory.mktemp("killed"))]
    done = subprocess.run(argv, capture_output=True, text=True, env=one_thread, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_saved_model_is_the_old_one_or_the_new_one(outcomes, tmp_path):
    before, *killed, after = outcomes
    assert [outcome["signal"] for outcome in killed] == [9, 9, 9]
    assert all(outcome["model"] == before["model"] for outcome in killed)
    (tmp_path / "model.kin").write_bytes(bytes.fromhex(after["model"]))
    assert load_model(tmp_path / "model.kin").about == {"C": 2.0}
