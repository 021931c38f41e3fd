"""Compare predictions of KinRegressor and KinClassifier with those of what people would run instead.

python -m benchmarks predict --n-jobs 16                              all suites, sets and contenders
python -m benchmarks predict --suite grouped --contenders Kin --splits 2 --sets radon chick
python -m benchmarks predict --list                                   suites with their sets and contenders
python -m benchmarks predict --report                                 write docs/comparison.md from stored results

A job is a contender on a split of a set; its result is a line of a file as soon as it is there, and jobs that the file
has are not run again. Sets and contenders are chosen by name, or by how their names begin. The page is written from all
files predict*.jsonl of the folder of results: of two results for one job that of the last file, in order of names.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from .predict_case import Case, make_case, scores
from .predict_models import KIN, OURS, Contender, contenders
from .predict_sets import SUITES, DataSet, data_sets

RESULTS = Path(__file__).parent / "results"
THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks predict", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n-jobs", type=int, default=1, metavar="N", help="number of processes, each with one thread")
    parser.add_argument(
        "--suite", nargs="+", choices=SUITES, default=list(SUITES), metavar="NAME", help="all by default"
    )
    parser.add_argument("--splits", type=int, metavar="N", help="the first N splits; all by default")
    parser.add_argument("--sets", nargs="+", metavar="NAME", help="data sets; all by default")
    parser.add_argument("--contenders", nargs="+", metavar="NAME", help="contenders; all by default")
    parser.add_argument("--time-limit", type=float, default=300.0, metavar="S", help="seconds of a job")
    parser.add_argument("--retry", action="store_true", help="run jobs again that were missed, for time or by an error")
    parser.add_argument("--output", type=Path, default=RESULTS / "predict.jsonl", metavar="FILE")
    parser.add_argument("--report", action="store_true", help="run nothing; write the page and its picture")
    parser.add_argument("--list", action="store_true", help="run nothing; list data sets and contenders")
    options = parser.parse_args(arguments)
    sets = {name: each for name, each in data_sets().items() if each.suite in options.suite}
    sets, models = _chosen(parser, sets, options.sets), _chosen(parser, contenders(), options.contenders)
    if options.list:
        _list(sets, models)
    elif options.report:
        from .predict_report import write_page

        write_page([record for path in sorted(RESULTS.glob("predict*.jsonl")) for record in read_results(path)])
    else:
        jobs = _jobs(sets, models, options.splits, read_results(options.output))
        run_jobs(jobs, options.n_jobs, options.time_limit, options.output, options.retry)


def _chosen(parser: argparse.ArgumentParser, known: dict, names: Sequence[str] | None) -> dict:
    """Those with these names, or whose names begin with one."""
    if names is None:
        return known
    unknown = [name for name in names if not any(each.startswith(name) for each in known)]
    if unknown:
        parser.error(f"nothing is called {', '.join(unknown)}; there are: {'; '.join(known)}")
    exact = {name for name in names if name in known}
    prefixes = tuple(name for name in names if name not in known)
    return {name: each for name, each in known.items() if name in exact or (prefixes and name.startswith(prefixes))}


def _list(sets: dict[str, DataSet], models: dict[str, Contender]) -> None:
    for each in sets.values():
        kind = "classes" if each.classification else "regression"
        print(f"{each.suite}: {each.name} ({kind}, {each.size} labels, {each.rows_per_task} rows per task)")
    print()
    for model in models.values():
        reason = model.reason_not_to_run()
        print(f"{model.name} ({', '.join(model.suites)})" + (f", left out: {reason}" if reason else ""))


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


def _jobs(
    sets: dict[str, DataSet], models: dict[str, Contender], n_splits: int | None, records: list[dict[str, Any]]
) -> list[Job]:
    """Jobs of the contenders that can run here; where the file has times of other splits, costs are these."""
    taken: dict[tuple[str, str], float] = {(r["set"], r["model"]): r["s"] for r in records if "s" in r}
    for model in models.values():
        if reason := model.reason_not_to_run():
            print(f"{model.name} is left out: {reason}", file=sys.stderr)
    return [
        Job(each.name, split, model.name, taken.get((each.name, model.name), model.cost * each.size / 1000))
        for each in sets.values()
        for split in range(min(n_splits or SUITES[each.suite], SUITES[each.suite]))
        for model in models.values()
        if each.suite in model.suites and model.reason_not_to_run() is None
    ]


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
    whole = not output.exists() or output.read_bytes()[-1:] in (b"", b"\n")
    began, total, cost = time.perf_counter(), sum(job.cost for job in todo), 0.0
    with output.open("a", encoding="utf-8") as file:
        # A line that was cut off must not take the next one with it.
        file.write("" if whole else "\n")
        for count, (job, record) in enumerate(_outcomes(todo, min(n_workers, len(todo)), time_limit), start=1):
            file.write(json.dumps(record, separators=(",", ":")) + "\n")
            file.flush()
            cost, elapsed = cost + job.cost, time.perf_counter() - began
            outcome = record.get("missed") or f"loss {record['loss']:.4f}"
            print(
                f"[{count}/{len(todo)}, {elapsed:.0f} s, about {(total - cost) * elapsed / cost:.0f} s left] "
                f"{job.data_set} #{job.split}: {job.contender}: {outcome} ({record.get('s', 0.0):.1f} s)",
                file=sys.stderr,
                flush=True,
            )


def _outcomes(todo: list[Job], n_workers: int, time_limit: float) -> Iterator[tuple[Job, dict[str, Any]]]:
    """Run jobs in processes, the longest first; a process that takes too long for one is ended and replaced."""
    compiled = any(job.contender in (KIN, *OURS) for job in todo)
    # The first worker compiles what is not yet in the cache on disk; the others find it there.
    workers = [Worker(compiled)]
    workers[0].wait_until_ready()
    workers += [Worker(compiled) for _ in range(n_workers - 1)]
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
                    workers[i] = worker = Worker(compiled)
                if worker.is_ready and worker.job is None and waiting:
                    worker.give(waiting.pop(0))
    finally:
        for worker in workers:
            worker.stop()


class Worker:
    """A process that runs one job at a time and sends the record through a pipe."""

    def __init__(self, compiled: bool) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, compiled), daemon=True)
        self.process.start()
        theirs.close()
        self.is_ready, self.began = False, 0.0
        self.job: Job | None = None

    def wait_until_ready(self) -> None:
        self.pipe.recv()
        self.is_ready = True

    def give(self, job: Job) -> None:
        self.job, self.began = job, time.perf_counter()
        self.pipe.send(job.key)

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
        return job, {**_header(*job.key), "s": round(time.perf_counter() - self.began, 2), "missed": reason}

    def stop(self) -> None:
        self.process.kill()
        self.process.join()


def _header(data_set: str, split: int, contender: str) -> dict[str, Any]:
    return {"set": data_set, "split": split, "model": contender}


def _work(pipe: Connection, compiled: bool) -> None:
    """Run jobs as they come; the main function of a worker."""
    warnings.simplefilter("ignore")
    if compiled:
        _warm_up()
    pipe.send("ready")
    while True:
        job = pipe.recv()
        try:
            record = run_job(*job)
        except Exception as error:
            traceback.print_exc()
            record = {"missed": f"{type(error).__name__}: {error}"[:200]}
        pipe.send({**_header(*job), **record})


def _warm_up() -> None:
    """Compile, or load from the cache on disk, what fits of kernelkin need, so that no job is timed with it."""
    import numpy as np

    from kernelkin import KinClassifier, KinRegressor

    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(40, 2)), np.repeat([0, 1], 20)
    y = X[:, 0] + 0.1 * rng.normal(size=40)
    KinRegressor(random_state=0).fit(X, y, tasks=tasks)
    KinClassifier(random_state=0).fit(X, y > 0, tasks=tasks)


@cache
def _case(data_set: str, split: int) -> Case:
    found = data_sets()[data_set]
    return make_case(found.make(split), found, split)


def run_job(data_set: str, split: int, contender: str) -> dict[str, Any]:
    """Return seconds of processor time and scores; `missed` says why there are none."""
    case, model = _case(data_set, split), contenders()[contender]
    if not model.fits(case):
        return {"s": 0.0, "missed": "does not apply"}
    began = time.process_time()
    values = model.run(case, split)
    seconds = round(time.process_time() - began, 3)
    # Some losses are below 0.001: five digits, not five decimals.
    return {"s": seconds, **{name: float(f"{value:.5g}") for name, value in scores(case, values).items()}}
