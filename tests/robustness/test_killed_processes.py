"""An experiment in several processes, of which one is killed: the others end, and the same command continues."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import toy_experiment as toy
from experiments.__main__ import main

PROGRAM = Path(__file__).with_name("toy_program.py")
RUNS = 2
UNITS = RUNS * len(toy.PROTOCOL.settings) * len(toy.models(toy.PROTOCOL.settings[0]))
# Seconds; much longer than an orphan takes to notice. It is reached only where one does not end.
LONGEST = 60.0


def arguments(folder, jobs):
    return ["stock", "--runs", str(RUNS), "--jobs", str(jobs), "--output", str(folder)]


def start(folder):
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    argv = [sys.executable, str(PROGRAM), *arguments(folder, jobs=2)]
    return subprocess.Popen(argv, env=one_thread, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def children(process):
    """Handles of the processes that it has started."""
    return [os.pidfd_open(child) for child in numbers(process)]


def numbers(process):
    return [int(child) for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def worker(process):
    """One of those that do the work."""
    return next(n for n in numbers(process) if "spawn_main" in Path(f"/proc/{n}/cmdline").read_text())


def have_ended(handles):
    """Wait until all these processes have ended; they are orphans, so that only their handles can be waited for."""
    for handle in handles:
        ended = select.select([handle], [], [], LONGEST)[0]
        os.close(handle)
        if not ended:
            return False
    return True


def content(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def kill(folder, line):
    """Start, and kill after so many lines of progress -> number of children, files left, whether these stay."""
    with start(folder) as process:
        for _ in range(line):
            assert process.stderr.readline()
        handles = children(process)
        process.send_signal(signal.SIGKILL)
        process.wait()
        left = content(folder)
        orphans_ended = have_ended(handles)
    return len(handles), left, orphans_ended and content(folder) == left


def kill_a_worker(folder, line):
    """The same for one of the processes that it has started -> its exit code, and its last line."""
    with start(folder) as process:
        for _ in range(line):
            assert process.stderr.readline()
        os.kill(worker(process), signal.SIGKILL)
        errors = process.communicate()[1]
    return process.returncode, errors.splitlines()[-1]


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The folder of an experiment whose first process was killed, and the outcome."""
    folder = tmp_path_factory.mktemp("killed")
    return folder, kill(folder, line=2)


@pytest.fixture(scope="module")
def worker_killed(killed):
    """The same folder, after a second start of which a worker was killed, its files then, and the outcome."""
    folder, _ = killed
    outcome = kill_a_worker(folder, line=2)
    return folder, content(folder), outcome


def test_no_process_outlives_the_first_or_writes_after_it(killed):
    _, (count, _, untouched) = killed
    # Two workers, and Python's own process for what they share.
    assert count == 3
    assert untouched


def test_a_kill_leaves_whole_results(killed):
    _, (_, left, _) = killed
    stored = [json.loads(text) for path, text in left.items() if path.suffix == ".json"]
    assert 0 < len(stored) < UNITS and all(result["scores"] for result in stored)
    assert all(path.suffix in (".json", ".part") for path in left), "a lock, or a table of half an experiment"


def test_a_worker_that_is_killed_ends_all_in_one_line(killed, worker_killed):
    _, (_, before, _) = killed
    _, after, (code, last) = worker_killed
    assert code == 1
    assert last.startswith("python -m experiments: error: a process was killed") and "continues from there" in last
    assert len(after) > len(before)


def test_the_table_in_the_end_is_that_of_one_process_undisturbed(worker_killed, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("experiments.find_protocol", lambda name: toy.PROTOCOL)
    tables = []
    for folder in (worker_killed[0], tmp_path):
        assert main(arguments(folder, jobs=1)) == 0
        printed = capsys.readouterr()
        assert ("found in" in printed.err) == (folder != tmp_path)
        found = json.loads((folder / "stock" / "results.json").read_text())
        scores = [[result[name] for name in ("setting", "model", "run", "scores", "chosen")] for result in found]
        tables.append((printed.out.replace(str(folder), ""), scores))
    assert tables[0] == tables[1]
    assert "ours" in tables[0][0] and len(tables[0][1]) == UNITS
