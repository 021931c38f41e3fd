"""`kernelkin fit` on a small mixed table: its score on held-out rows, and the time of its fit in a new process.

Four tasks of 50 rows; the target is sin(2a) + [colour is red] with little noise, beside a column without any effect.
With `--threads 1` the time is processor time of the process and its workers, which a loaded machine changes least.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from .harness import OURS, Goal, Report, Row, threads, timed, with_bytecode

TARGET = "ziel"


def write_table(path: Path) -> None:
    """Write the table."""
    rng, n = np.random.default_rng(0), 200
    a, colours = rng.uniform(-2, 2, n), rng.choice(["red", "blue", "green"], n)
    noise, other = rng.normal(0, 0.05, n), rng.normal(size=n)
    target = np.sin(2 * a) + (colours == "red") + noise
    towns = np.repeat(["Bonn", "Jena", "Kiel", "Ulm"], n // 4)
    rows = [f"{t},{x:.4f},{c},{z:.4f},{y:.4f}" for t, x, c, z, y in zip(towns, a, colours, other, target, strict=True)]
    path.write_text("\n".join([f"ort,a,farbe,b,{TARGET}", *rows]))


def command(folder: Path, *options: str) -> list[str]:
    """Arguments of `kernelkin` that fit the table and print a JSON object."""
    argv = ["fit", str(folder / "data.csv"), "--task", "ort", "--target", TARGET, "-o", str(folder / "m.skops")]
    return [*argv, "--json", *options]


def fit_table(folder: Path, *options: str) -> dict:
    """Fit the table in a new process and return what it prints."""
    argv = [sys.executable, "-m", "kernelkin", *command(folder, *options)]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, env=with_bytecode(folder / "bytecode"))
    return json.loads(done.stdout)


def processor_seconds() -> float:
    """Processor time of all processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(repetitions: int) -> Report:
    taken = []
    with tempfile.TemporaryDirectory() as name:
        write_table(Path(name) / "data.csv")
        score = fit_table(Path(name))["sharing"]["comparisons"]["new rows of known groups"]["scores"]["Kin"]["R²"]
        # The goal is about the fit, without the comparison with simpler models.
        plain = ("--no-comparison",)
        for _ in range(min(repetitions, 3)):
            began = processor_seconds()
            _, wall, _ = timed(lambda: fit_table(Path(name), *plain))
            taken.append((processor_seconds() - began, wall))
    cpu, wall = np.median(taken, axis=0).tolist()
    row = Row("kernelkin fit data.csv", OURS, cpu, wall, len(taken), 1.0)
    goals = [
        Goal("R² on held-out rows >= 0.97", f"{score:.3f}", score >= 0.97),
        Goal("fit in a new process <= 15 s", f"{row.seconds:.1f} s", row.seconds <= 15),
    ]
    clock = "processor time of new processes" if threads() == 1 else "wall of new processes"
    return Report("a plain fit of a small table", [row], goals, clock=clock)
