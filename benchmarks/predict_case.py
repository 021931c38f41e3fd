"""A problem as contenders see it: standard units, the rows of each task, and folds that are the same for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelkin import KinClassifier, KinRegressor
from kernelkin.data import TaskData
from kernelkin.model_selection import Fold, make_folds, roc_auc

from .predict_sets import Problem

N_FOLDS = 5
# One array for each task.
Parts = list[np.ndarray]
# (candidate, X of each task, y of each task, X to predict of each task) -> values of each task
Predictor = Callable[[Any, Parts, Parts, Parts], Parts]


@dataclass(frozen=True)
class Case:
    """A problem in standard units.

    Columns are standardised by the training rows; real targets task by task, the spread of tasks with few rows drawn
    towards that of all. Classes are 0 and 1.

    Attributes
    ----------
    problem : columns and targets in standard units, as arrays.
    data : the training rows of `problem`, as read by kernelkin.
    folds : five, inside the training rows of each task.
    X_test, y_test : of each task; targets in standard units.
    location, spread : (T,), from standard units back to those of the data.
    deviation : (T,), the standard deviation of all targets of a task, training and test, in standard units.
    """

    problem: Problem
    data: TaskData
    folds: list[Fold]
    X_test: Parts
    y_test: Parts
    location: np.ndarray
    spread: np.ndarray
    deviation: np.ndarray
    classification: bool

    @property
    def n_tasks(self) -> int:
        return self.data.n_tasks

    @property
    def is_wide(self) -> bool:
        return self.problem.tasks is None

    @property
    def X(self) -> Parts:
        return [self.data.X[rows] for rows in self.data.rows]

    @property
    def y(self) -> Parts:
        return list(self.data.y)

    def cv(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The folds as rows of X."""
        return [fold.rows(self.data) for fold in self.folds]

    def by_task(self, values: np.ndarray) -> Parts:
        """Values of test rows, (q,) or wide (q, T) -> those of each task."""
        if self.is_wide:
            return list(np.asarray(values).T)
        return [values[self.problem.tasks_test == label] for label in self.data.labels]


def make_case(problem: Problem, classification: bool, split: int) -> Case:
    """Standardise a problem by its training rows, and make its folds."""
    center, scale = problem.X.mean(axis=0), problem.X.std(axis=0)
    scale = np.where(scale > 1e-12, scale, 1.0)
    X, X_test = (problem.X - center) / scale, (problem.X_test - center) / scale
    y, y_test = problem.y, problem.y_test
    if classification:
        y, y_test = ((part == problem.y.max()).astype(np.int64) for part in (y, y_test))
        location, spread = np.zeros(1), np.ones(1)
    else:
        location, spread = _moments(problem)
        y, y_test = _scaled(y, problem.tasks, location, spread), _scaled(y_test, problem.tasks_test, location, spread)
    scaled = Problem(X, y, problem.tasks, X_test, y_test, problem.tasks_test)
    model = KinClassifier() if classification else KinRegressor()
    data = model.training_data(X, y, problem.tasks)
    folds = make_folds(data, N_FOLDS, classification=classification, random_state=split)
    case = Case(scaled, data, folds, [], [], location, spread, np.ones(data.n_tasks), classification)
    parts = case.by_task(y_test)
    deviation = np.array([np.concatenate([a, b]).std() for a, b in zip(data.y, parts, strict=True)])
    places = X_test if case.is_wide else None
    tests = [X_test] * data.n_tasks if places is not None else case.by_task(X_test)
    return Case(scaled, data, folds, tests, parts, location, spread, deviation, classification)


def _moments(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Mean and spread of the training targets of each task, in the order of its labels."""
    if problem.tasks is None:
        parts = list(problem.y.T)
    else:
        parts = [problem.y[problem.tasks == task] for task in np.unique(problem.tasks)]
    count = np.array([len(part) for part in parts])
    variance = np.array([part.var() for part in parts])
    # The spread of tasks with few rows is drawn towards that of all, on a logarithmic scale: units may differ.
    pooled = np.exp(np.average(np.log(np.maximum(variance, 1e-300)), weights=count))
    shrunk = np.exp((count * np.log(np.maximum(variance, 1e-300)) + 2.0 * np.log(pooled)) / (count + 2.0))
    return np.array([part.mean() for part in parts]), np.sqrt(np.where(variance > 0, shrunk, 1.0))


def _scaled(y: np.ndarray, tasks: np.ndarray | None, location: np.ndarray, spread: np.ndarray) -> np.ndarray:
    if tasks is None:
        return (y - location) / spread
    code = np.unique(tasks, return_inverse=True)[1]
    return (y - location[code]) / spread[code]


def tune(case: Case, candidates: Sequence[Any], predict: Predictor, final: Predictor | None = None) -> Parts:
    """Choose the candidate with the least out-of-fold loss; return what it predicts for the test rows.

    `final` predicts in the end, where it is not the same (more trees, say).
    """
    losses = [_out_of_fold_loss(case, candidate, predict) for candidate in candidates] if len(candidates) > 1 else [0]
    best = candidates[int(np.argmin(losses))]
    return (final or predict)(best, case.X, case.y, case.X_test)


def _out_of_fold_loss(case: Case, candidate: Any, predict: Predictor) -> float:
    """The squared error over the rows of all tasks, or 1 - AUC, the mean over tasks."""
    X, y = case.X, case.y
    values: list[Parts] = [[] for _ in y]
    targets: list[Parts] = [[] for _ in y]
    for fold in case.folds:
        kept = list(zip(X, y, fold.kept, fold.held, strict=True))
        found = predict(
            candidate, [a[k] for a, _, k, _ in kept], [b[k] for _, b, k, _ in kept], [a[h] for a, _, _, h in kept]
        )
        for t, (_, b, _, h) in enumerate(kept):
            values[t].append(found[t])
            targets[t].append(b[h])
    pairs = [(np.concatenate(a), np.concatenate(b)) for a, b in zip(targets, values, strict=True)]
    if case.classification:
        return 1.0 - float(np.nanmean([auc(a, b) for a, b in pairs]))
    return float(np.concatenate([(a - b) ** 2 for a, b in pairs]).mean())


def auc(y: np.ndarray, values: np.ndarray) -> float:
    """The area under the curve; NaN where all rows have one class."""
    return roc_auc(y == 1, values, np.ones(len(y))) if len(y) else float("nan")


def scores(case: Case, values: Parts) -> dict[str, float]:
    """values: of the test rows of each task -> named scores; `loss` is what regret goes by.

    Regression: the mean over tasks of R^2, and R^2 of the rows of all tasks together, each in units of the standard
    deviation of its task. Classification: means over tasks of AUC and of accuracy.
    """
    if case.classification:
        areas = [auc(y, v) for y, v in zip(case.y_test, values, strict=True)]
        right = [np.mean((v > 0) == (y == 1)) for y, v in zip(case.y_test, values, strict=True) if len(y)]
        return {
            "auc": float(np.nanmean(areas)),
            "accuracy": float(np.mean(right)),
            "loss": 1 - float(np.nanmean(areas)),
        }
    errors, spreads, r2 = 0.0, 0.0, []
    for y, v, unit in zip(case.y_test, values, np.maximum(case.deviation, 1e-12), strict=True):
        if not len(y):
            continue
        error, spread = ((y - v) ** 2).sum() / unit**2, ((y - y.mean()) ** 2).sum() / unit**2
        errors, spreads = errors + error, spreads + spread
        if spread > 0:
            r2.append(1 - error / spread)
    return {"r2": float(np.mean(r2)), "pooled": float(1 - errors / spreads), "loss": float(errors / spreads)}
