"""Intervals of tasks that were not in training, from the residuals of tasks that were left out whole.

The variance of a new task's targets is that of its prediction, and an `extra` variance, the same for all rows, that
makes the residuals of left-out tasks as large as expected: levels and functions differ between tasks by more than rows
within one. Residuals of one task go together, so that many rows of few tasks say little: a task of n rows counts as
n / (1 + (n - 1) r) rows, with r the correlation of scores within tasks, and the quantile is that of split conformal
prediction with so many rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.stats import t as student

from .residuals import MAX_POOLED


@dataclass(frozen=True)
class NewTaskScores:
    """Distribution of the residuals of left-out tasks.

    Attributes
    ----------
    extra : variance that is added to the square of predictive deviations.
    scale : root mean square of residuals, divided by the deviations with it.
    scores : (N,) sorted absolute residuals in units of both.
    below : (N,) the share of residuals up to each of them.
    n_effective : how many independent rows they are worth.
    """

    extra: float
    scale: float
    scores: np.ndarray
    below: np.ndarray
    n_effective: float

    def quantile(self, coverage: float) -> float:
        """Return half the width of an interval in units of the deviations."""
        share = coverage * (self.n_effective + 1.0) / self.n_effective
        if share <= 1.0:
            return self.scale * float(self.scores[np.searchsorted(self.below, share - 1e-9)])
        # Too few tasks for a quantile without assumptions: that of normal residuals.
        return self.scale * float(student.ppf((1.0 + coverage) / 2.0, max(self.n_effective - 1.0, 1.0)))


def fit_new_tasks(
    residuals: Sequence[np.ndarray], deviations: Sequence[np.ndarray], expected: float
) -> NewTaskScores | None:
    """Learn from residuals (n_t,) and predictive deviations (n_t,) of left-out tasks.

    `expected` is the mean square of residuals in units of deviations, of tasks that were in training. None is returned
    where no task has residuals.
    """
    known = [np.isfinite(part) for part in residuals]
    squares = [part[rows] ** 2 for part, rows in zip(residuals, known, strict=True) if rows.any()]
    variances = [part[rows] ** 2 for part, rows in zip(deviations, known, strict=True) if rows.any()]
    if not squares:
        return None
    extra = _extra(squares, variances, expected)
    ratios = [square / (variance + extra) for square, variance in zip(squares, variances, strict=True)]
    scale = float(np.sqrt(np.mean([part.mean() for part in ratios])))
    scores = [np.sqrt(part) / (scale or 1.0) for part in ratios]
    counts = np.array([len(part) for part in scores])
    worth = counts / (1.0 + (counts - 1.0) * _correlation(scores))
    values = np.concatenate(scores)
    order = np.argsort(values, kind="stable")
    below = np.cumsum(np.repeat(worth / counts, counts)[order]) / worth.sum()
    below[-1] = 1.0
    step = -(-len(values) // MAX_POOLED)
    kept = np.arange(len(values) - 1, -1, -step)[::-1]
    return NewTaskScores(extra, scale, values[order][kept], below[kept], float(worth.sum()))


def _extra(squares: Sequence[np.ndarray], variances: Sequence[np.ndarray], expected: float) -> float:
    """Return the variance that makes the mean over tasks of squares / (variances + extra) the expected one."""

    def excess(extra: float) -> float:
        ratios = [(square / (variance + extra)).mean() for square, variance in zip(squares, variances, strict=True)]
        return float(np.mean(ratios)) - expected

    if not expected > 0 or excess(0.0) <= 0:
        return 0.0
    largest = float(np.mean([part.mean() for part in squares])) / expected
    return float(brentq(excess, 0.0, largest, rtol=1e-6))


def _correlation(scores: Sequence[np.ndarray]) -> float:
    """Return the correlation of scores of the same task, by an analysis of variance; 1 where there is a single task."""
    counts = np.array([len(part) for part in scores])
    T, N = len(counts), int(counts.sum())
    if T < 2:
        return 1.0
    if N == T:
        return 0.0
    means, mean = np.array([part.mean() for part in scores]), float(np.concatenate(scores).mean())
    between = float(counts @ (means - mean) ** 2) / (T - 1)
    within = sum(float(np.sum((part - m) ** 2)) for part, m in zip(scores, means, strict=True)) / (N - T)
    size = (N - float(np.sum(counts**2)) / N) / (T - 1)
    total = between + (size - 1.0) * within
    return float(np.clip((between - within) / total, 0.0, 1.0)) if total > 0 else 0.0
