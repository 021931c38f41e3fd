"""Time and memory of `KinRegressor` on made data of several sizes, with time limits, and on the wages of 4,696 women.

python -m benchmarks kin_times -- --folds 3
python -m benchmarks kin_times -- --command      `kernelkin fit` with its comparison, on made tables

Each size is a process of its own, and so is its peak of memory. For two cores, start it under
`taskset -c 0,1`. Wages need the folder KERNELKIN_DATA.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from kernelkin import KinRegressor

from .plain_table import processor_seconds

# Groups, rows a group, columns, time limit in seconds.
SIZES = ((18, 4, 1, None), (20, 100, 20, None), (200, 20, 5, None), (300, 5, 3, 2.0), (2_000, 5, 3, 10.0))


def made(groups: int, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Levels of groups, one smooth column, and noise."""
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(groups * rows, columns)), np.repeat(np.arange(groups), rows)
    y = rng.normal(size=groups)[tasks] + np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=len(X))
    return X, y, tasks


def tiny_groups() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """10,000 groups of one or two rows."""
    rng = np.random.default_rng(0)
    tasks = np.concatenate([np.arange(10_000), rng.permutation(10_000)[:5_000]])
    X = rng.normal(size=(len(tasks), 3))
    return X, rng.normal(size=10_000)[tasks] + X[:, 0] + 0.3 * rng.normal(size=len(tasks)), tasks


def many_columns() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """200 rows with 20,000 columns."""
    X = np.random.default_rng(0).normal(size=(200, 20_000))
    return X, X[:, :5].sum(axis=1), np.arange(200) % 10


def wages(fold: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Columns, targets, women, and whether each row is a training row of a published fold."""
    import pandas as pd

    table = pd.read_csv(Path(os.environ["KERNELKIN_DATA"]) / "wages.csv.gz")
    X = table.drop(columns=["ln_wage", "idcode", "test_fold"]).to_numpy(float)
    return X, table["ln_wage"].to_numpy(float), table["idcode"].to_numpy(), (table["test_fold"] != fold).to_numpy()


def measure(name: str, size: tuple[int, int, int] | str, limit: float | None, fold: int = 0) -> None:
    """Fit once after a small fit, and print a row."""
    warnings.simplefilter("ignore")
    small = made(6, 5, 1)
    KinRegressor(random_state=0).fit(*small[:2], tasks=small[2])
    kept = None
    if size == "wages":
        X, y, tasks, kept = wages(fold)
    else:
        X, y, tasks = {"tiny": tiny_groups, "columns": many_columns}[size]() if isinstance(size, str) else made(*size)
    train = slice(None) if kept is None else kept
    began = time.perf_counter()
    model = KinRegressor(random_state=0, time_limit=limit).fit(X[train], y[train], tasks=tasks[train])
    seconds, peak = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    error = "" if kept is None else f"{((model.predict(X[~kept], tasks=tasks[~kept]) - y[~kept]) ** 2).mean():.4f}"
    print(f"| {name} | {seconds:.2f} | {peak:.2f} GB | {error} |", flush=True)


# Options of `kernelkin fit` for each kind of target.
COMMANDS = {
    "numbers": [],
    "numbers, two groupings": ["--task", "teacher"],
    "two classes": [],
    "three classes": [],
    "counts": ["--loss", "poisson"],
}


def make_table(path: Path, kind: str, rows: int) -> None:
    """Write a table of 30 schools and 20 teachers with four columns of numbers, two of texts, and the target y."""
    import pandas as pd

    rng = np.random.default_rng(0)
    X, school, teacher = rng.normal(size=(rows, 4)).round(3), rng.integers(0, 30, rows), rng.integers(0, 20, rows)
    sex, region = rng.choice(["f", "m"], rows), rng.choice(["north", "south", "east", "west"], rows)
    levels, slopes = 0.8 * rng.normal(size=30), 0.5 + 0.3 * rng.normal(size=30)
    f = np.sin(1.5 * X[:, 0]) + slopes[school] * X[:, 1] + 0.4 * (sex == "f") + levels[school]
    table = pd.DataFrame(X, columns=["age", "income", "hours", "dose"]).assign(sex=sex, region=region, school=school)
    odds = f + rng.logistic(size=rows)
    if "groupings" in kind:
        table["teacher"], f = teacher, f + (0.5 * rng.normal(size=20))[teacher]
    targets = {
        "two classes": np.where(odds > 0, "yes", "no"),
        "three classes": np.select([odds < -0.7, odds < 0.7], ["low", "middle"], "high"),
        "counts": rng.poisson(np.exp(0.5 * f)),
    }
    table.assign(y=targets.get(kind, f + 0.7 * rng.normal(size=rows))).to_csv(path, index=False)


def measure_commands() -> None:
    """Time `kernelkin fit` in new processes, after one run that fills caches."""
    print("| rows | target | s | processor time, s |\n| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        table, model = Path(folder, "table.csv"), Path(folder, "model.kin")
        for rows, kind in [(100, "numbers"), *((rows, kind) for rows in (200, 400, 600) for kind in COMMANDS)]:
            make_table(table, kind, rows)
            argv = ["fit", str(table), "--task", "school", *COMMANDS[kind], "--target", "y", "-o", str(model)]
            began, before = time.perf_counter(), processor_seconds()
            subprocess.run([sys.executable, "-m", "kernelkin", *argv], check=True, capture_output=True)
            seconds, used = time.perf_counter() - began, processor_seconds() - before
            if rows > 100:
                print(f"| {rows} | {kind} | {seconds:.1f} | {used:.1f} |", flush=True)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks kin_times --", description=__doc__)
    parser.add_argument("--folds", type=int, default=0, help="folds of the wages")
    parser.add_argument("--command", action="store_true", help="`kernelkin fit` on made tables")
    options = parser.parse_args(arguments)
    if options.command:
        measure_commands()
        return
    jobs: list[tuple] = [
        (f"{T} x {n} x {d}" + ("" if limit is None else f", limit {limit:g} s"), (T, n, d), limit)
        for T, n, d, limit in SIZES
    ]
    jobs += [
        ("10,000 groups of one or two rows, limit 20 s", "tiny", 20.0),
        ("200 rows x 20,000 columns", "columns", None),
    ]
    jobs += [(f"wages, fold {fold}", "wages", None, fold) for fold in range(options.folds)]
    print("| | s | memory | test error |\n| --- | --- | --- | --- |")
    for job in jobs:
        process = multiprocessing.get_context("spawn").Process(target=measure, args=job)
        process.start()
        process.join()
