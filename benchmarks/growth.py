"""Time of `KinRegressor` against the number of rows, beside GPBoost's mixed model; a cluster that loses a worker.

python -m benchmarks growth -- --rows 10000 100000 1000000
python -m benchmarks growth -- --cluster 1000000          two Dask workers of 4 GB, one of them killed halfway
python -m benchmarks growth -- --device cuda               wages and insteval, fold 0, on a GPU (needs KERNELKIN_DATA)

Rows come from a generator: ten rows a group, five columns; levels, slopes and a smooth function. Each fit is a process
of its own, and so is its peak of memory. GPBoost (`pip install gpboost`) fits levels and slopes of groups and a linear
part.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import signal
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

COLUMNS, ROWS_OF_GROUP, TEST_ROWS, NOISE = 5, 10, 20_000, 0.3


def made(n_rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows (N, 5), targets and groups: a level and a slope for each group, a smooth of two columns, and noise."""
    rng = np.random.default_rng(seed)
    groups = np.arange(n_rows) % max(n_rows // ROWS_OF_GROUP, 1)
    X = rng.normal(size=(n_rows, COLUMNS))
    level, slope = rng.normal(size=(2, groups.max() + 1))
    y = level[groups] + (0.5 * slope[groups] + 0.3) * X[:, 0] + np.sin(2 * X[:, 1]) * X[:, 2]
    return X, y + NOISE * rng.normal(size=n_rows), groups


def fit_kin(X: np.ndarray, y: np.ndarray, groups: np.ndarray, **options: Any) -> Any:
    from kernelkin import KinRegressor

    model = KinRegressor(random_state=0, **options).fit(X, y, tasks=groups)
    print("   ", model.explain(), flush=True)
    return lambda Q, of: model.predict(Q, tasks=of)


def fit_gpboost(X: np.ndarray, y: np.ndarray, groups: np.ndarray) -> Any:
    import gpboost

    ones = np.column_stack([np.ones(len(X)), X])
    slopes = {"group_rand_coef_data": X, "ind_effect_group_rand_coef": [1] * X.shape[1]}
    model = gpboost.GPModel(group_data=groups, likelihood="gaussian", **slopes)
    model.fit(y=y, X=ones)

    def predict(Q: np.ndarray, of: np.ndarray) -> np.ndarray:
        given = {"group_rand_coef_data_pred": Q, "X_pred": np.column_stack([np.ones(len(Q)), Q])}
        return model.predict(group_data_pred=of, predict_var=False, **given)["mu"]

    return predict


FITS = {"KinRegressor": fit_kin, "GPBoost, GPModel": fit_gpboost}


def measure(name: str, n_rows: int, answer: Any) -> None:
    """Fit once and print a row: seconds of wall and processor time, memory, and the error beyond the noise."""
    warnings.simplefilter("ignore")
    X, y, groups = made(n_rows + min(TEST_ROWS, n_rows // 5))
    train = np.arange(len(X)) < n_rows
    began, cpu = time.perf_counter(), time.process_time()
    predict = FITS[name](X[train], y[train], groups[train])
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    error = float(((predict(X[~train], groups[~train]) - y[~train]) ** 2).mean())
    print(f"| {n_rows:,} | {name} | {seconds:.1f} | {cpu:.1f} | {peak:.2f} GB | {error:.4f} |", flush=True)
    answer.put(seconds)


def separately(function: Any, *arguments: Any) -> Any:
    """Call a function in a new process; return what it puts into the queue, None if it fails."""
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=function, args=(*arguments, answer))
    process.start()
    process.join()
    return answer.get() if process.exitcode == 0 else None


def growth(rows: Sequence[int], names: Sequence[str]) -> None:
    print("| rows | model | s | processor s | memory | test error |\n| --- | --- | --- | --- | --- | --- |")
    taken = {name: [separately(measure, name, n) for n in rows] for name in names}
    for name, seconds in taken.items():
        known = [(n, s) for n, s in zip(rows, seconds, strict=True) if s is not None]
        if len(known) > 1:
            slope = np.polyfit(*np.log(np.array(known).T), 1)[0]
            print(f"- {name}: time grows as rows to the power {slope:.2f}")


def cluster(n_rows: int, kill: bool = True) -> None:
    """Fit on two Dask workers of 4 GB; one is killed after the first structure. Compare with threads."""
    from distributed import Client, LocalCluster

    X, y, groups = made(n_rows)
    Q, _, of = made(1_000, seed=1)
    started, killed = time.perf_counter(), []
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, memory_limit="4GB", dashboard_address=":0") as workers,
        Client(workers) as client,
    ):

        def callback(spent: float, total: float) -> None:
            if kill and not killed:
                killed.append(min(client.run(os.getpid).values()))
                os.kill(killed[0], signal.SIGKILL)

        there = fit_kin(X, y, groups, engine=client, callback=callback)(Q, of)
    seconds = time.perf_counter() - started
    here = fit_kin(X, y, groups)(Q, of)
    gap = float(np.abs(there - here).max())
    print(
        f"{n_rows:,} rows on two workers of 4 GB: {seconds:.0f} s, killed: {len(killed)}; largest difference {gap:.1e}"
    )


def on_device(device: str) -> None:
    """Wages and insteval, fold 0, on a device of torch: seconds and test error."""
    import pandas as pd

    from kernelkin import KinRegressor

    for name, target, column in (("wages", "ln_wage", "idcode"), ("insteval", "y", ["s", "d"])):
        table = pd.read_csv(Path(os.environ["KERNELKIN_DATA"]) / f"{name}.csv.gz")
        table = table.astype({"dept": str}) if name == "insteval" else table
        X, y, train = table.drop(columns=[target, "test_fold"]), table[target].to_numpy(float), table["test_fold"] != 0
        # The first fit also starts the device.
        KinRegressor(task_column=column, device=device).fit(X[:400], y[:400])
        began = time.perf_counter()
        model = KinRegressor(task_column=column, device=device, random_state=0).fit(X[train], y[train])
        seconds = time.perf_counter() - began
        error = ((model.predict(X[~train]) - y[~train]) ** 2).mean()
        print(f"{name}, fold 0, {device}: {seconds:.1f} s, test error {error:.4f}", flush=True)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks growth --", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--models", nargs="*", default=list(FITS))
    parser.add_argument("--cluster", type=int, help="rows of a fit on two Dask workers, one of which is killed")
    parser.add_argument("--device", help="fit wages and insteval on this device of torch")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    if options.cluster:
        cluster(options.cluster)
    elif options.device:
        on_device(options.device)
    else:
        growth(options.rows, options.models)
