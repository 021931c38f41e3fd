"""From decision values to probabilities: a logistic link whose slopes all tasks share, with an offset for each task.

The log odds of a row of task t are `slope (f - m_t) + between m_t + offset_t`, with m_t the mean value over the task's
training rows (of a task with more than two classes, these are the logits of a softmax, with an offset for each class).
The intercept of a machine with few rows is mostly chance, so that differences between tasks count less than those
within one: `0 <= between <= slope` says how much. Offsets are normally distributed around a pooled one, with a spread
between tasks that maximises the marginal likelihood (Laplace's approximation): a task with few rows has nearly the
pooled offset, one with many rows nearly its own. Targets are smoothed as Platt proposed, by the pooled counts of the
classes, so that the link of a single task is Platt's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

# Spreads of the tasks' offsets that are compared, in log odds.
SPREADS = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
# Values this small in proportion to the largest pull pooled offsets to zero, where nothing else determines them.
_WEAK = 1e-6


@dataclass(frozen=True)
class TaskLink:
    """Fitted link.

    Attributes
    ----------
    slope, between : log odds for each unit of the decision values within a task, and of their means; none is negative.
    offsets : for each task (m_t,), one for two classes, otherwise one for each class.
    centers : for each task (m_t,), the mean value over its training rows; zero where it is not known.
    pooled : (2, m) offset and center of a task that was not in training.
    spread : standard deviation of the offsets between tasks.
    new_tasks : links of tasks that were not in training, by how these are predicted, each as that of one task.
    """

    slope: float
    between: float
    offsets: tuple[np.ndarray, ...]
    centers: tuple[np.ndarray, ...]
    pooled: np.ndarray
    spread: float
    new_tasks: dict[str, TaskLink] = field(default_factory=dict)

    def probabilities(self, values: np.ndarray, task: int) -> np.ndarray:
        """Decision values (q, m_t) of a task (-1: not in training) -> probabilities (q, classes)."""
        offset, center = self.pooled if task < 0 else (self.offsets[task], self.centers[task])
        logits = self.slope * (values - center) + self.between * center + offset
        return softmax(np.column_stack([np.zeros(len(logits)), logits]) if logits.shape[1] == 1 else logits, axis=1)


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
    rows = _LinkRows.of(values, codes, [np.ones(len(c)) for c in codes] if weights is None else weights, centers)
    n_tasks = len(set(rows.task.tolist()))
    if not n_tasks:
        zeros = tuple(np.zeros(m) for m in widths)
        return TaskLink(0.0, 0.0, zeros, zeros, np.zeros((2, widths[0])), 0.0)
    best, evidence, theta = None, -np.inf, None
    for spread in SPREADS if n_tasks > 1 else SPREADS[:1]:
        theta = rows.solve(spread, theta)
        found = rows.evidence(spread, theta)
        if found > evidence:
            best, evidence = (spread, theta), found
    assert best is not None
    slope, between, pooled, offsets = rows.unpack(*best)
    parts = np.split(offsets, np.cumsum(widths)[:-1])
    same = [center for center in final_centers if len(center) == widths[0]]
    unknown = np.array([pooled[rows.group[: widths[0]]], np.mean(same, axis=0)])
    return TaskLink(slope, between, tuple(parts), tuple(final_centers), unknown, best[0])


@dataclass(frozen=True)
class _LinkRows:
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

    @classmethod
    def of(
        cls,
        values: Sequence[np.ndarray],
        codes: Sequence[np.ndarray],
        weights: Sequence[np.ndarray],
        centers: Sequence[np.ndarray],
    ) -> _LinkRows:
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
        return cls(task, weight, padded / unit, within / unit, place, present, target, group, unit)

    @property
    def n_groups(self) -> int:
        return int(self.group.max()) + 1

    def unpack(self, spread: float, theta: np.ndarray) -> tuple[float, float, np.ndarray, np.ndarray]:
        """Return the slopes in the units of the values, the pooled offsets (G,) and all offsets (P,)."""
        pooled, deviations = np.split(theta[2:], [self.n_groups])
        between, more = (theta[:2] / self.unit).tolist()
        return between + more, between, pooled, pooled[self.group] + spread * deviations

    def solve(self, spread: float, start: np.ndarray | None) -> np.ndarray:
        """Return slopes, pooled offsets and deviations (in units of the spread) that maximise the penalised fit."""
        size = self.n_groups + len(self.group)
        theta = np.r_[1.0, 0.0, np.zeros(size)] if start is None else start
        bounds = [(0.0, None)] * 2 + [(None, None)] * size
        options = {"maxiter": 500, "gtol": 1e-7, "ftol": 1e-14}
        return minimize(self._loss, theta, spread, "L-BFGS-B", jac=True, bounds=bounds, options=options).x

    def evidence(self, spread: float, theta: np.ndarray) -> float:
        """Return the logarithm of the marginal likelihood, by Laplace's approximation offset by offset."""
        p = softmax(self._logits(spread, theta), axis=1)
        information = self._at_offsets(self.weight[:, np.newaxis] * p * (1 - p))
        return -self._loss(theta, spread)[0] - 0.5 * float(np.log1p(spread**2 * information).sum())

    def _logits(self, spread: float, theta: np.ndarray) -> np.ndarray:
        offsets = self.unpack(spread, theta)[3]
        known = theta[0] * self.values + theta[1] * self.within + np.append(offsets, 0.0)[self.place]
        return np.where(self.present, known, -np.inf)

    def _loss(self, theta: np.ndarray, spread: float) -> tuple[float, np.ndarray]:
        logits = self._logits(spread, theta)
        logp = np.where(self.present, log_softmax(logits, axis=1), 0.0)
        slack = self.weight[:, np.newaxis] * (softmax(logits, axis=1) - self.target)
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


def _smoothed(code: np.ndarray, present: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return targets (N, M): (n_c + 1) / (n_c + 2) for a row's class of n_c rows; the rest evenly over the others."""
    target = np.zeros(present.shape)
    n_classes = present.sum(axis=1)
    for m in np.unique(n_classes):
        rows = np.flatnonzero(n_classes == m)
        counts = np.bincount(code[rows], weight[rows], m)[code[rows]]
        own = (counts + 1.0) / (counts + 2.0)
        target[rows] = np.where(present[rows], ((1.0 - own) / (m - 1))[:, np.newaxis], 0.0)
        target[rows, code[rows]] = own
    return target
