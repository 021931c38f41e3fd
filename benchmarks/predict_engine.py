"""Run jobs in processes, the longest first, each within a time limit; results are lines of a file as they come.

A worker runs one job at a time and sends the outcome through a pipe. One that takes too long is ended and replaced.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@dataclass(frozen=True)
class Job:
    """A contender on a split of a data set; `cost` is what it is expected to take, in any unit."""

    data_set: str
    split: int
    contender: str
    cost: float

    @property
    def key(self) -> tuple[str, int, str]:
        return self.data_set, self.split, self.contender


def read_results(path: Path) -> list[dict[str, Any]]:
    """The records of a file; a last line that was cut off is left out."""
    if not path.exists():
        return []
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def run_jobs(jobs: Sequence[Job], n_workers: int, time_limit: float, output: Path, retry: bool = False) -> None:
    """Run those jobs that the file has no record of, and append theirs; with `retry` also those that were missed."""
    records = [r for r in read_results(output) if "missed" not in r or not retry]
    done = {(r["set"], r["split"], r["model"]) for r in records}
    todo = sorted((job for job in jobs if job.key not in done), key=lambda job: -job.cost)
    print(f"{len(jobs)} jobs, {len(jobs) - len(todo)} of them done before", file=sys.stderr, flush=True)
    if not todo:
        return
    # Read when NumPy is imported, which the processes do anew.
    os.environ.update(dict.fromkeys(THREADS, "1"))
    output.parent.mkdir(parents=True, exist_ok=True)
    progress = Progress(sum(job.cost for job in todo), len(todo))
    whole = not output.exists() or output.read_bytes()[-1:] in (b"", b"\n")
    with output.open("a", encoding="utf-8") as file:
        # A line that was cut off must not take the next one with it.
        file.write("" if whole else "\n")
        for job, record in _outcomes(todo, min(n_workers, len(todo)), time_limit):
            file.write(json.dumps(record, separators=(",", ":")) + "\n")
            file.flush()
            progress.show(job, record)


def _outcomes(todo: list[Job], n_workers: int, time_limit: float) -> Iterator[tuple[Job, dict[str, Any]]]:
    # The first worker compiles what is not yet in the cache on disk; the others find it there.
    workers = [Worker()]
    workers[0].wait_until_ready()
    workers += [Worker() for _ in range(n_workers - 1)]
    waiting = list(todo)
    try:
        while waiting or any(worker.job for worker in workers):
            wait([worker.pipe for worker in workers], timeout=0.5)
            for i, worker in enumerate(workers):
                finished, record = worker.poll(time_limit)
                if finished is not None and record is not None:
                    yield finished, record
                if waiting and worker.job is None and not worker.process.is_alive():
                    if not worker.is_ready:
                        raise RuntimeError("a process ended before its first job; its error is above")
                    workers[i] = worker = Worker()
                if worker.is_ready and worker.job is None and waiting:
                    worker.give(waiting.pop(0))
    finally:
        for worker in workers:
            worker.stop()


class Worker:
    """A process that runs one job at a time."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()
        self.is_ready, self.began = False, 0.0
        self.job: Job | None = None

    def wait_until_ready(self) -> None:
        self.pipe.recv()
        self.is_ready = True

    def give(self, job: Job) -> None:
        self.job, self.began = job, time.perf_counter()
        self.pipe.send((job.data_set, job.split, job.contender))

    def poll(self, time_limit: float) -> tuple[Job | None, dict[str, Any] | None]:
        """Return the job that ended, and its record; None where there is no news."""
        try:
            news = self.pipe.recv() if self.pipe.poll() else None
        except (EOFError, OSError):
            return self._give_up("the process ended") if self.job else (None, None)
        if news == "ready":
            self.is_ready = True
        elif news is not None:
            job, self.job = self.job, None
            return job, news
        if self.job is not None and time.perf_counter() - self.began > time_limit:
            return self._give_up("time")
        return None, None

    def _give_up(self, reason: str) -> tuple[Job | None, dict[str, Any]]:
        job, self.job = self.job, None
        assert job is not None
        self.stop()
        seconds = round(time.perf_counter() - self.began, 2)
        return job, {**_header(*job.key), "s": seconds, "missed": reason}

    def stop(self) -> None:
        self.process.kill()
        self.process.join()


def _header(data_set: str, split: int, contender: str) -> dict[str, Any]:
    return {"set": data_set, "split": split, "model": contender}


def _work(pipe: Connection) -> None:
    """Run jobs as they come; the main function of a worker."""
    from .predict_job import run_job, warm_up

    warnings.simplefilter("ignore")
    warm_up()
    pipe.send("ready")
    while True:
        job = pipe.recv()
        try:
            record = run_job(*job)
        except Exception as error:
            traceback.print_exc()
            record = {"missed": f"{type(error).__name__}: {error}"[:200]}
        pipe.send({**_header(*job), **record})


@dataclass
class Progress:
    """Prints each outcome, and how long the rest will take if a unit of cost takes as long as so far."""

    total: float
    n_jobs: int
    began: float = field(default_factory=time.perf_counter)
    done: float = 0.0
    count: int = 0

    def show(self, job: Job, record: dict[str, Any]) -> None:
        self.done, self.count = self.done + job.cost, self.count + 1
        elapsed = time.perf_counter() - self.began
        left = (self.total - self.done) * elapsed / self.done
        outcome = record.get("missed") or f"loss {record['loss']:.4f}"
        print(
            f"[{self.count}/{self.n_jobs}, {elapsed:.0f} s, about {left:.0f} s left] "
            f"{job.data_set} #{job.split}: {job.contender}: {outcome} ({record.get('s', 0.0):.1f} s)",
            file=sys.stderr,
            flush=True,
        )
