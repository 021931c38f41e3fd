"""Time several contenders side by side, judge what each of them reached, and report ratios.

Every contender runs once to warm up, then all run in turn, again and again, so that a loaded machine slows all of them
alike. Figures are medians. On one thread ratios are of CPU seconds, which a loaded machine changes least; on more they
are of wall seconds, which want a quiet machine.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

OURS = "kernelkin"
# The textbook loop, ended by a rule of its own, and ended once it is within 1e-3 of the objective that we reach.
NAIVE, NAIVE_TO_OURS = "naive, own stopping rule", "naive, stopped at our objective"
RESULTS = Path(__file__).parent / "results"
PACKAGES = ("kernelkin", "numpy", "scipy", "scikit-learn", "numba", "himalaya", "MKLpy")


class _Pin:
    threads = 1


@contextmanager
def pinned(threads: int) -> Iterator[None]:
    """Inside, BLAS has so many threads, and so have our loops over tasks."""
    before, _Pin.threads = _Pin.threads, threads
    try:
        with threadpool_limits(threads):
            yield
    finally:
        _Pin.threads = before


def threads() -> int:
    """What a model of ours takes as `n_jobs`."""
    return _Pin.threads


@dataclass(frozen=True)
class Contender:
    """`run` is timed; `judge` turns what it returned into named figures, and is not."""

    name: str
    run: Callable[[], Any]
    judge: Callable[[Any], dict[str, float]] = lambda result: {}


@dataclass(frozen=True)
class Row:
    """What one contender took and reached on one case; `times` is its time over ours, by the clock that counts."""

    case: str
    contender: str
    cpu: float
    wall: float
    repetitions: int
    times: float = float("nan")
    figures: dict[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """By the clock that counts."""
        return self.cpu if threads() == 1 else self.wall


@dataclass(frozen=True)
class Goal:
    """A goal of the project, what was measured, and whether that meets it; `met` None where it was not measured."""

    goal: str
    measured: str
    met: bool | None


@dataclass(frozen=True)
class Report:
    """The rows and goals of one problem, and the clock that they go by."""

    problem: str
    rows: list[Row]
    goals: list[Goal] = field(default_factory=list)
    clock: str = field(default_factory=lambda: "CPU, one thread" if threads() == 1 else f"wall, {threads()} threads")


def timed(run: Callable[[], Any]) -> tuple[float, float, Any]:
    """CPU seconds, wall seconds, and the result."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = run()
    return time.process_time() - cpu, time.perf_counter() - wall, result


def race(case: str, contenders: Sequence[Contender], repetitions: int, budget: float = 10.0) -> list[Row]:
    """One row for each contender, the first of which is ours.

    A contender whose warm-up takes long repeats less often, so that its repetitions stay within `budget` seconds. One
    that exceeds it at once does not repeat: beside that much work the warming up does not show.
    """
    counts, results = [], []
    times: list[list[tuple[float, float]]] = [[] for _ in contenders]
    for i, contender in enumerate(contenders):
        cpu, wall, result = timed(contender.run)
        counts.append(int(min(budget / max(wall, 1e-9), repetitions)))
        results.append(result)
        if wall > budget:
            print(f"  ... {case}: {contender.name} took {wall:.1f} s", file=sys.stderr, flush=True)
        if counts[i] == 0:
            times[i].append((cpu, wall))
    for turn in range(repetitions):
        for i, contender in enumerate(contenders):
            if turn < counts[i]:
                times[i].append(timed(contender.run)[:2])
    medians = [np.median(own, axis=0) for own in times]
    clock = 0 if threads() == 1 else 1
    times_ours = [float(taken[clock] / medians[0][clock]) for taken in medians]
    return [
        Row(case, c.name, float(cpu), float(wall), max(n, 1), times, c.judge(result))
        for c, (cpu, wall), n, times, result in zip(contenders, medians, counts, times_ours, results, strict=True)
    ]


def ratio(rows: Sequence[Row], name: str, case: str | None = None) -> float | None:
    """Time of the contender over ours; None where it did not run."""
    found = [row.times for row in rows if row.contender == name and case in (None, row.case)]
    return found[0] if found else None


def figure(rows: Sequence[Row], name: str, what: str) -> float:
    return next(row.figures[what] for row in rows if row.contender == name)


def naive_goals(rows: Sequence[Row], least: int) -> list[Goal]:
    """To be at least so many times as fast as either naive contender, at an objective no worse."""
    goals = []
    for name in (NAIVE, NAIVE_TO_OURS):
        times, ours, theirs = ratio(rows, name), figure(rows, OURS, "objective"), figure(rows, name, "objective")
        measured = f"{times:.1f}x; objective {ours:.6g} against {theirs:.6g}"
        met = times >= least and ours <= theirs * (1 + 1e-3)
        goals.append(Goal(f">= {least}x {name}, objective no worse", measured, met))
    return goals


def show(report: Report) -> None:
    """Print the report as Markdown, ready to be pasted into a page."""
    print(f"\n## {report.problem}\nRatios: {report.clock}.\n")
    if report.rows:
        print("| case | contender | CPU s | wall s | runs | times ours | reached |\n|---|---|---|---|---|---|---|")
    for row in report.rows:
        reached = ", ".join(f"{name} {value:.6g}" for name, value in row.figures.items())
        print(
            f"| {row.case} | {row.contender} | {row.cpu:.4g} | {row.wall:.4g} | {row.repetitions} | "
            f"{row.times:.3g} | {reached} |"
        )
    print()
    for goal in report.goals:
        word = {True: "met", False: "MISSED", None: "not measured"}[goal.met]
        print(f"- {word}: {goal.goal}: {goal.measured}", flush=True)


def save(reports: Sequence[Report], rates: dict[str, float]) -> Path:
    """Write the reports with what they were measured on, and how fast that is; returns where."""
    RESULTS.mkdir(exist_ok=True)
    now = datetime.now()
    path = RESULTS / f"{now:%Y-%m-%d-%H%M%S}.json"
    machine = {
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        **rates,
    }
    reported = [asdict(report) for report in reports]
    content = {"date": now.isoformat(timespec="seconds"), "machine": machine, "reports": reported}
    path.write_text(json.dumps(content, indent=1, default=lambda value: value.item()))
    return path


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def with_bytecode(folder: str | Path) -> dict[str, str]:
    """The environment of a new process that keeps compiled modules in a folder, as an installed package has them."""
    # An empty value counts as not set: bytecode is written whatever the environment of this process says.
    return {**os.environ, "PYTHONPYCACHEPREFIX": str(folder), "PYTHONDONTWRITEBYTECODE": ""}
