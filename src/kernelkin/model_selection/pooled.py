"""Out-of-fold errors pooled over the rows of all tasks: the judge of candidates.

The mean of a score over tasks with few rows is nearly all noise. Errors pooled over the rows of all tasks
distinguish candidates much better: the squared error of targets in units of their task's spread, or the logistic loss
of classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..data import Fold, TaskData
from ..fitting.targets import classes_of_outputs
from ..uncertainty import pooled_link
from .scoring import jackknife_error

# Rows of a task at least, for its own error to decide about a candidate.
LEAST_TASK_ROWS = 10


@dataclass(frozen=True)
class PooledError:
    """The error of a candidate.

    Attributes
    ----------
    error, standard_error : the mean over rows of all tasks, and its jackknife error over folds (over rows if there is
        one fold).
    slope, offset : from values to log odds (classification), or 1 and 0.
    """

    error: float
    standard_error: float
    slope: float = 1.0
    offset: float = 0.0


class ErrorPool:
    """Pools the held-out rows of all tasks and folds.

    Parameters
    ----------
    data, folds : all rows, and which of them are held out.
    classification : whether targets are classes.
    costs : weights (n_t,) of each task's rows in the error; by default their sample weights.
    """

    def __init__(
        self,
        data: TaskData,
        folds: Sequence[Fold],
        *,
        classification: bool,
        costs: Sequence[np.ndarray] | None = None,
    ) -> None:
        self.data, self.folds, self.classification = data, folds, classification
        self.classes = [np.unique(y) for y in data.y] if classification else []
        self.weights = [data.sample_weight[rows] for rows in data.rows]
        self.costs = self.weights if costs is None else costs

    def measure(self, outputs: Sequence[Sequence[np.ndarray]]) -> PooledError:
        """outputs: for each fold and task, values (q_t, m) -> the pooled error."""
        losses, weights, fold = self._losses(outputs)
        slope, offset = self._link(outputs)
        total = np.bincount(fold, weights * losses, len(self.folds))
        count = np.bincount(fold, weights, len(self.folds))
        error = float(total.sum() / count.sum())
        if len(self.folds) == 1:
            return PooledError(error, _standard_error(losses, weights), slope, offset)
        without = (total.sum() - total) / np.maximum(count.sum() - count, 1e-300)
        return PooledError(error, jackknife_error(without), slope, offset)

    def difference(
        self, first: Sequence[Sequence[np.ndarray]], second: Sequence[Sequence[np.ndarray]]
    ) -> tuple[float, float]:
        """Return how much larger the pooled error of the first is, and the standard error of that over rows."""
        losses, weights, *_ = self._losses(first)
        difference = losses - self._losses(second)[0]
        return float(np.average(difference, weights=weights)), _standard_error(difference, weights)

    def is_ahead_in_a_task(
        self, first: Sequence[Sequence[np.ndarray]], second: Sequence[Sequence[np.ndarray]], certain: float
    ) -> bool:
        """Whether the first has a smaller error in some task, by so many standard errors over its rows."""
        gain = self._losses(second)[0] - self._losses(first)[0]
        parts = [values for values_of in first for values in values_of]
        ends = np.cumsum([values.size for values in parts])[:-1]
        return any(
            len(own) >= LEAST_TASK_ROWS and own.mean() > certain * own.std(ddof=1) / np.sqrt(len(own)) > 0
            for own in np.split(gain, ends)
        )

    def flat(self, outputs: Sequence[Sequence[np.ndarray]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return values, coded targets and costs of all held-out rows and outputs."""
        return self._gather(outputs, self.costs)[:3]

    def _losses(self, outputs: Sequence[Sequence[np.ndarray]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the loss, cost and fold of each held-out row."""
        values, targets, costs, fold = self._gather(outputs, self.costs)
        if not self.classification:
            return (targets - values) ** 2, costs, fold
        slope, offset = pooled_link(values, targets > 0, costs)
        return np.logaddexp(0.0, -targets * (slope * values + offset)), costs, fold

    def _link(self, outputs: Sequence[Sequence[np.ndarray]]) -> tuple[float, float]:
        """Return slope and offset to log odds, of rows as they are: costs would shift the odds."""
        if not self.classification:
            return 1.0, 0.0
        values, targets, weights, _ = self._gather(outputs, self.weights)
        return pooled_link(values, targets > 0, weights)

    def _gather(
        self, outputs: Sequence[Sequence[np.ndarray]], weights_of: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return values, coded targets, weights and folds of all held-out rows and outputs, flat."""
        columns: list[tuple[np.ndarray, ...]] = []
        for f, (fold, values_of) in enumerate(zip(self.folds, outputs, strict=True)):
            for t, values in enumerate(values_of):
                held = fold.held[t]
                coded = self._coded(self.data.y[t], fold.kept[t], held, values.shape[1])
                weight = np.repeat(weights_of[t][held], values.shape[1])
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
        self._spread = np.ones(data.n_tasks) if classification else target_moments(data)[1]
        y = data.y if classification else tuple(y / s for y, s in zip(data.y, self._spread, strict=True))
        data = replace(data, y=y)
        self._pool = ErrorPool(data, folds, classification=classification)
        self._each = [ErrorPool(data, [fold], classification=classification) for fold in folds]

    def score(self, outputs: Sequence[Sequence[np.ndarray]]) -> tuple[float, float, np.ndarray]:
        """outputs: for each fold and task, values (q_t, m) -> the score, its standard error, the score of each fold."""
        scaled = [[part / s for part, s in zip(fold, self._spread, strict=True)] for fold in outputs]
        pooled = self._pool.measure(scaled)
        each = [pool.measure([fold]).error for pool, fold in zip(self._each, scaled, strict=True)]
        return self._level - pooled.error, pooled.standard_error, self._level - np.array(each)


def target_moments(data: TaskData) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and spread (T,) of the targets of each task.

    Spreads of tasks with few rows are drawn towards the others', as far as these vary no more than chance would have
    it: logarithms of variances as normal values around the one of a typical task, sampled with variance 2 / (n - 1).
    """
    moments = [_moments(y, data.sample_weight[rows]) for rows, y in zip(data.rows, data.y, strict=True)]
    location, variance = (np.array(column) for column in zip(*moments, strict=True))
    count = np.array([len(y) for y in data.y])
    known = (count > 1) & (variance > 0)
    if not known.any():
        return location, np.ones(data.n_tasks)
    logs, sampling = np.log(variance[known]), 2.0 / (count[known] - 1.0)
    typical = np.average(logs, weights=1.0 / sampling)
    real = max(float(np.mean((logs - typical) ** 2 - sampling)), 0.0)
    drawn = np.full(data.n_tasks, typical)
    drawn[known] += real / (real + sampling) * (logs - typical)
    return location, np.exp(0.5 * drawn)


def _moments(y: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    mean = float(np.average(y, weights=weight))
    return mean, float(np.average((y - mean) ** 2, weights=weight))
