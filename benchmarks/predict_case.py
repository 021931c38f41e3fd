"""A problem as contenders see it: standard units, the rows of each task, and folds; how they are tuned and scored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata

from .predict_sets import DataSet, Problem

N_FOLDS = 5
# One array for each task.
Parts = list[np.ndarray]
# (candidate, X of each task, y of each task, X to predict of each task) -> values of each task
Predictor = Callable[[Any, Parts, Parts, Parts], Parts]


@dataclass(frozen=True)
class Case:
    """A problem, and the same in standard units.

    Columns are standardised by the training rows. Real targets are standardised task by task in the suite
    "standardised", the spread of tasks with few rows drawn towards that of all; in other suites once, over all rows.
    Classes are 0 and 1.

    Attributes
    ----------
    problem : what Kin is given: standard units in the suite "standardised", otherwise the data as they are.
    X, y, X_test, y_test : of each task, in standard units.
    folds : fold of each training row of the problem, (n,); -1 for rows that are never held out.
    location, spread : (T,), from standard units back to those of the data.
    suite, classification : as of the data set.
    """

    problem: Problem
    X: Parts
    y: Parts
    X_test: Parts
    y_test: Parts
    folds: np.ndarray
    location: np.ndarray
    spread: np.ndarray
    suite: str
    classification: bool

    @property
    def n_tasks(self) -> int:
        return len(self.y)

    @property
    def is_wide(self) -> bool:
        return self.problem.tasks is None

    def cv(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The folds as rows of X."""
        return [(np.flatnonzero(self.folds != i), np.flatnonzero(self.folds == i)) for i in range(N_FOLDS)]

    def by_task(self, values: np.ndarray) -> Parts:
        """Values of test rows, (q,) or wide (q, T) -> those of each task."""
        return split_by_task(values, self.problem.tasks, self.problem.tasks_test)


def split_by_task(values: np.ndarray, tasks: np.ndarray | None, tasks_of_rows: np.ndarray | None) -> Parts:
    """Values of rows, wide (n, T) or with the task of each, -> those of each task, in the order of labels."""
    if tasks is None:
        return list(np.asarray(values).T)
    return [values[tasks_of_rows == label] for label in np.unique(tasks)]


def make_case(problem: Problem, data_set: DataSet, split: int) -> Case:
    """Standardise a problem by its training rows, and make its folds."""
    location, spread = _units(problem, data_set)
    if data_set.classification:
        y, y_test = ((part == problem.y.max()).astype(np.int64) for part in (problem.y, problem.y_test))
    else:
        y = _scaled(problem.y, problem.tasks, problem.tasks, location, spread)
        y_test = _scaled(problem.y_test, problem.tasks, problem.tasks_test, location, spread)
    center, scale = problem.X.mean(axis=0), problem.X.std(axis=0)
    scale = np.where(scale > 1e-12, scale, 1.0)
    X, X_test = (problem.X - center) / scale, (problem.X_test - center) / scale
    scaled = Problem(X, y, problem.tasks, X_test, y_test, problem.tasks_test)
    return Case(
        scaled if data_set.suite == "standardised" else problem,
        *_rows_of_tasks(X, y, problem.tasks, problem.tasks),
        *_rows_of_tasks(X_test, y_test, problem.tasks, problem.tasks_test),
        make_folds(scaled, data_set.classification, split),
        location,
        spread,
        data_set.suite,
        data_set.classification,
    )


def _rows_of_tasks(
    X: np.ndarray, y: np.ndarray, tasks: np.ndarray | None, tasks_of_rows: np.ndarray | None
) -> tuple[Parts, Parts]:
    """Columns and targets of each task; tasks of wide data share their columns."""
    parts = split_by_task(y, tasks, tasks_of_rows)
    return [X] * len(parts) if tasks is None else split_by_task(X, tasks, tasks_of_rows), parts


def _units(problem: Problem, data_set: DataSet) -> tuple[np.ndarray, np.ndarray]:
    """Mean and spread of the training targets of each task (or of all), in the order of labels."""
    parts = split_by_task(problem.y, problem.tasks, problem.tasks)
    if data_set.classification:
        return np.zeros(len(parts)), np.ones(len(parts))
    if data_set.suite != "standardised":
        return np.full(len(parts), problem.y.mean()), np.full(len(parts), problem.y.std())
    count = np.array([len(part) for part in parts])
    variance = np.array([part.var() for part in parts])
    # The spread of tasks with few rows is drawn towards that of all, on a logarithmic scale: units may differ.
    pooled = np.exp(np.average(np.log(np.maximum(variance, 1e-300)), weights=count))
    shrunk = np.exp((count * np.log(np.maximum(variance, 1e-300)) + 2.0 * np.log(pooled)) / (count + 2.0))
    return np.array([part.mean() for part in parts]), np.sqrt(np.where(variance > 0, shrunk, 1.0))


def _scaled(
    y: np.ndarray, tasks: np.ndarray | None, tasks_of_rows: np.ndarray | None, location: np.ndarray, spread: np.ndarray
) -> np.ndarray:
    if tasks is None:
        return (y - location) / spread
    code = np.searchsorted(np.unique(tasks), tasks_of_rows)
    return (y - location[code]) / spread[code]


def make_folds(problem: Problem, classification: bool, seed: int) -> np.ndarray:
    """The fold of each training row: inside each task and class in turn; single rows are never held out (-1)."""
    rng, n = np.random.default_rng(seed), len(problem.X)
    classes = np.unique(problem.y, axis=0, return_inverse=True)[1].ravel() if classification else np.zeros(n, int)
    tasks = np.zeros(n) if problem.tasks is None else problem.tasks
    folds = np.full(n, -1)
    for label in np.unique(tasks):
        rows = rng.permutation(np.flatnonzero(tasks == label))
        rows = rows[np.argsort(classes[rows], kind="stable")]
        number = rng.permutation(N_FOLDS)[np.arange(len(rows)) % N_FOLDS]
        alone = np.bincount(classes[rows])[classes[rows]] == 1
        folds[rows] = np.where(alone, -1, number)
    return folds


def tune(case: Case, candidates: Sequence[Any], predict: Predictor, final: Predictor | None = None) -> Parts:
    """Choose the candidate with the least out-of-fold loss; return what it predicts for the test rows.

    `final` predicts in the end, where it is not the same (more trees, say).
    """
    losses = [_out_of_fold_loss(case, candidate, predict) for candidate in candidates] if len(candidates) > 1 else [0]
    best = candidates[int(np.argmin(losses))]
    return (final or predict)(best, case.X, case.y, case.X_test)


def _out_of_fold_loss(case: Case, candidate: Any, predict: Predictor) -> float:
    """The squared error over the rows of all tasks; for classes 1 - AUC, the mean over tasks, or the log loss.

    Where rows of all groups are ranked together, the AUC of held-out rows would mislead: a positive row that is held
    out leaves fewer positives in its small group, so that the levels of groups look worse than they are.
    """
    if case.is_wide:
        folds = [case.folds] * case.n_tasks
    else:
        folds = split_by_task(case.folds, case.problem.tasks, case.problem.tasks)
    values = [np.full(len(part), np.nan) for part in case.y]
    for i in range(N_FOLDS):
        kept, held = ([fold != i for fold in folds], [fold == i for fold in folds])
        if not any(part.any() for part in held):
            continue
        X, y, X_held = (
            [part[rows] for part, rows in zip(parts, chosen, strict=True)]
            for parts, chosen in ((case.X, kept), (case.y, kept), (case.X, held))
        )
        for value, rows, found in zip(values, held, predict(candidate, X, y, X_held), strict=True):
            value[rows] = found
    judged = [(y[fold >= 0], value[fold >= 0]) for y, value, fold in zip(case.y, values, folds, strict=True)]
    if case.classification:
        y, found = zip(*judged, strict=True)
        if case.suite == "standardised":
            return 1.0 - _mean_auc(case, y, found)
        # Contenders give log odds.
        sign = 2.0 * np.concatenate(y) - 1.0
        return float(np.logaddexp(0.0, -sign * np.concatenate(found)).mean())
    loss = float(np.concatenate([(y - value) ** 2 for y, value in judged]).mean())
    return loss if np.isfinite(loss) else np.inf


def _mean_auc(case: Case, y: Sequence[np.ndarray], values: Sequence[np.ndarray]) -> float:
    """The mean over tasks in the suite "standardised", otherwise that of all rows."""
    if case.suite != "standardised":
        return auc(np.concatenate(y), np.concatenate(values))
    return float(np.nanmean([auc(a, b) for a, b in zip(y, values, strict=True)]))


def auc(y: np.ndarray, values: np.ndarray) -> float:
    """The share of pairs of both classes in order, ties counting half; NaN where all rows have one class."""
    positive = y == 1
    n = int(positive.sum())
    if n in (0, len(y)):
        return float("nan")
    return float((rankdata(values)[positive].sum() - n * (n + 1) / 2) / (n * (len(y) - n)))


def scores(case: Case, values: Parts) -> dict[str, float]:
    """values: of the test rows of each task -> named scores; `loss` is what regret goes by.

    Suite "standardised". Regression: the mean over tasks of R^2, and R^2 of the rows of all tasks together, each in
    units of the standard deviation of its task. Classification: means over tasks of AUC and of accuracy.
    Other suites: the squared error over the variance of all test rows, or 1 - AUC of these.
    """
    if case.classification:
        area = _mean_auc(case, case.y_test, values)
        right = [np.mean((v > 0) == (y == 1)) for y, v in zip(case.y_test, values, strict=True) if len(y)]
        return {"auc": area, "accuracy": float(np.mean(right)), "loss": 1 - area}
    if case.suite != "standardised":
        y, v = np.concatenate(case.y_test), np.concatenate(values)
        return {"loss": float(((y - v) ** 2).mean() / y.var())}
    errors, spreads, r2 = 0.0, 0.0, []
    for y_train, y, v in zip(case.y, case.y_test, values, strict=True):
        if not len(y):
            continue
        unit = max(np.concatenate([y_train, y]).std(), 1e-12)
        error, spread = ((y - v) ** 2).sum() / unit**2, ((y - y.mean()) ** 2).sum() / unit**2
        errors, spreads = errors + error, spreads + spread
        if spread > 0:
            r2.append(1 - error / spread)
    return {"r2": float(np.mean(r2)), "pooled": float(1 - errors / spreads), "loss": float(errors / spreads)}
