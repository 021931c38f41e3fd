"""Time and memory of `KinRegressor` on made data of several sizes, with time limits, and on the wages of 4,696 women.

python -m benchmarks kin_times -- --folds 3

Each size is a process of its own, and so is its peak of memory. For two cores, start it under
`taskset -c 0,1`. Wages need the folder KERNELKIN_DATA.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from kernelkin import KinRegressor

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


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks kin_times --", description=__doc__)
    parser.add_argument("--folds", type=int, default=0, help="folds of the wages")
    options = parser.parse_args(arguments)
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
