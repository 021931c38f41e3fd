"""Posterior of the functions of groups: contrasts between groups.

A functional is a row of a matrix A (k, q): a weighted sum of the values of a function at q rows, such as its mean or
its slope. The function of a group includes the part common to all groups. This module computes the posterior mean and
variance of contrasts between the functionals of groups.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..decompositions import pseudo_inverse
from .batch import covariance
from .rows import Pairs, Rows, take
from .structures import FittedStructure
from .terms import TaskKernel

# Number of contrasts, and of training rows, that are computed at a time.
CONTRASTS, CHUNK = 64, 2_000


def training_rows(fitted: FittedStructure) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the training rows (N, d) in standard units, and their codes (N,) in each grouping."""
    layout = fitted.model.parts[0].layout
    X = np.empty((layout.n_rows, layout.pairs[0].A.X.shape[2]))
    codes = [np.empty(layout.n_rows, dtype=np.intp) for _ in layout.pairs[0].A.groups]
    for table, pairs in zip(layout.tables, layout.pairs, strict=True):
        there = table >= 0
        X[table[there]] = pairs.A.X[there]
        for part, own in zip(codes, pairs.A.groups, strict=True):
            part[table[there]] = own[there]
    return X, codes


def mean_and_slopes(X: np.ndarray, weight: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return the functionals (1 + c, q): the weighted mean over rows (q, d), and slopes along these columns (c,).

    The slopes are those of the linear function of the columns that is closest to the values at the rows.
    """
    weight = weight / weight.sum()
    Z = X - weight @ X
    root = np.sqrt(weight)[:, None]
    slopes = pseudo_inverse(root * Z, 1e-8) * root.T
    return np.vstack([weight[None], slopes[columns]])


class GroupPosterior:
    """Posterior of functionals of the functions of all groups of a grouping.

    Parameters
    ----------
    fitted : the structure; its targets have one column.
    grouping : the number of the grouping. Groups of other groupings count as unknown.
    Q : (b, q, d) batches of rows in standard units.
    A : (b, k, q) functionals of each batch; their values have b k columns.
    at : (b, q) positions of Q among the training rows, needed for user-supplied kernels.
    """

    def __init__(
        self, fitted: FittedStructure, grouping: int, Q: np.ndarray, A: np.ndarray, at: np.ndarray | None = None
    ):
        self.model, self.layout, self.A = fitted.model, fitted.model.parts[0].layout, A
        self.X, groups = training_rows(fitted)
        self.codes, self.solved = groups[grouping], self.model.solved[0]
        self.kernels = [term for term in self.model.terms if isinstance(term, TaskKernel)] if grouping == 0 else []
        asked = [_codes(Q, len(groups), group) for group in (None, grouping)]
        priors, cross = [], []
        for terms, codes in self._parts(*asked):
            priors.append(((A @ self._covariance(terms, Rows(Q, codes), Q, (at, at))) * A).sum(2).ravel())
            cross.append(np.empty((len(priors[-1]), len(self.X))))
            for begin in range(0, len(self.X), CHUNK):
                rows = np.arange(begin, min(begin + CHUNK, len(self.X)))
                X = np.broadcast_to(self.X[rows], (len(Q), len(rows), Q.shape[2]))
                found = A @ self._covariance(terms, Rows(Q, codes), X, (at, rows))
                cross[-1][:, rows] = found.reshape(-1, len(rows))
        self.prior_common, self.prior_own, *self.prior_kernels = priors[0], priors[1] - priors[0], *priors[2:]
        self.common, self.own, *self.by_kernels = cross[0], cross[1] - cross[0], *cross[2:]
        self.by_blocks = self.layout.by_features and grouping == 0
        if self.by_blocks:
            self._add_up_blocks(Rows(Q, asked[0]))

    def _parts(self, apart: tuple, together: tuple) -> list[tuple[list[Any], tuple]]:
        """Return pairs of terms and codes of rows: for different groups, for one group, and for each task kernel."""
        usual = [term for term in self.model.terms if not isinstance(term, TaskKernel)]
        kernels = [[replace(term, values=np.ones((1, 1)))] for term in self.kernels]
        return [(usual, apart), (usual, together), *((term, together) for term in kernels)]

    def _covariance(self, terms, rows: Rows, X: np.ndarray, at) -> np.ndarray:
        """Return the prior covariance (b, q, m) between rows and rows X (b, m, d), which are all in group 0."""
        given = tuple(kernel[:, at[0][0][:, None], at[1].ravel()] for kernel in self.layout.pairs[0].given)
        pairs = Pairs(rows, Rows(X, tuple(np.zeros(X.shape[:2], dtype=np.intp) for _ in rows.groups)), 1.0, given)
        return covariance(terms, self.model.p_, pairs)

    def contrasts(self, M: Any, minus: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean and variance (C, k) of contrasts whose weights are M (C, G), sparse, minus `minus` (G,)."""
        find = self._from_blocks if self.by_blocks else self._from_rows
        found = [find(M[i : i + CONTRASTS].toarray() - minus) for i in range(0, M.shape[0], CONTRASTS)]
        return np.concatenate([mean for mean, _ in found]), np.concatenate([v for _, v in found])

    def _from_rows(self, M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        total = M.sum(1)
        W = total[:, None, None] * self.common + M[:, None, self.codes] * self.own
        prior = np.outer(total**2, self.prior_common) + np.outer((M * M).sum(1), self.prior_own)
        for term, cross, own in zip(self.kernels, self.by_kernels, self.prior_kernels, strict=True):
            related = M @ term.values[: M.shape[1], : M.shape[1]]
            W += related[:, None, self.codes] * cross
            prior += np.outer((related * M).sum(1), own)
        flat = W.reshape(-1, W.shape[2])
        explained = (flat * self.solved.apply(np.ascontiguousarray(flat.T))[0].T).sum(1).reshape(prior.shape)
        return W @ self.solved.a[:, 0], np.maximum(prior - explained, 0.0)

    def _add_up_blocks(self, unknown: Rows) -> None:
        """Compute the mean (k,) and variance of the own part of each group, and its link (k, f) with the features."""
        model, solved, G, n = self.model, self.solved, int(self.codes.max()) + 1, len(unknown.groups)
        self.features = (self.A @ model.term_features(model.terms, unknown)).reshape(len(self.own), -1)
        self.of_group, self.left = np.zeros((G, len(self.own))), np.zeros((G, len(self.own)))
        self.linked = np.zeros((G, *self.features.shape))
        if self.kernels:
            rows = Rows(np.zeros((1, G, self.X.shape[1])), (np.arange(G)[None], *(np.full((1, G), -1),) * (n - 1)))
            self.linked += self.A.sum(2).reshape(-1, 1) * model.term_features(self.kernels, rows)[0][:, None, :]
            self.of_group += (self.linked @ solved.beta)[:, :, 0]
        each = [np.swapaxes(take(np.ascontiguousarray(self.own.T), table), 1, 2) for table in self.layout.tables]
        found = solved.explained(each)
        for table, pairs, B, (linked, explained) in zip(
            self.layout.tables, self.layout.pairs, each, found, strict=True
        ):
            at = pairs.A.groups[0][:, 0]
            self.of_group[at] += (B @ take(solved.a, table))[:, :, 0]
            self.linked[at] -= linked
            self.left[at] = self.prior_own - explained

    def _from_blocks(self, M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        total, solved = M.sum(1), self.solved
        mean = M @ self.of_group + np.outer(total, self.features @ solved.beta)
        R = np.tensordot(M, self.linked, axes=1) + total[:, None, None] * self.features
        variance = (M * M) @ self.left + ((R @ solved.A_inverse) * R).sum(2)
        beyond = np.maximum(self.prior_common - (self.features**2).sum(1), 0.0)
        return mean, np.maximum(variance + np.outer(total**2, beyond), 0.0)

    def residuals(self, n_groups: int) -> np.ndarray:
        """Return the mean residual (G,) of the rows of each group, weighted by their precision."""
        precision = row_precision(self.model)
        sums = np.bincount(self.codes, self.solved.a[:, 0], n_groups)
        return sums / np.maximum(np.bincount(self.codes, precision, n_groups), 1e-300)


def row_precision(model: Any) -> np.ndarray:
    """Return the precision (N,) of each training row: weight over noise, or the curvature of its likelihood."""
    part = model.parts[0]
    if model.likelihood.has_noise:
        return part.weight / model.noise_
    assert model.solved
    return part.weight * model.likelihood.derivatives(part.z[:, 0], part.state["f"] + part.offset)[1]


def _codes(Q: np.ndarray, n_groupings: int, known: int | None) -> tuple[np.ndarray, ...]:
    """Return codes (b, q) for each grouping: 0 for the grouping `known`, -1 for the others."""
    return tuple(np.full(Q.shape[:2], 0 if g == known else -1) for g in range(n_groupings))


def wide_contrasts(fitted: FittedStructure, Q, A, at, M) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the mean and variance (C, k) of contrasts M (C, T) between tasks on the same rows, and residuals (T,).

    The other arguments are those of `GroupPosterior`.
    """
    model, T, found = fitted.model, fitted.n_outputs, []
    rows, X = Rows(Q, _codes(Q, 1, 0)), training_rows(fitted)[0]
    known = np.broadcast_to(X, (len(Q), *X.shape))
    for solved, part in zip(model.solved, model.parts, strict=True):
        inner, products = part.layout.pairs[0], []
        for other, columns in ((Q, at), (known, np.arange(len(X)))):
            given = tuple(kernel[:, at[0][:, None], columns.ravel()] for kernel in inner.given)
            pairs = Pairs(rows, Rows(other, _codes(other, 1, 0)), inner.sharing, given)
            products.append(A @ covariance(model.terms, model.p_, pairs))
        B = products[1].reshape(-1, len(X))
        explained = ((B @ solved.inverse) * B).sum(1)
        found.append((B @ solved.a, np.maximum((products[0] * A).sum(2).ravel() - explained, 0.0)))
    means, variance = found[0][0] / np.sqrt(T) + np.zeros((1, T)), np.outer(M.sum(1) ** 2, found[0][1]) / T
    left = model.solved[0].a / np.sqrt(T)
    if T > 1:
        means, left = means + found[1][0], left + model.solved[1].a
        variance = variance + np.outer((M * M).sum(1) - M.sum(1) ** 2 / T, found[1][1])
    return M @ means.T, variance, left.sum(0) / row_precision(model).sum()
