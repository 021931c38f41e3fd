"""Out-of-fold errors pooled over the rows of all tasks: the judge of candidates.

The mean of a score over tasks with few rows is nearly all noise. Errors pooled over the rows of all tasks
distinguish candidates much better: the squared error of targets in units of their task's spread, or the logistic loss
of classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...data import Fold, TaskData
from ...uncertainty import pooled_link
from ..fitting.targets import classes_of_outputs
from .scoring import jackknife_error


class ErrorPool:
    """Pools the held-out rows of all tasks and folds.

    Parameters
    ----------
    data, folds : all rows, and which of them are held out.
    classification : whether targets are classes.
    """

    def __init__(self, data: TaskData, folds: Sequence[Fold], *, classification: bool) -> None:
        self.data, self.folds, self.classification = data, folds, classification
        self.classes = [np.unique(y) for y in data.y] if classification else []
        self.weights = [data.sample_weight[rows] for rows in data.rows]

    def measure(self, outputs: Sequence[Sequence[np.ndarray]]) -> tuple[float, float]:
        """outputs: for each fold and task, values (q_t, m) -> the mean over rows of all tasks, and its standard error.

        The latter is a jackknife error over folds, or over rows if there is one fold.
        """
        losses, weights, fold = self._losses(outputs)
        total = np.bincount(fold, weights * losses, len(self.folds))
        count = np.bincount(fold, weights, len(self.folds))
        error = float(total.sum() / count.sum())
        if len(self.folds) == 1:
            return error, _standard_error(losses, weights)
        without = (total.sum() - total) / np.maximum(count.sum() - count, 1e-300)
        return error, jackknife_error(without)

    def _losses(self, outputs: Sequence[Sequence[np.ndarray]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the loss, weight and fold of each held-out row."""
        values, targets, weights, fold = self._gather(outputs)
        if not self.classification:
            return (targets - values) ** 2, weights, fold
        slope, offset = pooled_link(values, targets > 0, weights)
        return np.logaddexp(0.0, -targets * (slope * values + offset)), weights, fold

    def _gather(self, outputs: Sequence[Sequence[np.ndarray]]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return values, coded targets, weights and folds of all held-out rows and outputs, flat."""
        columns: list[tuple[np.ndarray, ...]] = []
        for f, (fold, values_of) in enumerate(zip(self.folds, outputs, strict=True)):
            for t, values in enumerate(values_of):
                held = fold.held[t]
                coded = self._coded(self.data.y[t], fold.kept[t], held, values.shape[1])
                weight = np.repeat(self.weights[t][held], values.shape[1])
                columns.append((values.ravel(), coded.ravel(), weight, np.full(values.size, f)))
        values, targets, weights, fold_of = (np.concatenate(column) for column in zip(*columns, strict=True))
        return values, targets, weights, fold_of

    def _coded(self, y: np.ndarray, kept: np.ndarray, held: np.ndarray, width: int) -> np.ndarray:
        if not self.classification:
            return y[held, np.newaxis]
        classes = classes_of_outputs(y[kept], self.classes, width)
        positive = y[held, np.newaxis] == (classes if width > 1 else classes[1:])
        return np.where(positive, 1.0, -1.0)


def _standard_error(values: np.ndarray, weights: np.ndarray) -> float:
    """Return the standard error of a weighted mean over rows."""
    residuals = values - np.average(values, weights=weights)
    return float(np.sqrt((weights**2 * residuals**2).sum()) / weights.sum())


class PooledScorer:
    """Scores candidates, the larger the better: a pooled R^2, or the logistic loss with its sign changed."""

    def __init__(self, data: TaskData, folds: Sequence[Fold], *, classification: bool) -> None:
        self.n_folds = len(folds)
        self._level = 0.0 if classification else 1.0
        self._spread = np.ones(data.n_tasks) if classification else target_spreads(data)
        y = data.y if classification else tuple(y / s for y, s in zip(data.y, self._spread, strict=True))
        data = replace(data, y=y)
        self._pool = ErrorPool(data, folds, classification=classification)
        self._each = [ErrorPool(data, [fold], classification=classification) for fold in folds]

    def score(self, outputs: Sequence[Sequence[np.ndarray]]) -> tuple[float, float, np.ndarray]:
        """outputs: for each fold and task, values (q_t, m) -> the score, its standard error, the score of each fold."""
        scaled = [[part / s for part, s in zip(fold, self._spread, strict=True)] for fold in outputs]
        error, standard_error = self._pool.measure(scaled)
        each = [pool.measure([fold])[0] for pool, fold in zip(self._each, scaled, strict=True)]
        return self._level - error, standard_error, self._level - np.array(each)


def target_spreads(data: TaskData) -> np.ndarray:
    """Return the spread (T,) of the targets of each task.

    Spreads of tasks with few rows are drawn towards the others', as far as these vary no more than chance would have
    it: logarithms of variances as normal values around the one of a typical task, sampled with variance 2 / (n - 1).
    """
    variance = np.array([_variance(y, data.sample_weight[rows]) for rows, y in zip(data.rows, data.y, strict=True)])
    count = np.array([len(y) for y in data.y])
    known = (count > 1) & (variance > 0)
    if not known.any():
        return np.ones(data.n_tasks)
    logs, sampling = np.log(variance[known]), 2.0 / (count[known] - 1.0)
    typical = np.average(logs, weights=1.0 / sampling)
    real = max(float(np.mean((logs - typical) ** 2 - sampling)), 0.0)
    drawn = np.full(data.n_tasks, typical)
    drawn[known] += real / (real + sampling) * (logs - typical)
    return np.exp(0.5 * drawn)


def _variance(y: np.ndarray, weight: np.ndarray) -> float:
    return float(np.average((y - np.average(y, weights=weight)) ** 2, weights=weight))
