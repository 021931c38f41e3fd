"""`reproduce` in several processes of which one is killed: the others end, and the next run continues."""

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from experiments import toy

PROGRAM = Path(__file__).with_name("toy_program.py")
RUNS = 2
UNITS = RUNS * len(toy.PROTOCOL.settings) * len(toy.models(toy.PROTOCOL.settings[0]))
# Much longer than an orphan may take to notice; reached only if one does not end.
LONGEST = 60.0


def start(folder, jobs):
    argv = [sys.executable, str(PROGRAM), "reproduce", "stock", "--runs", str(RUNS), "--jobs", str(jobs)]
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


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A run in one process, started first so that it runs beside the others."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with start(folder, jobs=1) as process:
        yield folder, process


@pytest.fixture(scope="module")
def killed(tmp_path_factory, undisturbed):
    """Kill the first process after one result -> folder, number of its children, what it left, whether all was over."""
    folder = tmp_path_factory.mktemp("killed")
    with start(folder, jobs=2) as process:
        assert process.stderr.readline()
        handles = children(process)
        process.send_signal(signal.SIGKILL)
        process.wait()
        left = content(folder)
        orphans_ended = have_ended(handles)
    return folder, len(handles), left, orphans_ended and content(folder) == left


def test_no_process_outlives_the_first_or_writes_after_it(killed):
    _, count, left, nothing_more = killed
    # Two workers, and Python's resource tracker.
    assert count == 3 and nothing_more
    stored = [json.loads(text) for path, text in left.items() if path.suffix == ".json"]
    assert 0 < len(stored) < UNITS and all(result["scores"] for result in stored)
    assert all(path.suffix in (".json", ".part") for path in left), "a lock, or a table of half an experiment"


def test_a_worker_that_is_killed_ends_all_in_one_line(killed):
    folder, _, left, _ = killed
    with start(folder, jobs=2) as process:
        for _ in range(2):
            assert process.stderr.readline()
        os.kill(worker(process), signal.SIGKILL)
        last_line = process.communicate()[1].splitlines()[-1]
    assert process.returncode == 1
    assert last_line.startswith("kernelkin: error: a process was killed from outside")
    assert "goes on from there" in last_line
    assert len(content(folder)) > len(left)


def table(folder, process):
    """What a run printed, and the scores that it stored."""
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    found = json.loads((folder / "stock" / "results.json").read_text())
    scores = [[result[name] for name in ("setting", "model", "run", "scores", "chosen")] for result in found]
    return out.replace(str(folder), ""), scores, "found in" in errors


def test_the_next_run_continues_to_the_table_of_an_undisturbed_one(killed, undisturbed):
    folder = killed[0]
    with start(folder, jobs=1) as process:
        *found, continued = table(folder, process)
    *expected, fresh = table(*undisturbed)
    assert found == expected and len(found[1]) == UNITS
    assert continued and not fresh
