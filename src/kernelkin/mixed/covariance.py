"""The covariance of all rows, `K = V + Phi Phi'`: V is block diagonal, and the features Phi link the blocks.

`Prior` evaluates the terms at given parameters; `Prior.solve` adds noise and factorises, block by block:

    log det(V + N + Phi Phi') = sum_t log det V_t + log det A,   A = I + Phi' inv(V + N) Phi
    a = inv(K + N) z = inv(V + N) (z - Phi beta),                beta = inv(A) Phi' inv(V + N) z

Exact models are one block without features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import lapack

from .rows import Pairs, Rows, batches_of, rows_of_table, take
from .terms import JITTER, Term

Parameters = dict[str, dict[str, np.ndarray]]


@dataclass(frozen=True)
class Layout:
    """Training rows in blocks.

    Attributes
    ----------
    tables : (b, n) row numbers of each batch of blocks, -1 for padding.
    pairs : the rows of each batch, paired with themselves.
    n_rows : N.
    by_features : whether common terms are represented by features.
    """

    tables: tuple[np.ndarray, ...]
    pairs: tuple[Pairs, ...]
    n_rows: int
    by_features: bool

    @classmethod
    def dense(cls, X: np.ndarray, groups: Sequence[np.ndarray], given: Sequence[np.ndarray] = ()) -> Layout:
        """Return a layout with all rows in one block; `given` are values (N, N) of the user's kernels."""
        table = np.arange(len(X))[None]
        rows = Rows(X[None], tuple(part[None] for part in groups))
        pairs = Pairs(rows, rows, 1.0, tuple(kernel[None] for kernel in given))
        return cls((table,), (pairs,), len(X), False)

    @classmethod
    def blocks(cls, X: np.ndarray, groups: Sequence[np.ndarray]) -> Layout:
        """Return a layout with a block for each group of the first grouping."""
        tables = batches_of(groups[0])
        rows = [rows_of_table(X, groups, table) for table in tables]
        return cls(tuple(tables), tuple(Pairs(part, part, 0.0) for part in rows), len(X), True)


def invert(V: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the inverses of positive definite matrices (b, n, n), and the sum of their log determinants."""
    b, n = V.shape[:2]
    if n == 1:
        return 1.0 / V, float(np.log(V).sum())
    if n < 40:
        L = np.linalg.cholesky(V)
        return np.linalg.inv(V), 2.0 * float(np.log(np.diagonal(L, axis1=1, axis2=2)).sum())
    found, log_det = np.empty_like(V), 0.0
    for i in range(b):
        # V is symmetric, so its transpose, which LAPACK takes without a copy, equals V.
        L, info = lapack.dpotrf(V[i].T, lower=1, clean=0, overwrite_a=0)
        if info:
            raise np.linalg.LinAlgError("a covariance matrix is not positive definite")
        log_det += 2.0 * float(np.log(np.diag(L)).sum())
        inverse = lapack.dpotri(L, lower=1, overwrite_c=1)[0]
        lower = np.tril(inverse)
        found[i] = lower + np.tril(inverse, -1).T
    return found, log_det


@dataclass(frozen=True)
class Batch:
    """The terms on one batch: V (b, n, n) without noise, features (b, n, f), and values saved for gradients."""

    V: np.ndarray
    Phi: np.ndarray | None
    saved: list[Any]
    saved_features: list[Any]
    widths: list[int]


class Prior:
    """The terms at given parameters, evaluated on a layout."""

    def __init__(self, terms: Sequence[Term], p: Parameters, layout: Layout):
        self.terms, self.p, self.layout = terms, p, layout
        self.batches = [self._evaluate(pairs) for pairs in layout.pairs]

    def _evaluate(self, pairs: Pairs) -> Batch:
        V, saved = np.zeros((*pairs.A.X.shape[:2], pairs.B.X.shape[1])), []
        for term in self.terms:
            K, kept = term.block(self.p[term.name], pairs)
            V += K
            saved.append(kept)
        if pairs.both is not None:
            V *= pairs.both
        if not self.layout.by_features:
            return Batch(V, None, saved, [], [])
        Phi, kept, widths = features(self.terms, self.p, pairs.A)
        return Batch(V, Phi, saved, kept, widths)

    def solve(self, noise: np.ndarray, z: np.ndarray) -> Solved:
        """Return the solution for noise (N,) and targets (N, r)."""
        return Solved(self, noise, z)

    def gradient(self, each: Sequence[tuple[np.ndarray, np.ndarray | None]]) -> Parameters:
        """Return the gradient in the parameters from derivatives (b, n, n), (b, n, f) with respect to V and Phi."""
        total: Parameters = {
            term.name: {k: np.zeros_like(v) for k, v in self.p[term.name].items()} for term in self.terms
        }
        for batch, pairs, (W, G) in zip(self.batches, self.layout.pairs, each, strict=True):
            for term, kept in zip(self.terms, batch.saved, strict=True):
                _add(total[term.name], term.block_gradient(self.p[term.name], pairs, W, kept))
            if G is None or batch.Phi is None:
                continue
            begin = 0
            for term, kept, width in zip(self.terms, batch.saved_features, batch.widths, strict=True):
                at = slice(begin, begin := begin + width)
                if width:
                    part = G[:, :, at], batch.Phi[:, :, at], kept
                    _add(total[term.name], term.features_gradient(self.p[term.name], pairs.A, *part))
        return total


def features(terms: Sequence[Term], p: Parameters, rows: Rows) -> tuple[np.ndarray, list[Any], list[int]]:
    """Return the features (b, n, f) of all terms, values saved for gradients, and the number of features per term."""
    found = [term.features(p[term.name], rows) for term in terms]
    Phi = np.concatenate([part for part, _ in found], axis=2)
    if rows.mask is not None:
        Phi *= rows.mask[:, :, None]
    return Phi, [kept for _, kept in found], [part.shape[2] for part, _ in found]


def _add(total: dict[str, np.ndarray], part: dict[str, np.ndarray]) -> None:
    for name, value in part.items():
        total[name] += value


class Solved:
    """inv(K + diag(noise)) applied to targets z (N, r).

    Attributes
    ----------
    a : (N, r) inv(K + diag(noise)) z.
    beta : (f, r) posterior means of the coefficients of the features, (0, r) without features.
    log_det : log determinant of K + diag(noise).
    """

    def __init__(self, prior: Prior, noise: np.ndarray, z: np.ndarray):
        self.prior, self.log_det = prior, 0.0
        self.inverses: list[np.ndarray] = []
        for batch, table in zip(prior.batches, prior.layout.tables, strict=True):
            V = batch.V.copy()
            at = np.arange(V.shape[1])
            V[:, at, at] += np.where(table >= 0, noise[np.maximum(table, 0)] + JITTER, 1.0)
            inverse, log_det = invert(V)
            self.inverses.append(inverse)
            self.log_det += log_det
        if prior.layout.by_features:
            self._tie()
        self.a, self.beta = self.apply(z)

    def _tie(self) -> None:
        """Compute A, which links the blocks."""
        parts = [batch.Phi for batch in self.prior.batches if batch.Phi is not None]
        f = parts[0].shape[2]
        A, self.white = np.eye(f), []
        for Phi, inverse in zip(parts, self.inverses, strict=True):
            self.white.append(inverse @ Phi)
            A += Phi.reshape(-1, f).T @ self.white[-1].reshape(-1, f)
        inverse, log_det = invert(0.5 * (A + A.T)[None])
        self.A_inverse = inverse[0]
        self.log_det += log_det
        # inv(V) Phi inv(A), used for gradients and for the diagonal of the inverse.
        self.tied = [(part.reshape(-1, f) @ self.A_inverse).reshape(part.shape) for part in self.white]

    def apply(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return inv(K + diag(noise)) z (N, r) and the coefficients of the features (f, r) for targets z (N, r)."""
        tables, a = self.prior.layout.tables, np.zeros_like(z)
        parts = [take(z, table) for table in tables]
        beta = np.zeros((0, z.shape[1]))
        if self.prior.layout.by_features:
            products = (
                w.reshape(-1, w.shape[2]).T @ part.reshape(-1, z.shape[1])
                for w, part in zip(self.white, parts, strict=True)
            )
            beta = self.A_inverse @ sum(products)
            parts = [part - batch.Phi @ beta for part, batch in zip(parts, self.prior.batches, strict=True)]
        for table, inverse, part in zip(tables, self.inverses, parts, strict=True):
            a[table[table >= 0]] = (inverse @ part)[table >= 0]
        return a, beta

    def diagonal(self) -> np.ndarray:
        """Return the diagonal (N,) of inv(K + diag(noise))."""
        found = np.zeros(self.prior.layout.n_rows)
        for i, table in enumerate(self.prior.layout.tables):
            own = np.diagonal(self.inverses[i], axis1=1, axis2=2)
            if self.prior.layout.by_features:
                own = own - np.einsum("bnf,bnf->bn", self.tied[i], self.white[i])
            found[table[table >= 0]] = own[table >= 0]
        return found

    def gradient(self, multiplicity: float, products: Sequence[tuple[np.ndarray, np.ndarray, float]]) -> Parameters:
        """Return the derivatives of `sum(W * K)` for W = multiplicity/2 inv(K + N) + the sum of c/2 (u v' + v u').

        `products` holds u (N, r), v (N, r) and c.
        """
        by_features, each = self.prior.layout.by_features, []
        through = [(self._through(u), self._through(v)) for u, v, _ in products] if by_features else []
        for i, (pairs, table) in enumerate(zip(self.prior.layout.pairs, self.prior.layout.tables, strict=True)):
            W, G = (0.5 * multiplicity) * self.inverses[i], None
            if by_features:
                G = multiplicity * self.tied[i]
                W -= 0.5 * (G @ np.swapaxes(self.white[i], 1, 2))
            for j, (u, v, c) in enumerate(products):
                left, right = take(u, table), take(v, table)
                product = (0.5 * c) * (left @ np.swapaxes(right, 1, 2))
                W += product
                W += np.swapaxes(product, 1, 2)
                if G is not None:
                    G += c * (left @ through[j][1].T + right @ through[j][0].T)
            if pairs.both is not None:
                W *= pairs.both
            each.append((W, G))
        return self.prior.gradient(each)

    def _through(self, u: np.ndarray) -> np.ndarray:
        """Return Phi' u (f, r)."""
        total = np.zeros((len(self.beta), u.shape[1]))
        for batch, table in zip(self.prior.batches, self.prior.layout.tables, strict=True):
            assert batch.Phi is not None
            total += batch.Phi.reshape(-1, len(total)).T @ take(u, table).reshape(-1, u.shape[1])
        return total
