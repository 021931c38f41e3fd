"""Intervals from held-out residuals: conformal, each task's drawn towards the pooled ones while it has few rows.

A residual is divided by the predictive deviation of its row, as far as the model has one. Two things are then learned
for each task. Its *scale*, the root mean square of these scores: its logarithm is drawn towards that of all tasks, as
strongly as the scales of different tasks agree beyond chance (in the units of the targets or in those of each task's
own spread, whichever agree better). And the *shape* of its distribution: the quantile of a mixture of the task's own
scores and `SHAPE_ROWS` rows' worth of those of all tasks, with one more row for the one that is predicted, as in
split conformal prediction, which this is for one task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.stats import t as student

# Rows of a task with which its own scores count as much as those of all tasks.
SHAPE_ROWS = 20.0
# Scores of a task, and of all tasks together, that are kept, at most: more are replaced by as many quantiles.
MAX_OWN, MAX_POOLED = 1000, 5000


@dataclass(frozen=True)
class ResidualScores:
    """Distribution of held-out residuals.

    Attributes
    ----------
    scales : (T + 1,) scale of each task, and of one that was not in training.
    scores : for each task the sorted absolute scores, divided by its scale; quantiles of them where there are many.
    pooled : (N,) those of all tasks, sorted.
    """

    scales: np.ndarray
    scores: tuple[np.ndarray, ...]
    pooled: np.ndarray

    def quantiles(self, coverage: float) -> np.ndarray:
        """Return half widths of intervals (T + 1,), in units of the predictive deviations."""
        own = [*self.scores, np.empty(0)]
        return self.scales * np.array([self._quantile(scores, coverage) for scores in own])

    def _quantile(self, own: np.ndarray, coverage: float) -> float:
        n_pooled = len(self.pooled)
        # One task has no others to be drawn towards; one without rows of its own has all rows of the others.
        mass = 0.0 if len(self.scores) == 1 and len(own) else min(SHAPE_ROWS, n_pooled) if len(own) else n_pooled
        needed = coverage * (len(own) + mass + 1.0)
        points = np.unique(np.concatenate([own, self.pooled]))
        below = np.searchsorted(own, points, side="right") + mass * (
            np.searchsorted(self.pooled, points, side="right") / max(n_pooled, 1)
        )
        enough = np.flatnonzero(below >= needed - 1e-9)
        if len(enough):
            return float(points[enough[0]])
        # Too few rows for a quantile without assumptions: that of normal residuals.
        return float(student.ppf((1.0 + coverage) / 2.0, max(n_pooled - 1, 1)))


def fit_residuals(
    residuals: Sequence[np.ndarray],
    deviations: Sequence[np.ndarray],
    spreads: np.ndarray,
    weights: Sequence[np.ndarray] | None = None,
) -> ResidualScores:
    """Learn scales and shapes.

    Parameters
    ----------
    residuals : for each task (n_t,), held out; NaN is left out
    deviations : for each task (n_t,), predictive deviations of these rows up to a factor
    spreads : (T,) standard deviations of the targets of each task
    weights : for each task (n_t,), optional; rows without weight are left out
    """
    scores = []
    for t, (residual, deviation) in enumerate(zip(residuals, deviations, strict=True)):
        known = np.isfinite(residual) & (np.True_ if weights is None else weights[t] > 0)
        scores.append(np.abs(residual[known]) / deviation[known])
    scales = task_scales(scores, spreads)
    scaled = [np.sort(part) / scale if scale > 0 else part for part, scale in zip(scores, scales, strict=False)]
    pooled = _thinned(np.sort(np.concatenate(scaled)), MAX_POOLED)
    return ResidualScores(scales, tuple(_thinned(part, MAX_OWN) for part in scaled), pooled)


def _thinned(scores: np.ndarray, limit: int) -> np.ndarray:
    """Sorted scores, or `limit` quantiles of more."""
    return scores if len(scores) <= limit else np.quantile(scores, (np.arange(limit) + 0.5) / limit)


def task_scales(scores: Sequence[np.ndarray], spreads: np.ndarray) -> np.ndarray:
    """Return the scale of each task, and of one that was not in training (T + 1,)."""
    counts = np.array([len(part) for part in scores])
    squares = np.array([np.mean(part**2) if len(part) else np.nan for part in scores])
    total = np.nansum(squares * counts)
    if not total > 0:
        return np.zeros(len(scores) + 1)
    units = np.where(spreads > 0, spreads, np.median(spreads[spreads > 0]) if (spreads > 0).any() else 1.0) ** 2
    candidates = [_shrunk(squares, counts, unit, scores) for unit in (np.ones(len(units)), units)]
    _, logs, center, unit = min(candidates, key=lambda found: found[0])
    typical = float(np.exp(np.average(np.log(unit), weights=np.maximum(counts, 1e-9))))
    return np.sqrt(np.append(np.exp(logs) * unit, np.exp(center) * typical))


def _shrunk(
    squares: np.ndarray, counts: np.ndarray, unit: np.ndarray, scores: Sequence[np.ndarray]
) -> tuple[float, np.ndarray, float, np.ndarray]:
    """Return the variance between tasks of log mean squares, these drawn to their center, the center, and the unit."""
    relative = squares / unit
    pooled = float(np.nansum(relative * counts) / counts.sum())
    # A normal score squared has variance 2; heavier tails make mean squares less certain.
    fourth = sum(float(np.sum((part**2 / u) ** 2)) for part, u in zip(scores, unit, strict=True)) / counts.sum()
    excess = float(np.clip(fourth / pooled**2 - 1.0, 2.0, 20.0))
    known = counts > 0
    n = np.where(known, counts, 1)
    # The logarithm of a mean square of n normal scores is 1/n too low on average.
    logs = np.log(np.maximum(np.where(known, relative, pooled), 1e-12 * pooled)) + 1.0 / n
    precision = np.where(known, n / excess, 0.0)
    if known.sum() == 1:
        return 0.0, np.full(len(logs), np.log(pooled)), float(np.log(pooled)), unit
    between = _between(logs, precision)
    center = float(np.log(pooled)) if between == 0 else float(np.average(logs, weights=1 / (1 / n + between)))
    weight = between * precision / (1.0 + between * precision)
    return between, center + weight * (logs - center), center, unit


def _between(values: np.ndarray, precision: np.ndarray) -> float:
    """Return the variance between tasks beyond that of the estimates (DerSimonian and Laird)."""
    mean = float(np.average(values, weights=precision))
    Q = float(precision @ (values - mean) ** 2)
    denominator = precision.sum() - (precision**2).sum() / precision.sum()
    return max(0.0, (Q - (np.count_nonzero(precision) - 1)) / denominator)


@dataclass(frozen=True)
class NewTaskScores:
    """Distribution of the residuals of tasks that were left out whole: intervals of tasks that were not in training.

    The variance of a new task's targets is that of its prediction, and an `extra` variance, the same for all rows, that
    makes the residuals of left-out tasks as large as expected: levels and functions differ between tasks by more than
    rows within one. Residuals of one task go together, so that many rows of few tasks say little: a task of n rows
    counts as n / (1 + (n - 1) r) rows, with r the correlation of scores within tasks, and the quantile is that of split
    conformal prediction with so many rows.

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
