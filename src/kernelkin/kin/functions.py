"""Predictions of a fitted Kin model: means, standard deviations, intervals and probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logit
from scipy.stats import nbinom, norm

from ..calibration import Link, Scores, TargetUnits
from ..data.forms import Queries
from ..engines.threads import SingleThreadedBLAS
from ..mixed.average import average
from ..mixed.effects import training_rows
from ..mixed.likelihoods import Likelihood, Poisson
from ..mixed.structures import FittedStructure
from ..mixed.terms import TaskKernel
from .data import ClassCodes, GivenKernels

CERTAIN = 1e-9
# The pull of the link of probabilities towards the identity, and the bounds of its slope and offset.
LINK_PULL, LINK_BOUNDS = 10.0, ((0.2, 3.0), (-2.0, 2.0))


@dataclass(frozen=True)
class KinFunctions:
    """The average of fitted structures."""

    # members, weights: fitted structures and their weights.
    members: tuple[FittedStructure, ...]
    weights: np.ndarray
    new_weights: np.ndarray  # their weights for groups of the first grouping that were not in training
    likelihood: Likelihood  # the likelihood of the targets
    wide: bool  # whether tasks are outputs on the same rows
    n_tasks: int  # T
    units: TargetUnits | None = None  # the units of the targets, for a regressor
    scores: Scores | None = None  # scores of held-out targets, for a regressor
    # classes, link: classes and calibration, for a classifier.
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
        kernels = () if self.kernels is None else self.kernels.at(X)
        columns = np.empty((len(X), 0)) if self.kernels is not None else X
        with SingleThreadedBLAS():
            found = [member.predict(columns, groups, kernels) for member in self.members]
        return np.array([mean for mean, _ in found]), np.array([variance for _, variance in found])

    def groups_of(self, queries: Queries) -> list[np.ndarray]:
        """Return the position of each row's group in each grouping; -1 for groups that were not in training."""
        assert queries.codes is not None
        further = queries.groupings or [np.full(len(queries.X), -1)] * (len(self.group_rows) - 1)
        # On wide data, tasks are outputs and all rows belong to one group.
        return [np.minimum(queries.codes, 0) if self.wide else queries.codes, *further]

    def weights_of(self, codes: np.ndarray | None) -> np.ndarray:
        """Return the weights (M, q) of the members for rows of these tasks, or (M, 1) for rows of all tasks."""
        if codes is None:
            return self.weights[:, None]
        is_new = (codes < 0) | (codes >= self.n_tasks)
        return np.where(is_new, self.new_weights[:, None], self.weights[:, None])

    def moments(self, queries: Queries, offset: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return means and standard deviations of targets (q,), or (q, T) without codes, in their original units.

        `offset` (q,) is added to the logarithms of expected counts.
        """
        if queries.codes is None and not self.wide:
            offset = None if offset is None else np.repeat(offset, self.n_tasks)
            mean, deviation = self.moments(every_task(queries, self.n_tasks), offset)
            return mean.reshape(-1, self.n_tasks), deviation.reshape(-1, self.n_tasks)
        if not isinstance(self.likelihood, Poisson):
            return self._normal(queries)
        assert self.units is not None
        f, variance = self.latent(queries.X, self.groups_of(queries))
        f = f[:, :, 0] + self.units.new_location + (0.0 if offset is None else offset)
        return count_moments(f, variance[:, :, 0], self.weights_of(queries.codes))

    def ends(self, mean: np.ndarray, deviation: np.ndarray, coverage: float) -> np.ndarray:
        """Return intervals (..., 2) of targets with these means and deviations; for counts, of integers."""
        assert self.scores is not None
        quantile = self.scores.quantile(coverage)
        if not isinstance(self.likelihood, Poisson):
            return np.stack([mean - quantile * deviation, mean + quantile * deviation], axis=-1)
        counts, level = count_distribution(mean, deviation), norm.cdf([-quantile, quantile])
        return np.stack([counts.ppf(level[0]), counts.ppf(level[1])], axis=-1)

    def _normal(self, queries: Queries) -> tuple[np.ndarray, np.ndarray]:
        assert self.units is not None
        codes = queries.codes
        if codes is None:
            queries = queries._replace(codes=np.zeros(len(queries.X), dtype=np.intp))
        means, variances = self.latent(queries.X, self.groups_of(queries))
        noise = np.array([member.model.noise_ for member in self.members])[:, None, None]
        weights = self.weights_of(codes)[:, :, None]
        mean, variance = average(list(zip(means, variances + noise, strict=True)), list(weights))
        if self.wide:
            location, spread = self.units.location, self.units.spread
            if codes is not None:
                # For a task that was not in training, all outputs are the same.
                rows = np.arange(len(queries.X))
                mean, variance = mean[rows, codes], variance[rows, codes]
                location, spread = self.units.of(codes)
        else:
            assert codes is not None
            mean, variance = mean[:, 0], variance[:, 0]
            location, spread = self.units.of(np.where(codes < self.n_tasks, codes, -1))
        deviation = spread * np.sqrt(variance)
        if codes is not None:
            is_new = (codes < 0) | (codes >= self.n_tasks)
            deviation = np.hypot(deviation, np.where(is_new, self.units.new_deviation, 0.0))
        return location + spread * mean, deviation

    def probabilities(self, queries: Queries) -> np.ndarray:
        """Return the probabilities (q, C) of all classes, or (q, T, C) without codes."""
        assert self.classes is not None and self.link is not None
        if queries.codes is None and not self.wide:
            found = self.probabilities(every_task(queries, self.n_tasks))
            return found.reshape(len(queries.X), self.n_tasks, -1)
        inner = queries._replace(codes=np.zeros(len(queries.X), np.intp)) if queries.codes is None else queries
        latent = self.latent(queries.X, self.groups_of(inner))
        p = self.link(log_odds((self.weights_of(queries.codes)[:, :, None] * self.likelihood.mean(*latent)).sum(0)))
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
            numbered = iter(kernels)
            member, member.model = copy(member), copy(member.model)
            member.model.terms = tuple(
                replace(term, values=next(numbered)) if isinstance(term, TaskKernel) else term
                for term in member.model.terms
            )
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
    """Return probabilities (q, C) of all classes from outputs (q, r); zero for classes absent from the row's task."""
    out = np.zeros((len(p), len(classes.classes)))
    if len(classes.classes) <= 2:
        out[:, -1] = p[:, 0]
        if len(classes.classes) == 2:
            out[:, 0] = 1.0 - p[:, 0]
        return out
    if not classes.by_task:
        out[:] = np.maximum(p, CERTAIN)
    for t, own in enumerate(classes.of_task):
        # If each task has its own classes, tasks that were not in training get those of the first task.
        rows = np.flatnonzero(
            (codes == t) | (classes.by_task & (t == 0) & ((codes < 0) | (codes >= len(classes.of_task))))
        )
        at = np.searchsorted(classes.classes, own)
        if classes.by_task:
            out[np.ix_(rows, at)] = np.hstack([1.0 - p[rows], p[rows]])
        elif len(own) > 1 and len(rows):
            others = np.setdiff1d(np.arange(len(classes.classes)), at)
            out[np.ix_(rows, others)] = 0.0
    return out / out.sum(axis=1, keepdims=True)


def count_moments(f: np.ndarray, variance: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return means and deviations (q,) of counts whose log rates are mixtures of normals (M, q), weights (M, q)."""
    rate, variance = np.exp(np.minimum(f + 0.5 * variance, 50.0)), np.minimum(variance, 50.0)
    mean = (weights * rate).sum(0)
    return mean, np.sqrt(mean + np.maximum((weights * rate**2 * np.exp(variance)).sum(0) - mean**2, 0.0))


def count_distribution(mean: np.ndarray, deviation: np.ndarray) -> Any:
    """Return negative binomial distributions with these means and deviations; nearly Poisson without overdispersion."""
    mean = np.maximum(mean, 1e-12)
    size = np.maximum(mean**2 / np.maximum(deviation**2 - mean, 1e-9 * mean), 1e-9)
    return nbinom(size, size / (size + mean))


def count_scores(y: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """Return the normal quantile at which the interval of each count (n,) just contains it."""
    counts = count_distribution(mean, deviation)
    return np.maximum(0.0, np.maximum(-norm.ppf(counts.cdf(y)), norm.ppf(counts.cdf(y - 1.0))))
