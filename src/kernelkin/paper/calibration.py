"""Calibrate probabilities and intervals on held-out values of any model.

Classification uses a logistic link. The log odds of a row of task t are `slope f + offset_t`; with more than two
classes, these are the logits of a softmax, with an offset for each class. All tasks share the slope. Offsets are
normally distributed around a pooled offset. Their standard deviation between tasks maximises the marginal likelihood
(Laplace approximation). So a task with few rows has nearly the pooled offset, and a task with many rows nearly its own.
Targets are smoothed as Platt proposed, with the pooled counts of the classes. Probabilities of two classes are averaged
over the uncertain slope and offset: log odds of variance v are divided by sqrt(1 + pi v / 8) (MacKay's approximation),
then shifted so that held-out rows have the right mean probability.

Regression uses conformal intervals. The scale of a task is the root mean square of its held-out residuals. The log
scales of tasks are shrunk towards their mean; the shrinkage is stronger the more the tasks agree. Scales are measured
in the units of the targets or relative to the standard deviation of each task's targets, whichever agree better. The
quantile is that of a mixture of the task's own scaled residuals and the residuals of all tasks, which count as
`SHAPE_ROWS` rows. As in split conformal prediction, one more row stands for the row to predict. With a single task,
this is split conformal prediction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import digamma, expit, log_softmax, polygamma, softmax
from scipy.stats import t as student

from ..decompositions import inverse, solve_stack

# Candidate standard deviations of the offsets between tasks, in log odds.
SPREADS = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
# Precision of the weak prior of pooled offsets around zero.
_WEAK = 1e-6
# The largest shift of log odds.
_MAX_SHIFT = 5.0
# In `pooled_link`: the smallest slope, for values of mean square one, and the ridge penalty on slope and offset.
LEAST_SLOPE, WEAK_PULL = 0.05, 1e-2
# Weight of the pooled residuals in the quantile of a task, in rows.
SHAPE_ROWS = 20.0
# Maximum number of residuals kept per task and for all tasks together; more are replaced by quantiles.
MAX_OWN, MAX_POOLED = 1000, 5000


@dataclass(frozen=True)
class TaskLink:
    """Fitted link from decision values to probabilities.

    Attributes
    ----------
    slope : log odds per unit of the decision values; not negative.
    offsets : for each task (m_t,): one offset for two classes, otherwise one per class.
    covariances : (T + 1, 2, 2) of the slope and offset of each task with two classes; the last is for a task that was
        not in training.
    pooled : (m,) offset of a task that was not in training.
    spread : standard deviation of the offsets between tasks.
    shift : constant added to the log odds of two classes.
    new_task : the link of tasks that were not in training, if some were left out to find it.
    """

    slope: float
    offsets: tuple[np.ndarray, ...]
    covariances: np.ndarray
    pooled: np.ndarray
    spread: float
    shift: float = 0.0
    new_task: TaskLink | None = None

    def probabilities(self, values: np.ndarray, task: int) -> np.ndarray:
        """Return probabilities (q, classes) from decision values (q, m_t) of a task (-1: not in training)."""
        offset = self.pooled if task < 0 else self.offsets[task]
        logits = self.slope * values + offset
        if len(offset) > 1:
            return softmax(logits, axis=1)
        p = expit((logits[:, 0] + self.shift) * _shrinkage(values[:, 0], self.covariances[task]))
        return np.column_stack([1.0 - p, p])


def _shrinkage(f: np.ndarray, covariances: np.ndarray) -> np.ndarray:
    """Return MacKay's factors (q,) for the log odds at values f (q,); covariances (2, 2) or (q, 2, 2)."""
    variance = covariances[..., 0, 0] * f**2 + 2.0 * covariances[..., 0, 1] * f + covariances[..., 1, 1]
    return 1.0 / np.sqrt(1.0 + np.pi / 8.0 * np.maximum(variance, 0.0))


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
    rows = _LinkRows(values, codes, [np.ones(len(c)) for c in codes] if weights is None else weights)
    widths, n_tasks = [part.shape[1] for part in values], len(np.unique(rows.task))
    if not n_tasks:
        # Without rows, all classes are equally probable.
        none = tuple(np.zeros(m) for m in widths)
        return TaskLink(0.0, none, np.zeros((len(widths) + 1, 2, 2)), none[0], 0.0)
    spread, theta, evidence, last = 0.0, np.empty(0), -np.inf, None
    for tried in SPREADS if n_tasks > 1 else SPREADS[:1]:
        last = rows.solve(tried, last)
        found = rows.evidence(tried, last)
        if found > evidence:
            spread, theta, evidence = tried, last, found
    pooled, offsets = rows.offsets(spread, theta)
    covariances = rows.covariances(spread, theta)
    units = np.array([rows.unit, 1.0])
    return TaskLink(
        slope=float(theta[0] / rows.unit),
        offsets=tuple(np.split(offsets, np.cumsum(widths)[:-1])),
        covariances=covariances / units / units[:, np.newaxis],
        pooled=pooled[rows.group[: widths[0]]],
        spread=spread,
        shift=rows.shift(offsets, theta, covariances),
    )


class _LinkRows:
    """Held-out rows of all tasks: one problem for a slope and the offsets (P,) of all tasks and classes.

    `values` (N, M) are those for each class of a row's task, divided by `unit`; of two classes, 0 and f. `place` (N, M)
    is which offset is added to them, P for none; `present` (N, M) whether the task has the class; `target` (N, M) are
    smoothed. `group` (P,) is the pooled offset that each is drawn towards.
    """

    def __init__(
        self, values: Sequence[np.ndarray], codes: Sequence[np.ndarray], weights: Sequence[np.ndarray]
    ) -> None:
        widths = [part.shape[1] for part in values]
        starts = np.cumsum([0, *widths])
        columns = max(2, *widths)
        blocks = []
        for t, (part, code, weight) in enumerate(zip(values, codes, weights, strict=True)):
            first = 1 if widths[t] == 1 else 0
            known = np.isfinite(part).all(axis=1) & (weight > 0) & (code < first + widths[t])
            padded, place = np.zeros((known.sum(), columns)), np.full((known.sum(), columns), starts[-1])
            padded[:, first : first + widths[t]] = part[known]
            place[:, first : first + widths[t]] = np.arange(starts[t], starts[t + 1])
            present = np.broadcast_to(np.arange(columns) < first + widths[t], padded.shape)
            blocks.append((np.full(len(padded), t), weight[known], padded, place, present, code[known]))
        self.task, self.weight, padded, self.place, self.present, code = map(np.concatenate, zip(*blocks, strict=True))
        used = padded[self.place < starts[-1]]
        self.unit = float(np.sqrt(np.mean(used**2))) if len(used) and used.any() else 1.0
        self.values = padded / self.unit
        keys = [(width, column) for width in widths for column in range(width)]
        self.group = np.unique(keys, axis=0, return_inverse=True)[1].ravel()
        self.n_groups = int(self.group.max()) + 1
        self.target = _smoothed(code, self.present, self.weight)
        self.n_tasks, self.binary = len(widths), np.array(widths)[self.task] == 1

    def offsets(self, spread: float, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the pooled offsets (G,) and all offsets (P,)."""
        pooled, deviations = np.split(theta[1:], [self.n_groups])
        return pooled, pooled[self.group] + spread * deviations

    def solve(self, spread: float, start: np.ndarray | None) -> np.ndarray:
        """Return the slope, pooled offsets and deviations (in units of the spread) that minimise `loss`."""
        size = self.n_groups + len(self.group)
        theta = np.r_[1.0, np.zeros(size)] if start is None else start
        bounds = [(0.0, None)] + [(None, None)] * size
        options = {"maxiter": 500, "gtol": 1e-7 * self.weight.sum(), "ftol": 1e-12}
        return minimize(self.loss, theta, spread, "L-BFGS-B", jac=True, bounds=bounds, options=options).x

    def loss(self, theta: np.ndarray, spread: float) -> tuple[float, np.ndarray]:
        """Return the penalised negative log likelihood and its gradient."""
        logp = self._log_probabilities(spread, theta)
        slack = self.weight[:, np.newaxis] * (np.exp(logp) - self.target)
        at_offsets = self._at_offsets(slack)
        pooled, deviations = np.split(theta[1:], [self.n_groups])
        loss = -float(self.weight @ (self.target * np.where(self.present, logp, 0.0)).sum(axis=1))
        loss += 0.5 * float(deviations @ deviations) + 0.5 * _WEAK * float(pooled @ pooled)
        by_group = np.bincount(self.group, at_offsets, self.n_groups) + _WEAK * pooled
        return loss, np.r_[float((slack * self.values).sum()), by_group, spread * at_offsets + deviations]

    def evidence(self, spread: float, theta: np.ndarray) -> float:
        """Return the log marginal likelihood, by a Laplace approximation with independent offsets."""
        p = np.exp(self._log_probabilities(spread, theta))
        information = self._at_offsets(self.weight[:, np.newaxis] * p * (1 - p))
        return -self.loss(theta, spread)[0] - 0.5 * float(np.log1p(spread**2 * information).sum())

    def covariances(self, spread: float, theta: np.ndarray) -> np.ndarray:
        """Return covariances (T + 1, 2, 2) of slope and offset, for each task of two classes and for a new one.

        The Hessian has no terms of the offsets of two tasks, and is inverted task by task. A slope of zero is known.
        """
        rows, T = np.flatnonzero(self.binary), self.n_tasks
        p = np.exp(self._log_probabilities(spread, theta))[rows, 1]
        x = np.column_stack([self.values[rows, 1], np.ones(len(rows))])
        terms = (self.weight[rows] * p * (1 - p))[:, np.newaxis, np.newaxis] * _outer(x)
        information = np.zeros((T, 2, 2))
        np.add.at(information, self.task[rows], terms)
        # Deviations from the pooled offset, in units of the spread, have prior variance one.
        by_offset, own = information[:, 1], 1.0 + spread**2 * information[:, 1, 1]
        shared = np.sum(information - spread**2 * _outer(by_offset) / own[:, np.newaxis, np.newaxis], axis=0)
        shared[1, 1] += _WEAK
        free = np.array([theta[0] > 1e-9, True]) & (np.diag(shared) > 1e-12)
        covariance = np.zeros((2, 2))
        covariance[np.ix_(free, free)] = inverse(shared[np.ix_(free, free)])
        change = np.tile(np.eye(2), (T + 1, 1, 1))
        change[:T, 1] -= spread**2 * by_offset / own[:, np.newaxis]
        found = change @ covariance @ change.transpose(0, 2, 1)
        found[:, 1, 1] += spread**2 / np.append(own, 1.0)
        return found

    def shift(self, offsets: np.ndarray, theta: np.ndarray, covariances: np.ndarray) -> float:
        """Return the shift that makes the mean probability right: averaging moves probabilities towards 0.5."""
        rows = np.flatnonzero(self.binary)
        if not len(rows):
            return 0.0
        f = self.values[rows, 1]
        logits, factor = theta[0] * f + offsets[self.place[rows, 1]], _shrinkage(f, covariances[self.task[rows]])

        def excess(shift: float) -> float:
            return float(self.weight[rows] @ (expit((logits + shift) * factor) - self.target[rows, 1]))

        if not excess(-_MAX_SHIFT) < 0 < excess(_MAX_SHIFT):
            return 0.0
        return float(brentq(excess, -_MAX_SHIFT, _MAX_SHIFT, xtol=1e-8))

    def _log_probabilities(self, spread: float, theta: np.ndarray) -> np.ndarray:
        """Return log probabilities (N, M); -inf for classes that a row's task does not have."""
        offsets = self.offsets(spread, theta)[1]
        logits = theta[0] * self.values + np.append(offsets, 0.0)[self.place]
        return log_softmax(np.where(self.present, logits, -np.inf), axis=1)

    def _at_offsets(self, per_class: np.ndarray) -> np.ndarray:
        """Sum (N, M) over the rows that use each offset -> (P,)."""
        return np.bincount(self.place.ravel(), per_class.ravel(), len(self.group) + 1)[:-1]


def _outer(x: np.ndarray) -> np.ndarray:
    """x (n, a) -> (n, a, a)."""
    return x[:, :, np.newaxis] * x[:, np.newaxis]


def _smoothed(code: np.ndarray, present: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return smoothed targets (N, M): 1 - 1 / ((m - 1) n_c + 2) for a row's class, which has n_c rows.

    The rest is divided evenly over the other classes. With m = 2 classes these are Platt's targets.
    """
    target = np.zeros(present.shape)
    n_classes = present.sum(axis=1)
    for m in np.unique(n_classes):
        rows = np.flatnonzero(n_classes == m)
        counts = (m - 1) * np.bincount(code[rows], weight[rows], m)[code[rows]]
        own = (counts + 1.0) / (counts + 2.0)
        target[rows] = np.where(present[rows], ((1.0 - own) / (m - 1))[:, np.newaxis], 0.0)
        target[rows, code[rows]] = own
    return target


def pooled_link(values: np.ndarray, positive: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Return the slope and offset of one link for all rows; values, positive and weights are (N,).

    It uses Newton's method, which is fast enough for searches with many candidates. A weak ridge penalty keeps both
    numbers finite if the values separate the classes. The slope is always positive.
    """
    targets = np.where(positive, 1.0, -1.0)
    scale = float(np.sqrt(np.average(values**2, weights=weights))) or 1.0
    design = np.column_stack([values / scale, np.ones(len(values))])
    theta = np.array([1.0, 0.0])
    for _ in range(50):
        p = expit(-targets * (design @ theta))
        gradient = -design.T @ (weights * targets * p) + WEAK_PULL * theta
        hessian = (design * (weights * p * (1 - p))[:, np.newaxis]).T @ design + WEAK_PULL * np.eye(2)
        step = solve_stack(hessian, gradient)
        # Long steps are shortened: far from its minimum the loss is nearly linear.
        moved = theta - step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))
        moved[0] = max(moved[0], LEAST_SLOPE)
        theta, change = moved, float(np.abs(moved - theta).max())
        if change < 1e-8:
            break
    return float(theta[0] / scale), float(theta[1])


@dataclass(frozen=True)
class Residuals:
    """Distribution of held-out residuals.

    Attributes
    ----------
    scales : (T + 1,) scale of each task, and of a typical task.
    scores : for each task the sorted absolute residuals divided by its scale; quantiles of these if there are many.
    pooled : (N,) the scores of all tasks, sorted.
    new_task : residuals of tasks that were not in training.
    """

    scales: np.ndarray
    scores: tuple[np.ndarray, ...]
    pooled: np.ndarray
    new_task: NewTaskResiduals | None = None

    def quantiles(self, coverage: float) -> np.ndarray:
        """Return the half widths (T + 1,) of intervals for each task and a typical task."""
        own = [*self.scores, np.empty(0)]
        return self.scales * np.array([self._quantile(scores, coverage) for scores in own])

    def _quantile(self, own: np.ndarray, coverage: float) -> float:
        n_pooled = len(self.pooled)
        # A single task uses only its own rows; a task without rows uses all rows of the others.
        mass = 0.0 if len(self.scores) == 1 and len(own) else min(SHAPE_ROWS, n_pooled) if len(own) else n_pooled
        needed = coverage * (len(own) + mass + 1.0)
        points = np.unique(np.concatenate([own, self.pooled]))
        below = np.searchsorted(own, points, side="right") + mass * (
            np.searchsorted(self.pooled, points, side="right") / max(n_pooled, 1)
        )
        enough = np.flatnonzero(below >= needed - 1e-9)
        if len(enough):
            return float(points[enough[0]])
        # Too few rows for an empirical quantile: assume normal residuals.
        return float(student.ppf((1.0 + coverage) / 2.0, max(n_pooled - 1, 1)))


def fit_residuals(residuals: Sequence[np.ndarray], targets: Sequence[np.ndarray]) -> Residuals:
    """Fit scales and scores to the held-out residuals (n_t,) of each task, without NaN, and its targets."""
    sizes = [np.abs(part[np.isfinite(part)]) for part in residuals]
    scales = task_scales(sizes, targets)
    scaled = [np.sort(part) / scale if scale > 0 else part for part, scale in zip(sizes, scales, strict=False)]
    pooled = _thinned(np.sort(np.concatenate(scaled)), MAX_POOLED)
    return Residuals(scales, tuple(_thinned(part, MAX_OWN) for part in scaled), pooled)


def _thinned(scores: np.ndarray, limit: int) -> np.ndarray:
    """Return sorted scores, or `limit` quantiles if there are more."""
    return scores if len(scores) <= limit else np.quantile(scores, (np.arange(limit) + 0.5) / limit)


def task_scales(residuals: Sequence[np.ndarray], targets: Sequence[np.ndarray]) -> np.ndarray:
    """Return the scales (T + 1,) of each task and of a typical task, from residuals and targets."""
    n = np.array([len(part) for part in residuals])
    squares = np.array([np.mean(part**2) if len(part) else np.nan for part in residuals])
    if not np.nansum(squares * n) > 0:
        return np.zeros(len(residuals) + 1)
    # Variances of few targets are uncertain, so they are shrunk towards those of all tasks, too.
    variances = np.array([np.var(y, ddof=1) if len(y) > 1 else np.nan for y in targets])
    free = np.array([len(y) - 1 for y in targets])
    units = [np.ones(len(n)), np.exp(_drawn_together(variances, free, 2.0)[1])]
    found = []
    for unit in units:
        relative = squares / unit
        pooled = np.nansum(relative * n) / n.sum()
        # The square of a normal residual has variance 2; with heavier tails, mean squares are less certain.
        fourth = sum(float(np.sum((part**2 / u) ** 2)) for part, u in zip(residuals, unit, strict=True)) / n.sum()
        excess = float(np.clip(fourth / pooled**2 - 1.0, 2.0, 20.0))
        # Residuals of a task are correlated, so one degree of freedom is subtracted.
        found.append((*_drawn_together(relative, np.where(n > 1, n - 1, n), excess), unit))
    _, logs, center, unit = min(found, key=lambda each: each[0])
    typical = float(np.average(np.log(unit), weights=np.maximum(n, 1e-9)))
    return np.sqrt(np.append(np.exp(logs) * unit, np.exp(center + typical)))


def _drawn_together(squares: np.ndarray, counts: np.ndarray, excess: float) -> tuple[float, np.ndarray, float]:
    """Shrink log mean squares (T,) of tasks; return their variance between tasks, the shrunk values and the center.

    Mean squares are over `counts` (T,) numbers, whose squares have a variance of `excess`. The variance between tasks
    is estimated as by DerSimonian and Laird.
    """
    known = (counts > 0) & np.isfinite(squares)
    if not np.sum(squares[known] * counts[known]) > 0:
        return 0.0, np.zeros(len(squares)), 0.0
    n = np.where(known, counts, 1)
    pooled = float(squares[known] @ counts[known] / counts[known].sum())
    # Corrects for the mean, and weights by the variance, of the logarithm of a mean square of n normal numbers.
    logs = np.log(np.maximum(np.where(known, squares, pooled), 1e-12 * pooled)) - digamma(n / 2) + np.log(n / 2)
    precision = np.where(known, 2.0 / (excess * polygamma(1, n / 2)), 0.0)
    mean = float(np.average(logs, weights=precision))
    spare = precision.sum() - (precision**2).sum() / precision.sum()
    chance = np.count_nonzero(known) - 1
    between = max(0.0, (float(precision @ (logs - mean) ** 2) - chance) / spare) if spare > 0 else 0.0
    if between == 0:
        return 0.0, np.full(len(logs), np.log(pooled)), float(np.log(pooled))
    center = float(np.average(logs, weights=precision / (1.0 + between * precision)))
    weight = between * precision / (1.0 + between * precision)
    return between, center + weight * (logs - center), center


@dataclass(frozen=True)
class NewTaskResiduals:
    """Residuals of tasks that were left out whole: intervals of tasks that were not in training.

    Residuals of one task go together, so that many rows of few tasks say little: a task of n rows counts as
    n / (1 + (n - 1) r) rows, with r the correlation of residuals within tasks, and the quantile is that of split
    conformal prediction with `n_effective` rows. `below` (N,) is the share of residuals up to each of `sizes` (N,).
    """

    scale: float
    sizes: np.ndarray
    below: np.ndarray
    n_effective: float

    def quantile(self, coverage: float) -> float:
        """Return the half width of an interval."""
        share = coverage * (self.n_effective + 1.0) / self.n_effective
        if share <= 1.0:
            return float(self.sizes[np.searchsorted(self.below, share - 1e-9)])
        # Too few tasks for an empirical quantile: assume normal residuals.
        return self.scale * float(student.ppf((1.0 + coverage) / 2.0, max(self.n_effective - 1.0, 1.0)))


def fit_new_tasks(residuals: Sequence[np.ndarray]) -> NewTaskResiduals:
    """Fit to the residuals (n_t,) of tasks that were left out completely; at least one must not be NaN."""
    sizes = [np.abs(part[np.isfinite(part)]) for part in residuals if np.isfinite(part).any()]
    counts = np.array([len(part) for part in sizes])
    worth = counts / (1.0 + (counts - 1.0) * _correlation(sizes))
    values = np.concatenate(sizes)
    order = np.argsort(values, kind="stable")
    below = np.cumsum(np.repeat(worth / counts, counts)[order]) / worth.sum()
    below[-1] = 1.0
    step = -(-len(values) // MAX_POOLED)
    kept = np.arange(len(values) - 1, -1, -step)[::-1]
    scale = float(np.sqrt(np.mean([np.mean(part**2) for part in sizes])))
    return NewTaskResiduals(scale, values[order][kept], below[kept], float(worth.sum()))


def _correlation(scores: Sequence[np.ndarray]) -> float:
    """Return the correlation of scores within tasks, by an analysis of variance; 1 for a single task."""
    counts = np.array([len(part) for part in scores])
    T, N = len(counts), int(counts.sum())
    if T < 2:
        return 1.0
    if N == T:
        return 0.0
    means, mean = np.array([part.mean() for part in scores]), float(np.concatenate(scores).mean())
    between = float(counts @ (means - mean) ** 2) / (T - 1)
    within = float(counts @ [part.var() for part in scores]) / (N - T)
    size = (N - float(np.sum(counts**2)) / N) / (T - 1)
    total = between + (size - 1.0) * within
    return float(np.clip((between - within) / total, 0.0, 1.0)) if total > 0 else 0.0
