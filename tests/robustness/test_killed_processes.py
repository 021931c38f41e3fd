"""An experiment in several processes, the first killed at several moments: the others end, and leave nothing behind."""

import json
import os
import random
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import toy_experiment as toy

PROGRAM = Path(__file__).with_name("toy_program.py")
RUNS, KILLS = 2, 2
UNITS = RUNS * len(toy.PROTOCOL.settings) * len(toy.models(toy.PROTOCOL.settings[0]))
# Much longer than an orphan may take to notice; nobody waits for it unless there is one.
LONGEST = 60.0


def start(folder, jobs):
    argv = [sys.executable, str(PROGRAM), "stock", "--runs", str(RUNS), "--jobs", str(jobs)]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*argv, "--output", str(folder)], env=one_thread, **pipes)


def children(process):
    """Handles of the processes that it has started."""
    return [os.pidfd_open(child) for child in numbers(process)]


def numbers(process):
    return [int(child) for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def worker(process):
    """One of those that do the work."""
    return next(n for n in numbers(process) if "spawn_main" in Path(f"/proc/{n}/cmdline").read_text())


def have_ended(handles):
    """Wait until all these processes have; they are orphans, nobody's to wait for but by their handles."""
    for handle in handles:
        ended = select.select([handle], [], [], LONGEST)[0]
        os.close(handle)
        if not ended:
            return False
    return True


def content(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def kill(folder, line):
    """Start, and kill when it has told of so many units -> how many children it had, what it left, what they did."""
    with start(folder, jobs=2) as process:
        for _ in range(line):
            assert process.stderr.readline()
        handles = children(process)
        process.send_signal(signal.SIGKILL)
        process.wait()
        left = content(folder)
        orphans_ended = have_ended(handles)
    return len(handles), left, orphans_ended and content(folder) == left


def kill_a_worker(folder, line):
    """The same for one of the processes that it has started -> its exit code, and its last words."""
    with start(folder, jobs=2) as process:
        for _ in range(line):
            assert process.stderr.readline()
        os.kill(worker(process), signal.SIGKILL)
        errors = process.communicate()[1]
    return process.returncode, errors.splitlines()[-1]


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The folder, and what came of each kill; they come at ever later moments, so that each finds work to do."""
    folder = tmp_path_factory.mktemp("killed")
    rng = random.Random(0)
    return folder, [kill(folder, rng.randint(1 + (at > 0), 4)) for at in range(KILLS)]


def test_no_process_outlives_the_first_or_writes_after_it(killed):
    _, outcomes = killed
    # Two workers, and the one that Python has look after what they share.
    assert [count for count, *_ in outcomes] == [3] * KILLS
    assert all(untouched for *_, untouched in outcomes)


def test_each_kill_leaves_whole_results_and_more_than_the_one_before(killed):
    folder, outcomes = killed
    counts = []
    for _, left, _ in outcomes:
        stored = [json.loads(text) for path, text in left.items() if path.suffix == ".json"]
        assert all(result["scores"] for result in stored)
        assert all(path.suffix in (".json", ".part") for path in left), "a lock, or a table of half an experiment"
        counts.append(len(stored))
    assert sorted(set(counts)) == counts and 0 < counts[0] < counts[-1] < UNITS
    assert folder.is_dir()


def test_a_worker_that_is_killed_ends_all_in_one_line(killed):
    folder, outcomes = killed
    code, said = kill_a_worker(folder, 2)
    assert code == 1
    assert said.startswith("python -m experiments: error: a process was killed") and "continues from there" in said
    assert len(content(folder)) > len(outcomes[-1][1])


def test_the_table_in_the_end_is_that_of_one_process_undisturbed(killed, tmp_path):
    folder, _ = killed
    tables = []
    for place, jobs in ((folder, 2), (tmp_path, 1)):
        with start(place, jobs) as process:
            out, errors = process.communicate()
        assert process.returncode == 0, errors
        assert ("found in" in errors) == (place == folder)
        found = json.loads((place / "stock" / "results.json").read_text())
        scores = [[result[name] for name in ("setting", "model", "run", "scores", "chosen")] for result in found]
        tables.append((out.replace(str(place), ""), scores))
    assert tables[0] == tables[1]
    assert "ours" in tables[0][0] and len(tables[0][1]) == UNITS
