"""Predictions of a fitted Kin model: means, standard deviations, intervals and probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logit

from ..calibration import Link, Scores, TargetUnits
from ..data.forms import Queries
from ..engines.threads import SingleThreadedBLAS
from ..mixed.effects import training_rows
from ..mixed.structures import FittedStructure
from ..mixed.terms import TaskKernel
from .data import ClassCodes, GivenKernels

CERTAIN = 1e-9
# The pull of the link of probabilities towards the identity, and the bounds of its slope and offset.
LINK_PULL, LINK_BOUNDS = 10.0, ((0.2, 3.0), (-2.0, 2.0))


@dataclass(frozen=True)
class KinFunctions:
    """The average of fitted structures."""

    members: tuple[FittedStructure, ...]
    weights: np.ndarray
    new_weights: np.ndarray  # their weights for groups of the first grouping that were not in training
    wide: bool  # whether tasks are outputs on the same rows
    n_tasks: int  # T
    loss: Any = None  # the loss of a regressor, one of `losses.LOSSES`
    units: TargetUnits | None = None  # the units of the targets, for a regressor
    scores: Scores | None = None  # scores of held-out targets, for a regressor
    classes: ClassCodes | None = None
    link: Link | None = None
    kernels: GivenKernels | None = None  # user-supplied kernels
    # (E,) labels of tasks without rows but with features; their codes are T to T + E - 1.
    new_tasks: np.ndarray | None = None
    group_rows: tuple[np.ndarray, ...] = ()  # for each grouping, the number of training rows of each group (G,)
    column_names: tuple[str, ...] = ()  # (d,) the names of the columns

    def rows(self) -> np.ndarray | None:
        """Return the distinct training rows (s, d) in the units of X; None for precomputed kernels or no columns."""
        if self.kernels is not None:
            return np.unique(self.kernels.X, axis=0) if len(self.kernels.X) else None
        member = self.members[0]
        rows = training_rows(member)[0][:, : member.columns.n_columns]
        return member.columns.restore(np.unique(rows, axis=0)) if rows.shape[1] else None

    def without_means(self) -> tuple[list[FittedStructure], np.ndarray]:
        """Return the members in which the function of a group depends on the columns of a row alone, and weights."""
        kept = [i for i, member in enumerate(self.members) if member.means is None]
        weights = self.weights[kept] if self.weights[kept].sum() > 0 else np.ones(len(kept))
        return [self.members[i] for i in kept], weights / weights.sum()

    def latent(self, X: np.ndarray, groups: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances (M, q, r) of the members' functions at rows with these groups."""
        kernels, columns = ((), X) if self.kernels is None else (self.kernels.at(X), np.empty((len(X), 0)))
        with SingleThreadedBLAS():
            found = [member.predict(columns, groups, kernels) for member in self.members]
        return np.array([mean for mean, _ in found]), np.array([variance for _, variance in found])

    def groups_of(self, queries: Queries) -> list[np.ndarray]:
        """Return the position of each row's group in each grouping; -1 for groups that were not in training."""
        further = queries.groupings or [np.full(len(queries.X), -1)] * (len(self.group_rows) - 1)
        # On wide data, tasks are outputs and all rows belong to one group.
        codes = np.zeros(len(queries.X), dtype=np.intp) if queries.codes is None else queries.codes
        return [np.minimum(codes, 0) if self.wide else codes, *further]

    def weights_of(self, codes: np.ndarray | None) -> np.ndarray:
        """Return the weights (M, q) of the members for rows of these tasks, or (M, 1) for rows of all tasks."""
        if codes is None:
            return self.weights[:, None]
        return np.where(codes < 0, self.new_weights[:, None], self.weights[:, None])

    def moments(self, queries: Queries, offset: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return means and standard deviations of targets (q,), or (q, T) without codes, in their original units.

        `offset` (q,) is added to the logarithms of expected counts.
        """
        if queries.codes is None and not self.wide:
            offset = None if offset is None else np.repeat(offset, self.n_tasks)
            mean, deviation = self.moments(every_task(queries, self.n_tasks), offset)
            return mean.reshape(-1, self.n_tasks), deviation.reshape(-1, self.n_tasks)
        return self.loss.moments(self, queries, offset)

    def ends(self, mean: np.ndarray, deviation: np.ndarray, coverage: float) -> np.ndarray:
        """Return intervals (..., 2) of targets with these means and deviations."""
        assert self.scores is not None
        return self.loss.ends(mean, deviation, self.scores.quantile(coverage))

    def probabilities(self, queries: Queries) -> np.ndarray:
        """Return the probabilities (q, C) of all classes, or (q, T, C) without codes."""
        assert self.classes is not None and self.link is not None
        if queries.codes is None and not self.wide:
            found = self.probabilities(every_task(queries, self.n_tasks))
            return found.reshape(len(queries.X), self.n_tasks, -1)
        members = self.members[0].likelihood.mean(*self.latent(queries.X, self.groups_of(queries)))
        p = self.link(log_odds((self.weights_of(queries.codes)[:, :, None] * members).sum(0)))
        if queries.codes is not None:
            p = p[np.arange(len(p)), queries.codes][:, None] if self.wide else p
            return spread_probabilities(self.classes, p, queries.codes)
        each = [spread_probabilities(self.classes, column[:, None], np.full(len(p), t)) for t, column in enumerate(p.T)]
        return np.stack(each, axis=1)

    def values(self, X: np.ndarray, codes: np.ndarray | None) -> np.ndarray:
        """Return means of targets (q, 1) or (q, T, 1); for classes, log odds with one output for two classes."""
        queries = Queries(X, codes)
        if self.classes is None:
            return self.moments(queries)[0][..., None]
        p = np.clip(self.probabilities(queries), CERTAIN, 1.0)
        return np.log(p[..., 1:]) - np.log(p[..., :1]) if len(self.classes.classes) == 2 else np.log(p)

    def with_task_kernels(self, kernels: Sequence[np.ndarray], new_tasks: np.ndarray) -> KinFunctions:
        """Return the functions with kernels extended to new tasks."""
        members = []
        for member in self.members:
            new, terms = iter(kernels), member.model.terms
            member, member.model = copy(member), copy(member.model)
            member.model.terms = tuple(replace(t, values=next(new)) if isinstance(t, TaskKernel) else t for t in terms)
            members.append(member)
        return replace(self, members=tuple(members), new_tasks=new_tasks)


def log_odds(p: np.ndarray) -> np.ndarray:
    """Return the log odds of probabilities; the link of a classifier takes them."""
    return logit(np.clip(p, CERTAIN, 1 - CERTAIN))


def fit_link(p: np.ndarray, y: np.ndarray, weight: np.ndarray) -> Link:
    """Fit a link to held-out probabilities (n,) and classes (n,), shrunk towards the identity if there are few rows."""
    return Link.fit([(log_odds(p)[:, None], y[:, None], weight)], 1.0, LINK_PULL, LINK_BOUNDS)


def every_task(queries: Queries, n_tasks: int) -> Queries:
    """Return the queries with each row repeated for every task."""
    return Queries(np.repeat(queries.X, n_tasks, axis=0), np.tile(np.arange(n_tasks), len(queries.X)))


def spread_probabilities(classes: ClassCodes, p: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return probabilities (q, C) of all classes from outputs (q, r); zero for classes that a task cannot have."""
    if len(classes.classes) <= 2:
        return np.hstack([1.0 - p, p])[:, -len(classes.classes) :]
    known = (codes >= 0) & (codes < len(classes.of_task))
    # If each task has its own classes, tasks that were not in training get those of the first task.
    task = np.where(known, codes, 0)
    if classes.by_task:
        out = np.zeros((len(p), len(classes.classes)))
        own = np.searchsorted(classes.classes, np.array(classes.of_task))
        np.put_along_axis(out, own[task], np.hstack([1.0 - p, p]), axis=1)
        return out
    out = np.where(classes.possible[task] | ~known[:, None], np.maximum(p, CERTAIN), 0.0)
    return out / out.sum(axis=1, keepdims=True)
