"""Held-out decision values of all tasks as one problem: the slopes and offsets of the link from values to log odds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from ..decompositions import inverse

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
