"""Out-of-fold errors of candidates, pooled over tasks, and the weights they lead to.

The mean of a score over tasks with few rows is nearly all noise. Errors pooled over the rows of all tasks
distinguish candidates much better: the squared error of standardised targets, or the logistic loss of classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..data import TaskData
from ..decompositions import solve_stack
from ..model_selection import Fold, jackknife_error

# Members of the average with less weight than this are left out.
NEGLIGIBLE = 0.02
MAX_MEMBERS = 8
# The least slope of a logistic link, for values of mean square one.
LEAST_SLOPE = 0.05


@dataclass(frozen=True)
class PooledError:
    """The error of a candidate.

    Attributes
    ----------
    error, standard_error : the mean over rows of all tasks, and its jackknife error over folds.
    slope, offset : from values to log odds (classification), or 1 and 0.
    """

    error: float
    standard_error: float
    slope: float = 1.0
    offset: float = 0.0


class ErrorPool:
    """Pools the held-out rows of all tasks and folds."""

    def __init__(self, data: TaskData, folds: Sequence[Fold], *, classification: bool) -> None:
        self.data, self.folds, self.classification = data, folds, classification

    def measure(self, outputs: Sequence[Sequence[np.ndarray]]) -> PooledError:
        """outputs: for each fold and task, values (q_t, m) -> the pooled error."""
        values, targets, weights, fold = self._gather(outputs)
        slope, offset = logistic_link(values, targets, weights) if self.classification else (1.0, 0.0)
        if self.classification:
            losses = np.logaddexp(0.0, -targets * (slope * values + offset))
        else:
            losses = (targets - values) ** 2
        total = np.bincount(fold, weights * losses, len(self.folds))
        count = np.bincount(fold, weights, len(self.folds))
        without = (total.sum() - total) / np.maximum(count.sum() - count, 1e-300)
        return PooledError(float(total.sum() / count.sum()), jackknife_error(without), slope, offset)

    def _gather(self, outputs: Sequence[Sequence[np.ndarray]]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return values, coded targets, weights and folds of all held-out rows and outputs, flat."""
        columns: list[tuple[np.ndarray, ...]] = []
        for f, (fold, values_of) in enumerate(zip(self.folds, outputs, strict=True)):
            for t, values in enumerate(values_of):
                held = fold.held[t]
                coded = self._coded(self.data.y[t], fold.kept[t], held, values.shape[1])
                weight = np.repeat(self.data.sample_weight[self.data.rows[t][held]], values.shape[1])
                columns.append((values.ravel(), coded.ravel(), weight, np.full(values.size, f)))
        values, targets, weights, fold_of = (np.concatenate(column) for column in zip(*columns, strict=True))
        return values, targets, weights, fold_of

    def _coded(self, y: np.ndarray, kept: np.ndarray, held: np.ndarray, width: int) -> np.ndarray:
        if not self.classification:
            return y[held, np.newaxis]
        classes = np.unique(y[kept])
        positive = y[held, np.newaxis] == (classes if width > 1 else classes[1:])
        return np.where(positive, 1.0, -1.0)


def logistic_link(values: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Return slope and offset of the log odds that fit targets -1 and +1 best, by Newton's method.

    A weak pull towards no skill keeps both finite where values separate the classes. The slope is positive: where few
    rows suggest otherwise, larger values still do not make the positive class less likely.
    """
    scale = float(np.sqrt(np.average(values**2, weights=weights))) or 1.0
    design = np.column_stack([values / scale, np.ones(len(values))])
    theta, ridge = np.array([1.0, 0.0]), np.array([1e-2, 1e-2])
    for _ in range(50):
        margin = targets * (design @ theta)
        probability = 1.0 / (1.0 + np.exp(np.clip(margin, -500, 500)))
        gradient = -design.T @ (weights * targets * probability) + ridge * theta
        hessian = (design * (weights * probability * (1 - probability))[:, np.newaxis]).T @ design + np.diag(ridge)
        step = solve_stack(hessian, gradient)
        # A step that would overshoot is shortened: the loss is convex, and far from its minimum nearly linear.
        moved = theta - step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))
        moved[0] = max(moved[0], LEAST_SLOPE)
        theta, change = moved, float(np.abs(moved - theta).max())
        if change < 1e-8:
            break
    return float(theta[0] / scale), float(theta[1])


def average_weights(errors: Sequence[PooledError]) -> np.ndarray:
    """Return weights (candidates,) that fall exponentially with the error: by half a standard error of the best.

    The less the folds can distinguish candidates, the more are averaged. A few with the largest weights are kept.
    """
    values = np.array([error.error for error in errors])
    best = int(values.argmin())
    unit = max(0.5 * errors[best].standard_error, 1e-9 * max(values[best], 1e-300))
    weights = np.exp(-(values - values[best]) / unit)
    weights /= weights.sum()
    kept = np.argsort(-weights)[:MAX_MEMBERS]
    kept = kept[weights[kept] >= min(NEGLIGIBLE, weights[best])]
    out = np.zeros(len(weights))
    out[kept] = weights[kept] / weights[kept].sum()
    return out
