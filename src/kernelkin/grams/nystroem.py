"""Approximate factors of low rank, for the part that coupled tasks share over very many rows.

Kernel k gets the factor Phi_k (N, r_k) of a Cholesky decomposition that stops after r_k columns, its pivots drawn with
probabilities proportional to what is left of the diagonal (Chen, Epperly, Tropp and Webber, 2023). With L the pivots,

    Phi_k Phi_k' = G_k[:, L] inv(G_k[L, L]) G_k[L, :],

the Nystroem approximation. It is a kernel, and G_k - Phi_k Phi_k' is positive semi-definite with a trace that is known.
So the optimum of the approximated problem is at least that of the exact one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.linalg import solve_triangular

from ..data import TaskData
from ..kernels import FittedKernel, diagonals
from .lowrank import FactorFamily, Landmarks, LowRankKernels, exact_family, families_by_columns

# Columns of all kernels' factors together, unless the user says otherwise.
DEFAULT_RANK = 1000
# Columns added at one time.
_BLOCK = 50
# Rows of a factor written at one time.
_ROWS = 4096
# A kernel of which no more than this share of the trace is left needs no more columns.
_ENOUGH = 1e-5
# Pivots that leave less than this share of the mean diagonal are rounding.
_SMALLEST_PIVOT = 1e-10


def nystroem_kernels(data: TaskData, kernels: Sequence[FittedKernel], rank: int) -> LowRankKernels:
    """Factors over the rows of all tasks of `rank` columns together; exact ones for kernels that have few.

    The next columns go to the kernel whose trace the last ones reduced most. Landmarks are drawn with a fixed seed.
    """
    rows = np.concatenate(data.rows)
    X = data.X[rows]
    families, partial = [], []
    rng = np.random.default_rng(0)
    for positions in families_by_columns(kernels, rank // len(kernels)):
        exact = exact_family(kernels, positions, X, rank // len(kernels))
        if exact is None:
            partial += [PartialCholesky(kernels[k], k, X, rng) for k in positions]
        else:
            families.append(exact)
    extend_all(partial, rank - sum(family.factor.shape[1] for family in families))
    return LowRankKernels((*families, *(factor.family(rows) for factor in partial)))


class PartialCholesky:
    """The first columns of a Cholesky factor of one kernel's Gram on rows X (N, d), at pivots drawn from `rng`.

    Attributes
    ----------
    gain : share of the trace that each of the last columns accounted for; 0 where no more are needed.
    """

    def __init__(self, kernel: FittedKernel, position: int, X: np.ndarray, rng: np.random.Generator) -> None:
        self.kernel, self.position, self.X, self.rng = kernel, position, X, rng
        self.diagonal = np.asarray(diagonals([kernel], X)[0], dtype=np.float64)
        self.left = self.diagonal.copy()
        self.pivots = np.empty(0, dtype=np.intp)
        self.columns: list[np.ndarray] = []
        self.gain = np.inf

    def extend(self, count: int) -> int:
        """Add up to `count` columns; the number of those that were."""
        total, before = self.diagonal.sum(), self.left.sum()
        possible = int(np.count_nonzero(self.left))
        if before <= _ENOUGH * total or not possible:
            self.gain = 0.0
            return 0
        drawn = self.rng.choice(len(self.X), min(count, possible), replace=False, p=self.left / before)
        values = np.asarray(self.kernel(self.X[drawn], self.X), dtype=self.X.dtype)
        for columns in self.columns:
            values -= columns[:, drawn].T @ columns
        order, L = _pivoted(np.asarray(values[:, drawn], dtype=np.float64), _SMALLEST_PIVOT * total / len(self.X))
        new = np.asarray(solve_triangular(L.astype(self.X.dtype), values[order], lower=True))
        new[:, self.pivots] = 0.0
        new[:, drawn[order]] = L.T
        self.columns.append(new)
        self.pivots = np.concatenate([self.pivots, drawn[order]])
        self.left = np.maximum(self.left - np.square(new).sum(axis=0), 0.0)
        self.left[drawn] = 0.0
        enough = self.left.sum() <= _ENOUGH * total
        self.gain = 0.0 if enough or not len(order) else (before - self.left.sum()) / total / len(order)
        return len(order)

    def family(self, rows_of_X: np.ndarray) -> FactorFamily:
        """The factor; its columns are given up here. `rows_of_X` (N,) are the rows of the training X that there are."""
        factor = np.empty((len(self.X), len(self.pivots)), dtype=self.X.dtype)
        for start in range(0, len(self.X) if self.columns else 0, _ROWS):
            rows = slice(start, start + _ROWS)
            factor[rows] = np.concatenate([columns[:, rows] for columns in self.columns]).T
        self.columns.clear()
        triangle = factor[self.pivots].astype(np.float64)
        landmarks = Landmarks(self.X[self.pivots], triangle, rows_of_X[self.pivots], self.diagonal)
        return replace(FactorFamily.alone(factor, self.position), landmarks=landmarks)


def extend_all(factors: Sequence[PartialCholesky], left: int) -> None:
    """Give factors of several kernels so many columns together."""
    for factor in factors:
        left -= factor.extend(min(_BLOCK, max(left // len(factors), 1)))
    while left > 0 and any(factor.gain > 0 for factor in factors):
        left -= max(factors, key=lambda factor: factor.gain).extend(min(_BLOCK, left))


def _pivoted(S: np.ndarray, floor: float) -> tuple[np.ndarray, np.ndarray]:
    """S (s, s) -> an order of some of its rows, and L with L L' = S there; without pivots below `floor`."""
    order: list[int] = []
    left, rows = np.diag(S).copy(), np.zeros((0, len(S)))
    while left.max() > floor:
        i = int(left.argmax())
        row = (S[i] - rows[:, i] @ rows) / np.sqrt(left[i])
        rows = np.concatenate([rows, row[np.newaxis]])
        left = left - row**2
        left[[*order, i]] = 0.0
        order.append(i)
    chosen = np.array(order, dtype=np.intp)
    return chosen, np.tril(rows[:, chosen].T)
