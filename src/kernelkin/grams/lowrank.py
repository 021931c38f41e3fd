"""Kernels whose Gram matrices have an exact low-rank factor, so that coupled tasks need no matrix over all their rows.

A kernel that looks at columns with few distinct rows (a binary attribute, a grade, a kind of school) takes few distinct
values: with G_u its Gram on the u distinct rows, its factor is a root of G_u, repeated. A linear kernel on d columns
has those columns for a factor, a polynomial one their products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb, factorial, prod, sqrt

import numpy as np

from ..data import TaskData
from ..kernels import SCALINGS, FittedKernel, Linear, Polynomial, Scaling

# Factors pay off while their columns together are fewer than this share of the rows.
_WORTHWHILE = 1 / 3
# Eigenvalues of a kernel's Gram below this share of the largest are rounding.
_ROUNDING = 1e-15


@dataclass(frozen=True)
class LowRankKernels:
    """Phi_k (N, r_k) for each kernel k, with `Phi_k Phi_k'` its Gram over the rows of all tasks, in order."""

    factors: tuple[np.ndarray, ...]

    @property
    def rank(self) -> int:
        return sum(factor.shape[1] for factor in self.factors)

    def take(self, rows: np.ndarray) -> LowRankKernels:
        return LowRankKernels(tuple(factor[rows] for factor in self.factors))

    def scaled(self, normalize: str | None, weight: np.ndarray) -> tuple[Scaling, LowRankKernels]:
        """Scale by what these rows, weighted, say: by the mean diagonal, or not at all."""
        diagonal = np.array([np.einsum("ir,ir->i", factor, factor) for factor in self.factors])
        scaling = SCALINGS[normalize].fit(diagonal, None, weight / weight.sum())
        return scaling, LowRankKernels(
            tuple(np.sqrt(s) * factor for s, factor in zip(scaling.factor, self.factors, strict=True))
        )


def low_rank_kernels(
    data: TaskData, kernels: Sequence[FittedKernel] | None, normalize: str | None
) -> LowRankKernels | None:
    """Exact factors over the rows of all tasks; None where the kernels are not known or have no small ones."""
    if kernels is None or normalize not in (None, "trace"):
        return None
    X = data.X[np.concatenate(data.rows)]
    limit = int(_WORTHWHILE * len(X))
    factors: list[np.ndarray] = []
    for kernel in kernels:
        factor = _factor(kernel, X, limit)
        if factor is None or sum(f.shape[1] for f in factors) + factor.shape[1] > limit:
            return None
        factors.append(factor)
    return LowRankKernels(tuple(factors))


def _factor(kernel: FittedKernel, X: np.ndarray, limit: int) -> np.ndarray | None:
    columns = np.asarray(kernel.select(X), dtype=np.float64)
    if isinstance(kernel.function, Linear):
        return columns if columns.shape[1] <= limit else None
    if (
        isinstance(kernel.function, Polynomial)
        and comb(columns.shape[1] + kernel.function.degree, kernel.function.degree) <= limit
    ):
        return _monomials(columns, kernel.function)
    points, first, place = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    if len(points) > limit:
        return None
    values, vectors = np.linalg.eigh(kernel(X[first].astype(np.float64)))
    kept = values > _ROUNDING * values[-1]
    return (vectors[:, kept] * np.sqrt(values[kept]))[place.ravel()]


def _monomials(columns: np.ndarray, polynomial: Polynomial) -> np.ndarray:
    """Products of `degree` of the columns and the root of coef0, each times the root of how often the power has it."""
    parts = np.column_stack([columns, np.full(len(columns), sqrt(polynomial.coef0))])
    chosen = np.array(list(combinations_with_replacement(range(parts.shape[1]), polynomial.degree)))
    repeats = [prod(factorial(int(n)) for n in np.unique(row, return_counts=True)[1]) for row in chosen]
    factor = np.tile(np.sqrt(factorial(polynomial.degree) / np.array(repeats)), (len(parts), 1))
    for column in chosen.T:
        factor *= parts[:, column]
    return factor
