"""Time several contenders side by side, judge what each of them reached, and report ratios.

Every contender runs once to warm up, then all run in turn, again and again, so that a loaded machine slows all of them
alike. Figures are medians. Ratios are of CPU seconds, since wall time on a shared machine tells about its load.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

OURS = "kernelkin"
RESULTS = Path(__file__).parent / "results"
PACKAGES = ("kernelkin", "numpy", "scipy", "scikit-learn", "numba", "himalaya", "MKLpy")


@dataclass(frozen=True)
class Contender:
    """`run` is timed; `judge` turns what it returned into named figures, and is not."""

    name: str
    run: Callable[[], Any]
    judge: Callable[[Any], dict[str, float]] = lambda result: {}


@dataclass(frozen=True)
class Row:
    """What one contender took and reached on one case; `times` is its CPU time over ours."""

    case: str
    contender: str
    cpu: float
    wall: float
    repetitions: int
    times: float = float("nan")
    figures: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Goal:
    """A goal of the project, what was measured, and whether that meets it; `met` None where it was not measured."""

    goal: str
    measured: str
    met: bool | None


@dataclass(frozen=True)
class Report:
    """The rows and goals of one problem."""

    problem: str
    rows: list[Row]
    goals: list[Goal] = field(default_factory=list)


def timed(run: Callable[[], Any]) -> tuple[float, float, Any]:
    """CPU seconds, wall seconds, and the result."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = run()
    return time.process_time() - cpu, time.perf_counter() - wall, result


def race(case: str, contenders: Sequence[Contender], repetitions: int, budget: float = 20.0) -> list[Row]:
    """One row for each contender, the first of which is ours.

    A contender whose warm-up takes long repeats less often, so that its repetitions stay within `budget` seconds. One
    that exceeds it at once does not repeat: beside that much work the warming up does not show.
    """
    counts, results = [], []
    times: list[list[tuple[float, float]]] = [[] for _ in contenders]
    for i, contender in enumerate(contenders):
        cpu, wall, result = timed(contender.run)
        counts.append(int(min(budget / max(cpu, 1e-9), repetitions)))
        results.append(result)
        if cpu > 0.5 * budget:
            print(f"  ... {case}: {contender.name} took {cpu:.1f} s of CPU", file=sys.stderr, flush=True)
        if counts[i] == 0:
            times[i].append((cpu, wall))
    for turn in range(repetitions):
        for i, contender in enumerate(contenders):
            if turn < counts[i]:
                times[i].append(timed(contender.run)[:2])
    medians = [np.median(mine, axis=0) for mine in times]
    return [
        Row(case, c.name, float(cpu), float(wall), max(n, 1), float(cpu / medians[0][0]), c.judge(result))
        for c, (cpu, wall), n, result in zip(contenders, medians, counts, results, strict=True)
    ]


def ratio(rows: Sequence[Row], name: str, case: str | None = None) -> float | None:
    """CPU time of the contender over ours; None where it did not run."""
    found = [row.times for row in rows if row.contender == name and case in (None, row.case)]
    return found[0] if found else None


def figure(rows: Sequence[Row], name: str, what: str) -> float:
    return next(row.figures[what] for row in rows if row.contender == name)


def show(report: Report) -> None:
    print(f"\n{report.problem}")
    print(f"  {'case':24} {'contender':34} {'cpu s':>9} {'wall s':>9} {'runs':>4} {'x ours':>8}  reached")
    for row in report.rows:
        reached = "  ".join(f"{name} {value:.6g}" for name, value in row.figures.items())
        print(
            f"  {row.case:24} {row.contender:34} {row.cpu:9.4f} {row.wall:9.4f} {row.repetitions:4d} "
            f"{row.times:8.2f}  {reached}"
        )
    for goal in report.goals:
        word = {True: "met", False: "MISSED", None: "not measured"}[goal.met]
        print(f"  {word}: {goal.goal}: {goal.measured}", flush=True)


def save(reports: Sequence[Report]) -> Path:
    """Write the reports with what they were measured on; returns where."""
    RESULTS.mkdir(exist_ok=True)
    now = datetime.now()
    path = RESULTS / f"{now:%Y-%m-%d-%H%M%S}.json"
    machine = {
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
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
