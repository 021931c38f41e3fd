"""Time of every model against a plain loop over scikit-learn's learners with as many machine solves.

The loop computes the Gram matrices once, and then, as often as the model solved all machines, combines them with the
model's final weights and fits scikit-learn's SVC or KernelRidge on each. Models that make one machine of all tasks
(MTFL and MTRL from the side of the tasks) are compared with one learner on a Gram of that size, linear models with
scikit-learn's: MRCE with a lasso for each task and a graphical lasso in each round, FES with a ridge regression in each
step. One thread, but for MTFL and MTRL on the whole school data. Needs the landmine, SARCOS and school data.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.covariance import graphical_lasso
from sklearn.dummy import DummyRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Lasso, LinearRegression, Ridge
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import kernelkin
from experiments.data_sets import load_landmine, load_sarcos, load_school
from kernelkin.kernels.families import resolve_kernels

from .harness import OURS, Contender, Goal, Report, Row, pinned, race, threads

DEGREES = (1, 2, 3, 4, 5)
WIDTHS = (1.0, 2.0, 4.0, 8.0, 16.0)
# Those that other benchmarks time, and a search, which has no such loop beside it.
SKIPPED = ("MK-MTRL", "Two-stage MK-MTRL", "Kin")


def landmine(rows: int = 80) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """19 tasks of 80 rows, 9 standardised features, 6% positive."""
    data, rng = load_landmine(), np.random.default_rng(0)
    kept = []
    for task in np.unique(data.tasks):
        order = rng.permutation(np.flatnonzero(data.tasks == task))
        positive = order[data.target[order] == 1][:8]
        kept.append(np.concatenate([positive, order[data.target[order] != 1][: rows - len(positive)]]))
    index = np.concatenate(kept)
    return StandardScaler().fit_transform(data.data[index]), data.target[index], data.tasks[index]


def sarcos(rows: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """7 tasks on the same 300 rows, 21 standardised features."""
    data, rng = load_sarcos(), np.random.default_rng(0)
    index = rng.permutation(len(data.data))[:rows]
    return StandardScaler().fit_transform(data.data[index]), StandardScaler().fit_transform(data.target[index])


# What fits the model, what loops over scikit-learn's learners, and how many solves of all machines both make.
Pair = tuple[Callable[[], Any], Callable[[], Any], int]


def solves(model: Any) -> int:
    """How often the model solved the machines of all tasks."""
    if "MKLSA" not in type(model).__name__:
        return model.n_iter_
    checks = model.n_iter_
    return min(2 ** (checks - 1), model.max_iter) + checks


def classify(name: str, estimator: type) -> Pair:
    X, y, tasks = landmine()
    kernels = kernelkin.polynomial_kernels(DEGREES)
    model = estimator(kernels, C=1.0, class_weight="balanced", n_jobs=1)
    model.fit(X, y, tasks=tasks)
    joint = name in ("MTFL", "MTRL")
    groups = [np.arange(len(X))] if joint else [np.flatnonzero(tasks == t) for t in np.unique(tasks)]
    used = [resolve_kernels(kernels)[k].name in model.kernel_names_ for k in range(len(DEGREES))]
    degrees = np.array(DEGREES)[used]

    def loop() -> None:
        stacks = [
            np.stack([scaled(polynomial_kernel(X[r], degree=d, gamma=1, coef0=1)) for d in degrees]) for r in groups
        ]
        for _ in range(solves(model)):
            for t, (rows, stack) in enumerate(zip(groups, stacks, strict=True)):
                gram = np.tensordot(model.kernel_weights_[t], stack, 1)
                SVC(kernel="precomputed", class_weight="balanced").fit(gram, y[rows])

    return lambda: model.fit(X, y, tasks=tasks), loop, solves(model)


def regress(name: str, estimator: type) -> Pair:
    X, Y = sarcos()
    kernels = kernelkin.gaussian_kernels(WIDTHS, relative=False)
    model = estimator(kernels, C=1.0, n_jobs=1)
    model.fit(X, Y)
    joint = name in ("MTFL", "MTRL")
    names = [kernel.name for kernel in resolve_kernels(kernels)]
    widths = [width for width, kernel in zip(WIDTHS, names, strict=True) if kernel in model.kernel_names_]

    def loop() -> None:
        stack = np.stack([rbf_kernel(X, gamma=0.5 / width**2) for width in widths])
        for _ in range(model.n_iter_):
            if joint:
                gram = np.tensordot(model.kernel_weights_[0], stack, 1)
                KernelRidge(alpha=1.0, kernel="precomputed").fit(np.kron(model.task_relationship_, gram), Y.T.ravel())
                continue
            for t in range(Y.shape[1]):
                gram = np.tensordot(model.kernel_weights_[t], stack, 1)
                KernelRidge(alpha=1.0, kernel="precomputed").fit(gram, Y[:, t])

    return lambda: model.fit(X, Y), loop, model.n_iter_


def linear(name: str, estimator: type) -> Pair:
    """OLS, Lasso and the mean of each school."""
    theirs = {"OLS": LinearRegression(), "Lasso": Lasso(0.1), "Mean": DummyRegressor()}[name]
    data = load_school()
    groups = [np.flatnonzero(data.tasks == t) for t in np.unique(data.tasks)]
    return (
        lambda: estimator().fit(data.data, data.target, tasks=data.tasks),
        lambda: [theirs.fit(data.data[rows], data.target[rows]) for rows in groups],
        1,
    )


def multivariate(name: str, estimator: type) -> Pair:
    """MRCE and FES, as many rounds or steps as the model took."""
    X, Y = sarcos()
    model = estimator().fit(X, Y)

    def rounds() -> None:
        for _ in range(model.n_iter_):
            found = np.column_stack([Lasso(0.05).fit(X, y).predict(X) for y in Y.T])
            graphical_lasso(np.cov((Y - found).T), 0.1)

    def steps() -> None:
        for _ in range(model.n_iter_):
            Ridge(0.1).fit(X, Y)

    return lambda: model.fit(X, Y), rounds if name == "MRCE" else steps, model.n_iter_


def scaled(gram: np.ndarray) -> np.ndarray:
    return gram / gram.diagonal().mean()


def comparisons() -> list[tuple[str, str, type, Callable[[str, type], Pair]]]:
    """The registered models, with the data that each is compared on."""
    found: list[tuple[str, str, type, Callable[[str, type], Pair]]] = []
    for model in kernelkin.all_models():
        if model.name in SKIPPED:
            continue
        if model.classifier is not None:
            found.append((model.name, "landmine", model.classifier, classify))
        if model.regressor is not None and hasattr(model.regressor(), "kernels"):
            found.append((model.name, "sarcos", model.regressor, regress))
        elif model.name in ("MRCE", "FES"):
            found.append((model.name, "sarcos", model.regressor, multivariate))
        elif model.regressor is not None:
            found.append((model.name, "school", model.regressor, linear))
    return found


def school(name: str, C: float, tol: float) -> Contender:
    """MTFL or MTRL on 139 tasks, 15,362 rows and a linear kernel."""
    data = load_school()
    estimator = kernelkin.registry.find_model(name).regressor
    assert estimator is not None
    model = estimator("linear", C=C, tol=tol, n_jobs=threads(), max_iter=500)
    return Contender(
        f"{name}, C={C:g}, tol={tol:g}",
        lambda: model.fit(data.data, data.target, tasks=data.tasks),
        lambda m: {"solves": m.n_iter_, "gap": m.duality_gap_ / m.objective_},
    )


def run(repetitions: int) -> Report:
    warnings.simplefilter("ignore", ConvergenceWarning)
    rows: list[Row] = []
    goals = []
    with pinned(1):
        for name, data, estimator, compare in comparisons():
            ours, loop, count = compare(name, estimator)
            contenders = [Contender(OURS, ours, lambda _, count=count: {"solves": count}), Contender("loop", loop)]
            rows += race(f"{name}, {data}", contenders, repetitions)
            times = 1 / rows[-1].times
            goals.append(Goal(f"{name}, {data}: <= 2x the loop", f"{times:.2f}x", times <= 2))
    whole = [school(name, C, tol) for name in ("MTFL", "MTRL") for tol in (1e-3, 1e-6) for C in (1.0, 100.0)]
    rows += race("school, linear kernel", whole, repetitions)
    slowest = max(row.wall for row in rows[-len(whole) :])
    goals.append(Goal("MTFL and MTRL on school in a minute", f"{slowest:.1f} s at most", slowest <= 60))
    return Report("the other models against loops over scikit-learn", rows, goals)
