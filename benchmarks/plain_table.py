"""`kernelkin fit` on a small mixed table: its score on held-out rows, and the time of its two fits in a new process.

Four tasks of 50 rows; the target is sin(2a) + [colour is red] with little noise, beside a column without any effect.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from .harness import OURS, Goal, Report, Row, timed

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
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def run(repetitions: int) -> Report:
    with tempfile.TemporaryDirectory() as name:
        write_table(Path(name) / "data.csv")
        fit_table(Path(name), "--quick")  # compiles
        found = fit_table(Path(name))
        walls = [timed(lambda: fit_table(Path(name)))[1] for _ in range(min(repetitions, 3))]
    score, seconds = found["mean_scores"]["Kin"], float(np.median(walls))
    rows = [Row("kernelkin fit data.csv", OURS, seconds, seconds, len(walls), 1.0)]
    goals = [
        Goal("mean R² on held-out rows >= 0.97", f"{score:.3f}", score >= 0.97),
        Goal("test and last fit in a new process <= 15 s", f"{seconds:.1f} s", seconds <= 15),
    ]
    return Report("a plain fit of a small table", rows, goals, clock="wall of new processes")
