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
from scipy.optimize import brentq
from scipy.special import expit, softmax

from ..decompositions import solve_stack
from .link_rows import LinkRows

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
