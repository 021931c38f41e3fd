"""Kernels with low-rank Gram matrices, so that coupled tasks need no matrix over all their rows.

If the columns of a kernel have few distinct rows (a binary attribute, a grade, a type of school), its Gram matrix is
`Z S Z'`, with the indicators Z of the u distinct rows and the Gram matrix S on these. All kernels on the same columns
share Z, so several bandwidths have the rank of one. The factor of a linear kernel on d columns is these columns, that
of a polynomial kernel their products.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement
from math import comb, factorial, prod, sqrt
from typing import NamedTuple

import numpy as np

from ...data.forms import TaskData
from ...decompositions import eigh
from ...engines.threads import Each, serially
from ...kernels.grams import Scaling, fit_diagonal_scaling
from ...kernels.kernel import FittedKernel, LinearKernel, PolynomialKernel

# Factors are used if their total number of columns is below this share of the rows.
_WORTHWHILE = 1 / 3
# Eigenvalues of a kernel's Gram below this share of the largest are rounding.
_ROUNDING = 1e-15


class FactorFamily(NamedTuple):
    """Kernels with the Grams `scale_f Phi S_f Phi'`, which share the factor Phi (N, r).

    `cores` S (F, r, r) are positive semi-definite; of a family of one kernel, the identity. `kernels` and `scale` (F,)
    are the positions of the kernels among all K, and their factors.
    """

    factor: np.ndarray
    cores: np.ndarray
    kernels: np.ndarray
    scale: np.ndarray

    @classmethod
    def alone(cls, factor: np.ndarray, kernel: int) -> FactorFamily:
        return cls(factor, np.eye(factor.shape[1])[np.newaxis], np.array([kernel]), np.ones(1))

    def core(self, b: np.ndarray) -> np.ndarray:
        """Weights b (K,) of all kernels -> S(b) (r, r)."""
        return np.tensordot(b[self.kernels] * self.scale, self.cores, axes=1)

    def root(self, b: np.ndarray) -> np.ndarray:
        """b (K,) -> U (N, R) with U U' the weighted sum of these Grams."""
        weights = b[self.kernels] * self.scale
        if not weights.any():
            return np.zeros((len(self.factor), 0))
        return self.factor * np.sqrt(weights[0]) if len(weights) == 1 else self.factor @ _root(self.core(b))


class LowRankKernels:
    """Families of kernels with common factors, over the N rows of all tasks, in order; no (N, N) matrix exists."""

    def __init__(self, families: Sequence[FactorFamily]) -> None:
        self.families = tuple(families)
        self.rank = sum(family.factor.shape[1] for family in self.families)
        self.n_rows = len(self.families[0].factor)
        self.n_kernels = sum(len(family.kernels) for family in self.families)

    def take(self, rows: np.ndarray) -> LowRankKernels:
        """The kernels among some of the rows."""
        return LowRankKernels([family._replace(factor=family.factor[rows]) for family in self.families])

    def scaled(self, normalize: str | None, weight: np.ndarray, charges: np.ndarray) -> tuple[Scaling, LowRankKernels]:
        """Scale by the mean diagonal of these rows, weighted, or not at all, and by the kernels' charges (K,)."""
        means, weight = np.empty((self.n_kernels, 1)), weight / weight.sum()
        for family in self.families:
            moments = family.factor.T @ (weight[:, np.newaxis] * family.factor)
            means[family.kernels, 0] = family.scale * np.einsum("frs,rs->f", family.cores, moments)
        # These scalings depend only on the mean diagonal, so one row with this value is enough.
        scaling = fit_diagonal_scaling(normalize, means).charged(charges)
        families = [family._replace(scale=family.scale * scaling.factor[family.kernels]) for family in self.families]
        return scaling, LowRankKernels(families)

    def quadratic_forms(self, V: np.ndarray, each: Each = serially) -> np.ndarray:
        """V (N, m) -> (K, m): half of v' G_k v."""
        forms = np.empty((self.n_kernels, V.shape[1]))
        for family in self.families:
            P = family.factor.T @ V
            own = np.einsum("rm,frm->fm", P, family.cores @ P)
            forms[family.kernels] = 0.5 * family.scale[:, np.newaxis] * np.maximum(own, 0.0)
        return forms

    def root(self, b: np.ndarray, each: Each = serially) -> np.ndarray:
        """b (K,) -> U (N, R) with U U' = G(b)."""
        return np.hstack([family.root(b) for family in self.families])

    def combine(self, b: np.ndarray, each: Each = serially) -> np.ndarray:
        """b (K,) -> G(b) (N, N)."""
        U = self.root(b)
        return U @ U.T

    def image(self, b: np.ndarray, V: np.ndarray, at: LowRankKernels | None = None) -> np.ndarray:
        """b (K,), V (N, m) -> G(b) V at these rows, or at other rows, whose kernels are `at`."""
        out = np.zeros(((self if at is None else at).n_rows, V.shape[1]))
        for left, right in zip((self if at is None else at).families, self.families, strict=True):
            out += left.factor @ (right.core(b) @ (right.factor.T @ V))
        return out


def low_rank_kernels(
    data: TaskData, kernels: Sequence[FittedKernel] | None, normalize: str | None
) -> LowRankKernels | None:
    """Return exact factors over the rows of all tasks, instead of Gram matrices.

    None if kernels are precomputed or not scaled by a factor only, or if the factors are too large.
    """
    if kernels is None or normalize not in (None, "trace"):
        return None
    X = data.X[np.concatenate(data.rows)]
    limit = int(_WORTHWHILE * len(X))
    # Kernels on the same columns share a factor; those with factors of their own are alone.
    groups: dict[tuple, list[int]] = {}
    for k, kernel in enumerate(kernels):
        own = (k,) if _n_monomials(kernel) <= limit else ()
        groups.setdefault((kernel.columns, own), []).append(k)
    families: list[FactorFamily] = []
    for positions in groups.values():
        family = _exact_family(kernels, positions, X, limit)
        if family is None or sum(f.factor.shape[1] for f in families) + family.factor.shape[1] > limit:
            return None
        families.append(family)
    return LowRankKernels(families)


def _n_monomials(kernel: FittedKernel) -> float:
    """Return the number of columns of the factor of a linear or polynomial kernel, else infinity."""
    if isinstance(kernel.function, LinearKernel):
        return len(kernel.columns)
    if isinstance(kernel.function, PolynomialKernel):
        return comb(len(kernel.columns) + kernel.function.degree, kernel.function.degree)
    return np.inf


def _exact_family(
    kernels: Sequence[FittedKernel], positions: list[int], X: np.ndarray, limit: int
) -> FactorFamily | None:
    """The factor of kernels on the same columns over rows X (N, d); None where it has more than `limit` columns."""
    kernel = kernels[positions[0]]
    columns = np.asarray(kernel.select(X), dtype=np.float64)
    if _n_monomials(kernel) <= limit:
        own = _monomials(columns, kernel.function) if isinstance(kernel.function, PolynomialKernel) else columns
        return FactorFamily.alone(own, positions[0])
    points, first, place = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    if len(points) > limit:
        return None
    cores = np.array([kernels[k](X[first].astype(np.float64)) for k in positions])
    if len(positions) == 1:
        return FactorFamily.alone(_root(cores[0])[place.ravel()], positions[0])
    indicators = (place.ravel()[:, np.newaxis] == np.arange(len(points))).astype(np.float64)
    return FactorFamily(indicators, cores, np.array(positions), np.ones(len(positions)))


def _root(S: np.ndarray) -> np.ndarray:
    """S (r, r) -> its root (r, R), without directions that are rounding."""
    values, vectors = eigh(S)
    kept = values > _ROUNDING * values[-1]
    return vectors[:, kept] * np.sqrt(values[kept])


def _monomials(columns: np.ndarray, polynomial: PolynomialKernel) -> np.ndarray:
    """Products of `degree` of the columns and the root of coef0, each times the root of how often the power has it."""
    parts = np.column_stack([columns, np.full(len(columns), sqrt(polynomial.coef0))])
    chosen = np.array(list(combinations_with_replacement(range(parts.shape[1]), polynomial.degree)))
    repeats = [prod(factorial(int(n)) for n in np.unique(row, return_counts=True)[1]) for row in chosen]
    factor = np.tile(np.sqrt(factorial(polynomial.degree) / np.array(repeats)), (len(parts), 1))
    for column in chosen.T:
        factor *= parts[:, column]
    return factor
