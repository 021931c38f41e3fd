"""Calibrate probabilities and intervals on held-out values of any model.

Classification uses a logistic link. The log odds of a row of task t are `slope f + offset_t`; with more than two
classes, these are the logits of a softmax, with an offset for each class. All tasks share the slope. Offsets are
normally distributed around a pooled offset. Their standard deviation between tasks maximises the marginal likelihood
(Laplace approximation). So a task with few rows has nearly the pooled offset, and a task with many rows nearly its own.
Targets are smoothed as Platt proposed, with the pooled counts of the classes.

Regression uses conformal intervals. Residuals are divided by the scale of their task: the root mean square of its
held-out residuals relative to the spread of its targets, shrunk towards that of all tasks. The quantile of a task is
that of a mixture of its own scaled residuals and those of all tasks, which count as `SHAPE_ROWS` rows. With a single
task, this is split conformal prediction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, polygamma, softmax
from scipy.stats import t as student

# Candidate standard deviations of the offsets between tasks, in log odds.
SPREADS = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
# Precision of the weak prior of pooled offsets around zero.
_WEAK = 1e-6
# Weight of the pooled residuals in the quantile of a task, in rows.
SHAPE_ROWS = 20.0
# Maximum number of residuals kept per task and for all tasks together; more are replaced by quantiles.
MAX_OWN, MAX_POOLED = 1000, 5000


@dataclass(frozen=True)
class TaskLink:
    """Fitted link from decision values to probabilities."""

    slope: float  # log odds per unit of the decision values; not negative
    offsets: tuple[np.ndarray, ...]  # for each task (m_t,): one offset for two classes, otherwise one per class
    pooled: np.ndarray  # (m,) offset of a task that was not in training
    spread: float  # standard deviation of the offsets between tasks
    new_task: TaskLink | None = None  # the link of tasks that were not in training, if some were left out to find it

    def probabilities(self, values: np.ndarray, task: int) -> np.ndarray:
        """Return probabilities (q, classes) from decision values (q, m_t) of a task (-1: not in training)."""
        if task < 0 and self.new_task is not None:
            return self.new_task.probabilities(values, 0)
        logits = self.slope * values + (self.pooled if task < 0 else self.offsets[task])
        if logits.shape[1] > 1:
            return softmax(logits, axis=1)
        p = expit(logits[:, 0])
        return np.column_stack([1.0 - p, p])


def fit_link(
    values: Sequence[np.ndarray], codes: Sequence[np.ndarray], weights: Sequence[np.ndarray] | None = None
) -> TaskLink:
    """Fit the link to held-out decision values.

    Parameters
    ----------
    values : for each task (n_t, m_t); rows with NaN are left out
    codes : for each task (n_t,), the position of each row's class among the task's classes; rows with other codes are
        left out
    weights : for each task (n_t,), optional
    """
    weights = [np.ones(len(code)) for code in codes] if weights is None else weights
    widths = [part.shape[1] for part in values]
    starts = np.cumsum([0, *widths])
    P, M = int(starts[-1]), max(2, *widths)
    # Logits (N, M) of the classes are slope * f + offsets[place]. Of two classes, the first has f = 0 and offset 0; a
    # class that a task lacks has offset -inf.
    blocks = []
    for t, (part, code, weight) in enumerate(zip(values, codes, weights, strict=True)):
        first = 1 if widths[t] == 1 else 0
        n_classes = first + widths[t]
        known = np.isfinite(part).all(axis=1) & (weight > 0) & (code < n_classes)
        f, place = np.zeros((known.sum(), M)), np.full((known.sum(), M), P + 1)
        f[:, first:n_classes] = part[known]
        place[:, :first], place[:, first:n_classes] = P, np.arange(starts[t], starts[t + 1])
        blocks.append((f, place, code[known], weight[known], np.full(len(f), n_classes)))
    f, place, code, weight, n_classes = map(np.concatenate, zip(*blocks, strict=True))
    unit = float(np.sqrt(np.mean(f[place < P] ** 2))) if f.any() else 1.0
    f = f / unit
    target = _smoothed(code, place <= P, weight, n_classes)
    # Each offset (P,) is shrunk towards the pooled offset of its group: of all tasks with as many classes.
    keys = [(width, column) for width in widths for column in range(width)]
    group = np.unique(keys, axis=0, return_inverse=True)[1].ravel()
    G = int(group.max()) + 1

    def evaluate(theta: np.ndarray, spread: float) -> tuple[np.ndarray, np.ndarray, float]:
        """theta: slope, pooled offsets (G,), deviations (P,) in units of the spread -> offsets, log p (N, M), loss."""
        pooled, deviations = np.split(theta[1:], [G])
        offsets = pooled[group] + spread * deviations
        logp = log_softmax(theta[0] * f + np.r_[offsets, 0.0, -np.inf][place], axis=1)
        loss = -float(weight @ (target * np.where(place <= P, logp, 0.0)).sum(axis=1))
        return offsets, logp, loss + 0.5 * float(deviations @ deviations) + 0.5 * _WEAK * float(pooled @ pooled)

    def at_offsets(per_class: np.ndarray) -> np.ndarray:
        """Sum (N, M) over the rows that use each offset -> (P,)."""
        return np.bincount(place.ravel(), (weight[:, np.newaxis] * per_class).ravel(), P + 2)[:P]

    def objective(theta: np.ndarray, spread: float) -> tuple[float, np.ndarray]:
        _, logp, loss = evaluate(theta, spread)
        slack = np.exp(logp) - target
        by_offset, (pooled, deviations) = at_offsets(slack), np.split(theta[1:], [G])
        by_group = np.bincount(group, by_offset, G) + _WEAK * pooled
        return loss, np.r_[weight @ (slack * f).sum(axis=1), by_group, spread * by_offset + deviations]

    # Without rows, all classes are equally probable.
    theta, best, evidence = np.r_[float(len(f) > 0), np.zeros(G + P)], None, -np.inf
    bounds = [(0.0, None)] + [(None, None)] * (G + P)
    options = {"maxiter": 500, "gtol": 1e-7 * weight.sum(), "ftol": 1e-12}
    n_tasks = sum(len(block[0]) > 0 for block in blocks)
    for spread in SPREADS if n_tasks > 1 else SPREADS[:1]:
        theta = minimize(objective, theta, spread, "L-BFGS-B", jac=True, bounds=bounds, options=options).x
        offsets, logp, loss = evaluate(theta, spread)
        p = np.exp(logp)
        found = -loss - 0.5 * float(np.log1p(spread**2 * at_offsets(p * (1.0 - p))).sum())
        if found > evidence:
            by_task = tuple(np.split(offsets, starts[1:-1]))
            best, evidence = TaskLink(float(theta[0] / unit), by_task, theta[1:][group[: widths[0]]], spread), found
    assert best is not None
    return best


def _smoothed(code: np.ndarray, present: np.ndarray, weight: np.ndarray, n_classes: np.ndarray) -> np.ndarray:
    """Return smoothed targets (N, M): 1 - 1 / ((m - 1) n_c + 2) for a row's class, which has n_c rows.

    The rest is divided evenly over the other classes. With m = 2 classes these are Platt's targets.
    """
    key = n_classes * present.shape[1] + code
    count = (n_classes - 1) * np.bincount(key, weight)[key]
    rest = 1.0 / (count + 2.0)
    target = np.where(present, (rest / (n_classes - 1))[:, np.newaxis], 0.0)
    target[np.arange(len(code)), code] = 1.0 - rest
    return target


@dataclass(frozen=True)
class Residuals:
    """Distribution of held-out residuals."""

    # (T + 1,) standard deviation of the residuals of each task, and of a task that was not in training.
    scales: np.ndarray
    # For each task the sorted absolute residuals divided by its scale; the last are those of tasks that were left out
    # completely, if any.
    scores: tuple[np.ndarray, ...]
    pooled: np.ndarray  # (N,) the scores of all tasks, sorted
    n_left_out: int = 0

    def quantiles(self, coverage: float) -> np.ndarray:
        """Return the half widths (T + 1,) of intervals for each task and a task that was not in training."""
        *own, new = self.scores
        # A single task uses only its own rows; a task without rows uses all rows of the others.
        n_pooled = len(self.pooled)
        mass = [n_pooled if not len(part) else 0.0 if len(own) == 1 else min(SHAPE_ROWS, n_pooled) for part in own]
        found = [self._quantile(part, m, len(part) + m, coverage) for part, m in zip(own, mass, strict=True)]
        if len(new):
            found.append(self._quantile(new, 0.0, self.n_left_out, coverage))
        else:
            found.append(self._quantile(new, n_pooled, n_pooled, coverage))
        return self.scales * found

    def _quantile(self, own: np.ndarray, mass: float, n: float, coverage: float) -> float:
        """Return the quantile of a mixture of own scores and `mass` pooled scores, as if there were `n` rows.

        As in split conformal prediction, there is one more row: the row to predict.
        """
        scores = np.concatenate([own, self.pooled])
        weights = np.repeat([1.0, mass / max(len(self.pooled), 1)], [len(own), len(self.pooled)])
        order = np.argsort(scores, kind="stable")
        below = np.cumsum(weights[order])
        enough = np.flatnonzero(below >= below[-1] * coverage * (n + 1.0) / n - 1e-9)
        if len(enough):
            return float(scores[order][enough[0]])
        # Too few rows for an empirical quantile: assume normal residuals.
        return float(student.ppf((1.0 + coverage) / 2.0, max(n - 1.0, 1.0)))


def fit_residuals(
    residuals: Sequence[np.ndarray], targets: Sequence[np.ndarray], left_out: Sequence[np.ndarray] | None = None
) -> Residuals:
    """Fit scales and scores.

    Parameters
    ----------
    residuals : for each task (n_t,) held-out residuals; NaN are left out, but at least one must be a number
    targets : for each task (n_t,)
    left_out : residuals of tasks that were left out completely, optional
    """
    sizes = [np.abs(part[np.isfinite(part)]) for part in residuals]
    spreads = _task_scales([y - y.mean() for y in targets])
    relative = [part / spread for part, spread in zip(sizes, spreads, strict=False)]
    squares = np.concatenate(relative) ** 2
    # The square of a normal residual has variance 2; with heavier tails, mean squares are less certain.
    excess = float(np.clip(np.mean(squares**2) / max(np.mean(squares) ** 2, 1e-300) - 1.0, 2.0, 20.0))
    scales = spreads * _task_scales(relative, excess)
    pooled = np.concatenate([part / scale for part, scale in zip(sizes, scales, strict=False)])
    # Scales are shrunk on a logarithmic scale; this factor makes them standard deviations.
    level = float(np.sqrt(np.mean(pooled**2))) or 1.0
    scores = [np.sort(part) / (level * scale) for part, scale in zip(sizes, scales, strict=False)]
    scales = (level if pooled.any() else 0.0) * scales
    new = np.empty(0)
    if left_out is not None:
        # Residuals of one task are dependent, so every task counts as one row.
        parts = [np.quantile(np.abs(part), (np.arange(20) + 0.5) / 20) for part in left_out]
        scales[-1] = np.sqrt(np.mean([np.mean(part**2) for part in left_out]))
        new = np.sort(np.concatenate(parts)) / (scales[-1] or 1.0)
    scores = [_thinned(part, MAX_OWN) for part in (*scores, new)]
    return Residuals(scales, tuple(scores), _thinned(np.sort(pooled) / level, MAX_POOLED), len(left_out or ()))


def _thinned(scores: np.ndarray, limit: int) -> np.ndarray:
    """Return sorted scores, or `limit` quantiles if there are more."""
    return scores if len(scores) <= limit else np.quantile(scores, (np.arange(limit) + 0.5) / limit)


def _task_scales(parts: Sequence[np.ndarray], excess: float = 2.0) -> np.ndarray:
    """Return root mean squares (T + 1,) of the numbers of each task, shrunk; their squares have variance `excess`."""
    n = np.array([len(part) for part in parts])
    squares = np.array([np.mean(part**2) if len(part) else 0.0 for part in parts])
    sampling = np.where(n > 1, 0.5 * excess * polygamma(1, np.maximum(n - 1, 1) / 2), np.inf)
    return np.sqrt(shrunk_variances(squares, sampling))


def shrunk_variances(variance: np.ndarray, sampling: np.ndarray) -> np.ndarray:
    """Shrink variances (T,) towards that of a typical task -> (T + 1,), the last that of a typical task.

    Their logarithms are treated as normal around a typical value, with sampling variances (T,).
    """
    known = np.isfinite(sampling) & (variance > 0)
    if not known.any():
        return np.ones(len(variance) + 1)
    logs, error = np.log(variance[known]), sampling[known]
    typical = np.average(logs, weights=1.0 / error)
    between = max(float(np.mean((logs - typical) ** 2 - error)), 0.0)
    shrunk = np.full(len(variance) + 1, typical)
    shrunk[:-1][known] += between / (between + error) * (logs - typical)
    return np.exp(shrunk)
