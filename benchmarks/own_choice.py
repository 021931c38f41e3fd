"""Whether a choice for each task pays, on rows that were held out.

- kin: KinRegressor with and without candidates that choose kernel weights and strength for each target of wide data;
- costs: `MKMTRLRegressorCV` with one C, and with one for each task with rows of its own (`per_task=True`).

`python -m benchmarks own_choice -- kin costs` prints two splits of each set: the held-out error relative to the
variance of the targets, the mean over tasks. SARCOS and schools need the paper's data.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from kernelkin import KinRegressor, MKMTRLRegressorCV
from kernelkin.auto import candidates

from .predict_sets import Problem, data_sets

SPLITS = 2
COSTS = np.logspace(-1, 3, 5).tolist()


def main(arguments: list[str]) -> None:
    parts: dict[str, Callable[[], Iterator[str]]] = {"kin": kin_lines, "costs": cost_lines}
    for name in arguments or parts:
        for line in parts[name]():
            print(line, flush=True)


def kin_lines() -> Iterator[str]:
    """Rows of a table: error and CPU seconds without and with the candidates."""
    yield "| set | kernels | without | with | CPU s | CPU s | weight |\n|---|---|---|---|---|---|---|"
    sets = data_sets()
    chosen: list[tuple[str, Callable[[int], Problem], Any]] = [
        ("made, 50 rows", lambda split: wide_problem(split, 50), "auto"),
        ("made, 200 rows", lambda split: wide_problem(split, 200), "auto"),
        ("sarcos 50, training rows", sets["sarcos 50, training rows"].make, "auto"),
        ("sarcos 200, training rows", sets["sarcos 200, training rows"].make, "auto"),
        ("sarcos 200, training rows", sets["sarcos 200, training rows"].make, None),
    ]
    for name, make, kernels in chosen:
        for split in range(SPLITS):
            problem = make(split)
            found = [_kin(problem, kernels, rows) for rows in (10**9, candidates.OWN_CHOICE_ROWS)]
            (before, apart, _), (after, beside, weight) = found
            yield f"| {name} | {kernels} | {before:.4f} | {after:.4f} | {apart:.1f} | {beside:.1f} | {weight:.2f} |"


def _kin(problem: Problem, kernels: Any, least_rows: int) -> tuple[float, float, float]:
    """Error, CPU seconds, and the weight of the candidates, which are tried from so many rows on."""
    known, candidates.OWN_CHOICE_ROWS = candidates.OWN_CHOICE_ROWS, least_rows
    try:
        began = time.process_time()
        model = KinRegressor(kernels, cv=5 if kernels is None else 3, random_state=0).fit(problem.X, problem.y)
        seconds = time.process_time() - began
    finally:
        candidates.OWN_CHOICE_ROWS = known
    names = model.search_results_["candidate"].tolist()
    own = [name.startswith(candidates.OWN_CHOICE) for name in names]
    return _error(model, problem), seconds, float(model.search_results_["weight"][own].sum())


def cost_lines() -> Iterator[str]:
    """Rows of a table: error with one C, and that with one for each task relative to it."""
    yield "| set | one C | relative error |\n|---|---|---|"
    sets = {name: each.make for name, each in data_sets().items()}
    for rows in (30, 60, 150):
        sets[f"made, {rows} rows, noise 0.05 to 3"] = lambda split, n=rows: long_problem(split, n, (-1.3, 0.5))
    sets["made, 60 rows, noise 0.3"] = lambda split: long_problem(split, 60, (-0.5, -0.5))
    real = ("school, 20 schools", "diabetes", "related, regression", "wine")
    for name in (*(name for name in sets if name.startswith("made, ")), *real):
        for split in range(SPLITS):
            problem, grid = sets[name](split), {"C": COSTS, "parsimony": [0.5]}
            models = [MKMTRLRegressorCV(grid=grid, per_task=own, random_state=0) for own in (False, True)]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                errors = [_error(model.fit(problem.X, problem.y, tasks=problem.tasks), problem) for model in models]
            yield f"| {name} | {errors[0]:.4f} | {errors[1] / errors[0]:.3f} |"


def _error(model: Any, problem: Problem) -> float:
    values, tasks = model.predict(problem.X_test, tasks=problem.tasks_test), problem.tasks_test
    squares = (values - problem.y_test) ** 2
    if tasks is None:
        return float((squares.mean(axis=0) / problem.y_test.var(axis=0)).mean())
    return float(np.mean([squares[tasks == t].mean() / problem.y_test[tasks == t].var() for t in np.unique(tasks)]))


def wide_problem(seed: int, n: int, n_tasks: int = 16, n_test: int = 500) -> Problem:
    """Targets of four groups of three columns, unevenly weighted, with noise from 0.2 to 2."""
    rng = np.random.default_rng(seed)
    X, weights, Y = rng.normal(size=(n + n_test, 12)), rng.uniform(size=(4, n_tasks)) ** 3, 0.0
    for k in range(4):
        along = X[:, 3 * k : 3 * k + 3] @ rng.normal(size=(3, n_tasks))
        Y = Y + weights[k] * (np.sin(along) if k % 2 else along)
    Y = Y / np.std(Y, axis=0) + np.logspace(-0.7, 0.3, n_tasks) * rng.normal(size=(n + n_test, n_tasks))
    return Problem(X[:n], Y[:n], None, X[n:], Y[n:], None)


def long_problem(seed: int, n: int, levels: tuple[float, float], n_tasks: int = 20, n_test: int = 300) -> Problem:
    """Tasks with functions and rows of their own; noise from 10 to the one level to 10 to the other."""
    rng = np.random.default_rng(seed)
    directions, noise = rng.normal(size=(n_tasks, 2, 4)), np.logspace(*levels, n_tasks)

    def draw(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        X, tasks = rng.normal(size=(count * n_tasks, 4)), np.repeat(np.arange(n_tasks), count)
        along = np.einsum("ij,ikj->ik", X, directions[tasks])
        return X, np.sin(along[:, 0]) + 0.3 * along[:, 1] + noise[tasks] * rng.normal(size=len(X)), tasks

    return Problem(*draw(n), *draw(n_test))
