"""Work that is killed by SIGKILL continues where it stopped, and leaves no half-written file."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernelkin import load_model

PROGRAM = Path(__file__).with_name("killed.py")
KILLED, UNDISTURBED, TOGETHER, SAVED = slice(0, 4), 4, slice(5, 7), slice(7, 12)
PIECES = 6


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    # Threads of BLAS would not survive a fork.
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    argv = [sys.executable, str(PROGRAM), str(tmp_path_factory.mktemp("killed"))]
    done = subprocess.run(argv, capture_output=True, text=True, env=one_thread, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_killed_search_ends_with_the_result_of_an_undisturbed_one(outcomes):
    *killed, end = outcomes[KILLED]
    assert [outcome["signal"] for outcome in killed] == [9, 9, 9]
    (found, cached), (expected, none) = end["result"], outcomes[UNDISTURBED]["result"]
    assert found == expected
    # Each killed process had finished one more piece.
    assert (cached, none) == (3, 0)


def test_a_kill_costs_only_the_piece_in_progress(outcomes):
    files = [outcome["files"] for outcome in outcomes[KILLED]]
    assert [names.count(".npz") for names in files] == [1, 2, 3, PIECES]
    # Killed before the file was created, before it was synced, and before it was renamed.
    assert [names.count(".part") for names in files] == [0, 1, 2, 2]
    assert outcomes[UNDISTURBED]["files"] == [".npz"] * PIECES


def test_two_processes_share_a_folder(outcomes):
    both = outcomes[TOGETHER]
    assert [outcome["result"][0] for outcome in both] == [outcomes[UNDISTURBED]["result"][0]] * 2
    assert both[-1]["files"] == [".npz"] * PIECES


def test_a_saved_model_is_the_old_one_or_the_new_one(outcomes, tmp_path):
    before, *killed, after = outcomes[SAVED]
    assert [outcome["signal"] for outcome in killed] == [9, 9, 9]
    assert all(outcome["model"] == before["model"] for outcome in killed)
    (tmp_path / "model.kin").write_bytes(bytes.fromhex(after["model"]))
    assert load_model(tmp_path / "model.kin").about == {"C": 2.0}
