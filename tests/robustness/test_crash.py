"""Work that is killed, by a real SIGKILL, goes on where it stopped and ends as if nothing had been."""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

KILLED = Path(__file__).with_name("killed.py")
WORKS = ["reproduce", "compare", "classify", "regress", "choose"]
# Threads of BLAS would not survive a fork.
# Old releases of matplotlib call what new ones of pyparsing deprecate.
STRICT = "error,ignore::DeprecationWarning"
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": STRICT}
WRITES, LINES = 3, 2


def plan(work):
    """How runs end: some at a step of writing, so that every state of a file is met, then some at any moment."""
    rng = random.Random(work)
    # A file is begun, synced and renamed in turn: each of these is met once.
    writes = [["write", 3 * rng.randint(1, 3) + state] for state in rng.sample(range(WRITES), WRITES)]
    lines = [["line", rng.randint(1, 4)] for _ in range(LINES)]
    return [*writes, *lines, ["end"], ["straight"], ["together"]]


@pytest.fixture(scope="module", params=WORKS)
def runs(request, tmp_path_factory):
    """The folder, and what became of each process."""
    folder = tmp_path_factory.mktemp(request.param) / "kept"
    argv = [sys.executable, str(KILLED), request.param, str(folder), json.dumps(plan(request.param))]
    done = subprocess.run(argv, capture_output=True, text=True, env=ONE_THREAD, check=False)
    assert not done.returncode, done.stderr
    return folder, [json.loads(line) for line in done.stdout.splitlines()]


def test_killed_runs_end_with_the_result_of_an_undisturbed_one(runs):
    _, outcomes = runs
    killed, (end, straight, *_) = outcomes[: WRITES + LINES], outcomes[WRITES + LINES :]
    assert [outcome["signal"] for outcome in killed[:WRITES]] == [9] * WRITES
    assert all(outcome["signal"] == 9 or outcome["code"] == 0 for outcome in killed)
    assert end["code"] == straight["code"] == 0, end["errors"] + straight["errors"]
    assert end["said"] == straight["said"] and len(straight["said"]) > 100


def test_a_kill_costs_the_step_under_way_and_no_other(runs):
    folder, outcomes = runs
    before_the_end = outcomes[: WRITES + LINES + 1]
    # Tables are written at the end of each run that comes so far.
    finished = Counter(file for outcome in before_the_end for file in outcome["files"] if "results" not in file)
    again = sum(count - 1 for file, count in finished.items() if Path(file).suffix == ".npz" or "run" in file)
    # A kill from outside may come between the word that a file is finished and its last step.
    assert again <= LINES
    straight = outcomes[WRITES + LINES + 1]
    assert {file for file in straight["files"] if file.endswith((".npz", ".json"))} == {
        file[len(str(folder)) :] for file in map(str, folder.rglob("*")) if file.endswith((".npz", ".json"))
    }


def test_progress_tells_what_was_there_already(runs):
    _, outcomes = runs
    assert any(word in outcomes[WRITES + LINES]["errors"] for word in ("found in", "from the cache"))
    assert not any(word in outcomes[WRITES + LINES + 1]["errors"] for word in ("found in", "from the cache"))


def test_files_are_whole_whenever_their_writer_died(runs):
    folder, _ = runs
    for path in folder.rglob("*"):
        if path.suffix == ".npz":
            with np.load(path) as arrays:
                assert all(np.isfinite(arrays[name]).all() for name in arrays if arrays[name].dtype.kind == "f")
        elif path.suffix == ".json":
            assert json.loads(path.read_text())
        elif path.is_file():
            assert path.suffix in (".part", ".md", ".csv", ".png")
    # Which of two threads dies at a step is not known beforehand.
    assert "choose" in str(folder) or list(folder.rglob("*.part")), "no run died while it wrote"


def test_two_processes_share_a_folder(runs):
    folder, outcomes = runs
    straight, *both = outcomes[WRITES + LINES + 1 :]
    assert len(both) == 2
    assert all(outcome["said"] == straight["said"] for outcome in both), [outcome["errors"] for outcome in both]
    assert not list(folder.with_name("kept-together").rglob("*.part"))
