"""From decision values to probabilities: a logistic link whose slopes all tasks share, with an offset for each task.

The log odds of a row of task t are `slope (f - m_t) + between m_t + offset_t`, with m_t the mean value over the task's
training rows (of a task with more than two classes, these are the logits of a softmax, with an offset for each class).
The intercept of a machine with few rows is mostly chance, so that differences between tasks count less than those
within one: `0 <= between <= slope` says how much. Offsets are normally distributed around a pooled one, with a spread
between tasks that maximises the marginal likelihood (Laplace's approximation): a task with few rows has nearly the
pooled offset, one with many rows nearly its own. Targets are smoothed as Platt proposed, by the pooled counts of the
classes.

Slopes and offsets are uncertain too. Probabilities of two classes are means over what they may be: log odds of variance
v are divided by sqrt(1 + pi v / 8) (MacKay's approximation), and shifted so that held-out rows have the right mean
probability. (For more classes this was measured to gain nothing.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import expit, softmax

from ..decompositions import inverse, solve_stack

# Values this small in proportion to the largest pull pooled offsets to zero, where nothing else determines them.
_WEAK = 1e-6


@dataclass(frozen=True)
class LinkRows:
    """Held-out rows of all tasks, as one problem over the offsets (P,) of all tasks and classes.

    Attributes
    ----------
    task, weight : (N,)
    values : (N, M) decision values for each class of a row's task, divided by `unit`; of two classes, 0 and f.
    within : (N, M) the same relative to the centers.
    place : (N, M) which offset is added to them; P stands for none.
    present : (N, M) whether the task has the class.
    target : (N, M) smoothed targets.
    group : (P,) the pooled offset that each is drawn towards.
    unit : the root mean square of the values.
    widths : number of offsets of each task.
    """

    task: np.ndarray
    weight: np.ndarray
    values: np.ndarray
    within: np.ndarray
    place: np.ndarray
    present: np.ndarray
    target: np.ndarray
    group: np.ndarray
    unit: float
    widths: tuple[int, ...]

    @classmethod
    def of(
        cls,
        values: Sequence[np.ndarray],
        codes: Sequence[np.ndarray],
        weights: Sequence[np.ndarray],
        centers: Sequence[np.ndarray],
    ) -> LinkRows:
        widths = [part.shape[1] for part in values]
        starts = np.cumsum([0, *widths])
        columns = max(2, *widths) if widths else 2
        blocks = []
        for t, (part, code, weight, center) in enumerate(zip(values, codes, weights, centers, strict=True)):
            first = 1 if widths[t] == 1 else 0
            known = np.isfinite(part).all(axis=1) & (weight > 0) & (code < first + widths[t])
            padded, place = np.zeros((known.sum(), columns)), np.full((known.sum(), columns), starts[-1])
            within = padded.copy()
            padded[:, first : first + widths[t]] = part[known]
            within[:, first : first + widths[t]] = (part - center)[known]
            place[:, first : first + widths[t]] = np.arange(starts[t], starts[t + 1])
            present = np.broadcast_to(np.arange(columns) < first + widths[t], padded.shape)
            blocks.append((np.full(len(padded), t), weight[known], padded, within, place, present, code[known]))
        task, weight, padded, within, place, present, code = map(np.concatenate, zip(*blocks, strict=True))
        size = float(np.sqrt(np.mean(padded[place < starts[-1]] ** 2))) if len(task) else 1.0
        unit = size or 1.0
        keys = [(width, column) for width in widths for column in range(width)]
        group = np.unique(keys, axis=0, return_inverse=True)[1].ravel()
        target = _smoothed(code, present, weight)
        return cls(task, weight, padded / unit, within / unit, place, present, target, group, unit, tuple(widths))

    @property
    def n_groups(self) -> int:
        return int(self.group.max()) + 1

    def offsets(self, spread: float, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the pooled offsets (G,) and all offsets (P,)."""
        pooled, deviations = np.split(theta[2:], [self.n_groups])
        return pooled, pooled[self.group] + spread * deviations

    def solve(self, spread: float, start: np.ndarray | None) -> np.ndarray:
        """Return slopes, pooled offsets and deviations (in units of the spread) that maximise the penalised fit."""
        size = self.n_groups + len(self.group)
        theta = np.r_[1.0, 0.0, np.zeros(size)] if start is None else start
        bounds = [(0.0, None), (0.0, None)] + [(None, None)] * size
        options = {"maxiter": 500, "gtol": 1e-7 * self.weight.sum(), "ftol": 1e-12}
        return minimize(self.loss, theta, spread, "L-BFGS-B", jac=True, bounds=bounds, options=options).x

    def evidence(self, spread: float, theta: np.ndarray) -> float:
        """Return the logarithm of the marginal likelihood, by Laplace's approximation offset by offset."""
        p = np.exp(self._log_probabilities(spread, theta))
        information = self._at_offsets(self.weight[:, np.newaxis] * p * (1 - p))
        return -self.loss(theta, spread)[0] - 0.5 * float(np.log1p(spread**2 * information).sum())

    def covariances(self, spread: float, theta: np.ndarray) -> np.ndarray:
        """Return covariances (T + 1, 3, 3) of the slopes and the offset of each task of two classes, and of a new one.

        By Laplace's approximation at the optimum. The Hessian has no terms of the offsets of two tasks, so that it is
        inverted task by task; that of other tasks is left out. Slopes at a bound are taken as known.
        """
        T, rows = len(self.widths), np.flatnonzero(np.array(self.widths)[self.task] == 1)
        task, p = self.task[rows], np.exp(self._log_probabilities(spread, theta))[rows, 1]
        x = np.column_stack([self.values[rows, 1], self.within[rows, 1], np.ones(len(rows))])
        information = np.zeros((T, 3, 3))
        np.add.at(information, task, (self.weight[rows] * p * (1 - p))[:, np.newaxis, np.newaxis] * _outer(x))
        # Deviations from the pooled offset, in units of the spread, have variance one beforehand.
        by_offset, own = information[:, 2], 1.0 + spread**2 * information[:, 2, 2]
        shared = np.sum(information - spread**2 * _outer(by_offset) / own[:, np.newaxis, np.newaxis], axis=0)
        shared[2, 2] += _WEAK
        free = np.r_[theta[:2] > 1e-9, True] & (np.diag(shared) > 1e-12)
        covariance = np.zeros((3, 3))
        covariance[np.ix_(free, free)] = inverse(shared[np.ix_(free, free)])
        change = np.tile(np.eye(3), (T + 1, 1, 1))
        change[:T, 2] -= spread**2 * by_offset / own[:, np.newaxis]
        found = change @ covariance @ change.transpose(0, 2, 1)
        found[:, 2, 2] += spread**2 / np.append(own, 1.0)
        return found

    def _log_probabilities(self, spread: float, theta: np.ndarray) -> np.ndarray:
        """(N, M), -inf for classes that a row's task does not have."""
        offsets = self.offsets(spread, theta)[1]
        logits = theta[0] * self.values + theta[1] * self.within + np.append(offsets, 0.0)[self.place]
        if not self.present.all():
            logits = np.where(self.present, logits, -np.inf)
        shifted = logits - logits.max(axis=1, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))

    def loss(self, theta: np.ndarray, spread: float) -> tuple[float, np.ndarray]:
        """Return the penalised loss of slopes, pooled offsets and deviations, and its gradient."""
        logp = self._log_probabilities(spread, theta)
        slack = self.weight[:, np.newaxis] * (np.exp(logp) - self.target)
        logp = np.where(self.present, logp, 0.0)
        at_offsets = self._at_offsets(slack)
        pooled, deviations = np.split(theta[2:], [self.n_groups])
        loss = -float(self.weight @ (self.target * logp).sum(axis=1))
        loss += 0.5 * float(deviations @ deviations) + 0.5 * _WEAK * float(pooled @ pooled)
        gradient = np.r_[
            float((slack * self.values).sum()),
            float((slack * self.within).sum()),
            np.bincount(self.group, at_offsets, self.n_groups) + _WEAK * pooled,
            spread * at_offsets + deviations,
        ]
        return loss, gradient

    def _at_offsets(self, per_class: np.ndarray) -> np.ndarray:
        """Sum (N, M) over the rows that use each offset -> (P,)."""
        return np.bincount(self.place.ravel(), per_class.ravel(), len(self.group) + 1)[:-1]


def _outer(x: np.ndarray) -> np.ndarray:
    """x (n, a) -> (n, a, a)."""
    return x[:, :, np.newaxis] * x[:, np.newaxis]


def _smoothed(code: np.ndarray, present: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return targets (N, M): 1 - 1 / ((m - 1) n_c + 2) for a row's class of n_c rows; the rest evenly over the others.

    With m = 2 classes these are Platt's. Each other class gets, from all rows of a class, less than one row in all.
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


# Spreads of the tasks' offsets that are compared, in log odds.
SPREADS = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
# The least slope of pooled rows, for values of mean square one.
LEAST_SLOPE = 0.05
# How strongly slope and offset of pooled rows are pulled to zero, in rows.
WEAK_PULL = 1e-2
# The largest shift of log odds.
_MAX_SHIFT = 5.0


@dataclass(frozen=True)
class TaskLink:
    """Fitted link.

    Attributes
    ----------
    slope, between : log odds for each unit of the decision values within a task, and of their means; none is negative.
    offsets : for each task (m_t,), one for two classes, otherwise one for each class.
    centers : for each task (m_t,), the mean value over its training rows; zero where it is not known.
    covariances : (T + 1, 3, 3) of `between`, `slope - between` and the offset of each task of two classes; the last one
        is that of a task that was not in training.
    pooled : (2, m) offset and center of a task that was not in training.
    spread : standard deviation of the offsets between tasks.
    shift : what is added to log odds of two classes.
    new_tasks : links of tasks that were not in training, by how these are predicted, each as that of one task.
    """

    slope: float
    between: float
    offsets: tuple[np.ndarray, ...]
    centers: tuple[np.ndarray, ...]
    covariances: np.ndarray
    pooled: np.ndarray
    spread: float
    shift: float = 0.0
    new_tasks: dict[str, TaskLink] = field(default_factory=dict)

    def probabilities(self, values: np.ndarray, task: int) -> np.ndarray:
        """Decision values (q, m_t) of a task (-1: not in training) -> probabilities (q, classes)."""
        offset, center = self.pooled if task < 0 else (self.offsets[task], self.centers[task])
        logits = self.slope * (values - center) + self.between * center + offset
        if len(offset) > 1:
            return softmax(logits, axis=1)
        design = np.column_stack([values, values - center, np.ones(len(values))])
        p = expit((logits[:, 0] + self.shift) * _shrinkage(design, self.covariances[task]))
        return np.column_stack([1.0 - p, p])


def _shrinkage(design: np.ndarray, covariances: np.ndarray) -> np.ndarray:
    """Return the factors (q,) of log odds of uncertain slopes and offsets, by rows (f, f - m_t, 1) of the design.

    `covariances` are (q, 3, 3), or (3, 3) for all rows.
    """
    variance = np.einsum("qa,qab,qb->q", design, np.broadcast_to(covariances, (len(design), 3, 3)), design)
    return 1.0 / np.sqrt(1.0 + np.pi / 8.0 * np.maximum(variance, 0.0))


def fit_link(
    values: Sequence[np.ndarray],
    codes: Sequence[np.ndarray],
    weights: Sequence[np.ndarray] | None = None,
    centers: Sequence[np.ndarray] | None = None,
    final_centers: Sequence[np.ndarray] | None = None,
) -> TaskLink:
    """Fit the link to held-out decision values.

    Parameters
    ----------
    values : for each task (n_t, m_t); rows with NaN are left out
    codes : for each task (n_t,), the class of each row, as a position among the task's classes; rows of no such class
        are left out
    weights : for each task (n_t,), optional
    centers, final_centers : as in `HeldOut`, optional
        Not used for a single task, whose offset they would be.
    """
    widths = [part.shape[1] for part in values]
    if centers is None or final_centers is None or len(values) == 1:
        # Nothing is within: the slope of the values is the only one.
        centers, final_centers = values, [np.zeros(m) for m in widths]
    rows = LinkRows.of(values, codes, [np.ones(len(c)) for c in codes] if weights is None else weights, centers)
    n_tasks = len(set(rows.task.tolist()))
    if not n_tasks:
        return _no_link(widths)
    best, evidence, theta = None, -np.inf, None
    for spread in SPREADS if n_tasks > 1 else SPREADS[:1]:
        theta = rows.solve(spread, theta)
        found = rows.evidence(spread, theta)
        if found > evidence:
            best, evidence = (spread, theta), found
    assert best is not None
    return _link(rows, *best, final_centers)


def pooled_link(values: np.ndarray, positive: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Return slope and offset of the log odds of one link for all rows; values, positive and weights are (N,).

    By Newton's method, as searches fit one for each candidate. A weak pull towards no skill keeps both finite where
    values separate the classes. The slope is positive: where few rows suggest otherwise, larger values still do not
    make the class less likely.
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
        # A step that would overshoot is shortened: the loss is convex, and far from its minimum nearly linear.
        moved = theta - step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))
        moved[0] = max(moved[0], LEAST_SLOPE)
        theta, change = moved, float(np.abs(moved - theta).max())
        if change < 1e-8:
            break
    return float(theta[0] / scale), float(theta[1])


def _no_link(widths: Sequence[int]) -> TaskLink:
    """The link of no rows: all classes are equally probable."""
    zeros = tuple(np.zeros(m) for m in widths)
    return TaskLink(0.0, 0.0, zeros, zeros, np.zeros((len(widths) + 1, 3, 3)), np.zeros((2, widths[0])), 0.0)


def _link(rows: LinkRows, spread: float, theta: np.ndarray, final_centers: Sequence[np.ndarray]) -> TaskLink:
    pooled, offsets = rows.offsets(spread, theta)
    covariances = rows.covariances(spread, theta)
    first = rows.group[: rows.widths[0]]
    same = [center for center in final_centers if len(center) == len(first)]
    between, more = (theta[:2] / rows.unit).tolist()
    units = np.array([rows.unit, rows.unit, 1.0])
    return TaskLink(
        slope=between + more,
        between=between,
        offsets=tuple(np.split(offsets, np.cumsum(rows.widths)[:-1])),
        centers=tuple(final_centers),
        covariances=covariances / units / units[:, np.newaxis],
        pooled=np.array([pooled[first], np.mean(same, axis=0)]),
        spread=spread,
        shift=_shift(rows, rows.offsets(spread, theta)[1], theta, covariances),
    )


def _shift(rows: LinkRows, offsets: np.ndarray, theta: np.ndarray, covariances: np.ndarray) -> float:
    """Return what makes the mean probability of two classes right: averaging draws rare classes towards a half."""
    used = np.flatnonzero(np.array(rows.widths)[rows.task] == 1)
    if not len(used):
        return 0.0
    design = np.column_stack([rows.values[used, 1], rows.within[used, 1], np.ones(len(used))])
    logits = design[:, :2] @ theta[:2] + offsets[rows.place[used, 1]]
    factor = _shrinkage(design, covariances[rows.task[used]])

    def excess(shift: float) -> float:
        return float(rows.weight[used] @ (expit((logits + shift) * factor) - rows.target[used, 1]))

    if not excess(-_MAX_SHIFT) < 0 < excess(_MAX_SHIFT):
        return 0.0
    return float(brentq(excess, -_MAX_SHIFT, _MAX_SHIFT, xtol=1e-8))
