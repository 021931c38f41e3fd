"""Fits on a Dask cluster of processes on this machine: time, memory and gap; and what a killed worker costs.

python -m benchmarks cluster --tasks 10000 --workers 2               tasks of 50 rows, 8 kernels
python -m benchmarks cluster --tasks 10000 --workers 2 --kill        one worker is ended after the first evaluation
python -m benchmarks cluster --tasks 10000 --workers 2 --grams keep  Gram matrices stay in memory, or "rebuild"
python -m benchmarks cluster --table                                 what is stored, as Markdown

Each run adds a line to `benchmarks/results/cluster.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kernelkin import MKMTRLRegressor, gaussian_kernels, linear_kernels
from kernelkin.engines import Dask

RESULTS = Path(__file__).parent / "results" / "cluster.jsonl"
COLUMNS = [f"x{k}" for k in range(6)]
# Seven widths and a linear kernel.
KERNELS = [*gaussian_kernels((0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)), *linear_kernels()]
# Tasks that are scored, on as many other rows as they were fitted to.
SCORED = 500
GRAMS = {"auto": None, "keep": True, "rebuild": False}
# A busy machine may take longer to start a process than Dask expects.
PATIENCE = {"distributed.comm.timeouts.connect": "600s", "distributed.deploy.lost-worker-timeout": "600s"}


def make_rows(part: int, n_tasks: int, n_rows: int) -> pd.DataFrame:
    """Return so many rows of every task: three groups of tasks, each with functions of its own."""
    rng = np.random.default_rng([7, part])
    tasks = np.repeat(np.arange(n_tasks), n_rows)
    X = rng.normal(size=(len(tasks), len(COLUMNS)))
    phase, group = np.modf(np.abs(np.sin(12.9898 * tasks)) * 43758.5453)[0], tasks % 3
    y = np.sin(2.0 * X[:, 0] + phase) * (group == 0) + X[:, 1] * X[:, 2] * (group == 1) + X[:, 3] * (group == 2)
    y += 0.5 * np.cos(X[:, 4]) * phase + 0.5 * rng.normal(size=len(tasks))
    frame = pd.DataFrame(X, columns=COLUMNS).assign(task=tasks, y=y)
    return frame.sample(frac=1.0, random_state=part)


def worker_facts() -> dict[str, float]:
    """Return the processor seconds and the largest memory in GiB of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"cpu": time.process_time(), "gib": peak, "pid": os.getpid()}


class Watch:
    """Notes when evaluations end, and ends a worker after the first one where it is asked to."""

    def __init__(self, client: Any, kill: bool) -> None:
        self.client, self.kill, self.began = client, kill, time.perf_counter()
        self.seconds: list[float] = []
        self.gaps: list[float] = []

    def __call__(self, iterate: Any) -> None:
        self.seconds.append(time.perf_counter() - self.began)
        self.gaps.append(iterate.relative_gap)
        print(f"{self.seconds[-1]:8.1f} s  evaluation {iterate.iteration}, gap {iterate.relative_gap:.1e}", flush=True)
        if self.kill and iterate.iteration == 1:
            facts = self.client.run(worker_facts)
            os.kill(int(min(each["pid"] for each in facts.values())), signal.SIGKILL)


def run_fit(client: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Fit, predict and score, and return what it took."""
    frame = make_rows(0, options.tasks, options.rows)
    before = client.run(worker_facts)
    watch = Watch(client, options.kill)
    engine = Dask(client, keep_grams=GRAMS[options.grams])
    model = MKMTRLRegressor(KERNELS, task_column="task", tol=1e-3, engine=engine, callback=watch)
    own = time.process_time()
    model.fit(frame[[*COLUMNS, "task"]], frame["y"])
    seconds, own = time.perf_counter() - watch.began, time.process_time() - own
    after = client.run(worker_facts)
    test = make_rows(1, min(options.tasks, SCORED), options.rows)
    score = model.score(test[[*COLUMNS, "task"]], test["y"])
    cpu = sum(facts["cpu"] - before.get(name, {"cpu": 0.0})["cpu"] for name, facts in after.items())
    return {
        "evaluations": model.n_iter_,
        "relative_gap": model.duality_gap_ / model.objective_,
        "objective": model.objective_,
        "seconds": seconds,
        "evaluated_at": watch.seconds,
        "gaps": watch.gaps,
        "worker_cpu_seconds": cpu,
        "client_cpu_seconds": own,
        "worker_gib": [facts["gib"] for facts in after.values()],
        "client_gib": worker_facts()["gib"],
        "score": score,
        "score_seconds": time.perf_counter() - watch.began - seconds,
        "killed": options.kill,
        "grams": options.grams,
    }


def table() -> str:
    """Return the stored runs as a Markdown table."""
    names = (
        "T",
        "processes",
        "Gram matrices",
        "evaluations",
        "gap",
        "held-out R2",
        "processor s of workers",
        "of the client",
        "s",
        "GiB of a worker",
        "of the client",
    )
    lines = [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    for text in RESULTS.read_text(encoding="utf-8").splitlines():
        run = json.loads(text)
        killed = ", one killed" if run["killed"] else ""
        lines.append(
            f"| {run['tasks']:,} | {run['workers']}{killed} | {run['grams']} "
            f"| {run['evaluations']} | {run['relative_gap']:.0e} | {run['score']:.4f} "
            f"| {run['worker_cpu_seconds']:.0f} | {run['client_cpu_seconds']:.0f} | {run['seconds']:.0f} "
            f"| {max(run['worker_gib']):.1f} | {run['client_gib']:.1f} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one fit and store what it took."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks cluster", description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--rows", type=int, default=50, help="rows of each task")
    parser.add_argument("--workers", type=int, default=2, help="processes, each with one thread")
    parser.add_argument("--memory", default="4GB", help="memory limit of each process")
    parser.add_argument("--grams", choices=GRAMS, default="auto")
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args(arguments)
    if options.table:
        print(table())
        return

    import dask
    from distributed import Client, LocalCluster

    settings = {"threads_per_worker": 1, "memory_limit": options.memory, "dashboard_address": ":0"}
    with (
        dask.config.set(PATIENCE),
        LocalCluster(n_workers=options.workers, **settings) as cluster,
        Client(cluster) as client,
    ):
        found = run_fit(client, options)
    setting = {name: getattr(options, name) for name in ("tasks", "rows", "workers", "memory")}
    line = json.dumps({**setting, "kernels": len(KERNELS), **found})
    print(line)
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


if __name__ == "__main__":
    main()
