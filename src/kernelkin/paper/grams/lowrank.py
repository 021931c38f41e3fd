"""Kernels with low-rank Gram matrices, so that coupled tasks need no matrix over all their rows.

If the columns of a kernel have few distinct rows (a binary attribute, a grade, a type of school), its Gram matrix is
`Z S Z'`, with the indicators Z of the u distinct rows and the Gram matrix S on these. All kernels on the same columns
share Z, so several bandwidths have the rank of one. The factor of a linear kernel on d columns is these columns, that
of a polynomial kernel their products. Other kernels have approximate Nystroem factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement
from math import comb, factorial, prod, sqrt
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from ...data.forms import TaskData
from ...decompositions import eigh
from ...engines.threads import Each, serially
from ...kernels.grams import Scaling, fit_diagonal_scaling
from ...kernels.kernel import FittedKernel, LinearKernel, PolynomialKernel, diagonals

# Factors are used if their total number of columns is below this share of the rows.
_WORTHWHILE = 1 / 3
# Eigenvalues of a kernel's Gram below this share of the largest are rounding.
_ROUNDING = 1e-15
# Default total number of columns of the approximate factors.
DEFAULT_RANK = 1000
# Columns added at one time.
_BLOCK = 50
# A kernel needs no more columns if less than this share of its trace is left.
_ENOUGH = 1e-5
# Pivots that leave less than this share of the mean diagonal are rounding.
_SMALLEST_PIVOT = 1e-10


class Landmarks(NamedTuple):
    """Rows (r,) of the training X from which an approximate factor of one kernel is made.

    `triangle` (r, r) is the factor there, `diagonal` (N,) the kernel's own values k(x, x), of which it has a part.
    """

    rows: np.ndarray
    triangle: np.ndarray
    diagonal: np.ndarray

    def dual(self, W: np.ndarray) -> np.ndarray:
        """W (r, m) -> coefficients (r, m) with which the kernel at the landmarks makes the function Phi W."""
        return np.asarray(solve_triangular(self.triangle, W, lower=True, trans="T"))


class FactorFamily(NamedTuple):
    """Kernels with the Grams `scale_f Phi S_f Phi'`, which share the factor Phi (N, r).

    `cores` S (F, r, r) are positive semi-definite; of a family of one kernel, the identity. `kernels` and `scale` (F,)
    are the positions of the kernels among all K, and their factors. `landmarks` are None where Phi is exact.
    """

    factor: np.ndarray
    cores: np.ndarray
    kernels: np.ndarray
    scale: np.ndarray
    landmarks: Landmarks | None = None

    @classmethod
    def alone(cls, factor: np.ndarray, kernel: int, landmarks: Landmarks | None = None) -> FactorFamily:
        return cls(factor, np.eye(factor.shape[1])[np.newaxis], np.array([kernel]), np.ones(1), landmarks)

    def core(self, b: np.ndarray) -> np.ndarray:
        """Weights b (K,) of all kernels -> S(b) (r, r)."""
        return np.tensordot(b[self.kernels] * self.scale, self.cores, axes=1)

    def root(self, b: np.ndarray) -> np.ndarray:
        """b (K,) -> U (N, R) with U U' the weighted sum of these Grams."""
        weights = b[self.kernels] * self.scale
        if not weights.any():
            return np.zeros((len(self.factor), 0))
        return self.factor * np.sqrt(weights[0]) if len(weights) == 1 else self.factor @ _root(self.core(b))

    def take(self, rows: np.ndarray) -> FactorFamily:
        """Return the family for some of the rows."""
        marks = self.landmarks
        marks = None if marks is None else marks._replace(diagonal=marks.diagonal[rows])
        return self._replace(factor=self.factor[rows], landmarks=marks)

    def mean_diagonal(self, weight: np.ndarray) -> np.ndarray:
        """weight (N,) of sum one -> (F,), of the kernels themselves where the factor is approximate."""
        if self.landmarks is not None:
            return self.scale * float(weight @ self.landmarks.diagonal)
        moments = self.factor.T @ (weight[:, np.newaxis] * self.factor)
        return self.scale * np.einsum("frs,rs->f", self.cores, moments)


class LowRankKernels:
    """Families of kernels with common factors, over the N rows of all tasks, in order; no (N, N) matrix exists."""

    def __init__(self, families: Sequence[FactorFamily]) -> None:
        self.families = tuple(families)
        self.rank = sum(family.factor.shape[1] for family in self.families)
        self.n_rows = len(self.families[0].factor)
        self.n_kernels = sum(len(family.kernels) for family in self.families)
        self.is_exact = all(family.landmarks is None for family in self.families)

    def missing(self) -> np.ndarray:
        """Return the share (K,) of the trace of each kernel that its factor misses."""
        shares = np.zeros(self.n_kernels)
        for family in self.families:
            if family.landmarks is not None:
                kept = np.einsum("ir,ir->", family.factor, family.factor, dtype=np.float64)
                shares[family.kernels] = max(1.0 - kept / family.landmarks.diagonal.sum(), 0.0)
        return shares

    def take(self, rows: np.ndarray) -> LowRankKernels:
        """The kernels among some of the rows."""
        return LowRankKernels([family.take(rows) for family in self.families])

    def scaled(self, normalize: str | None, weight: np.ndarray, charges: np.ndarray) -> tuple[Scaling, LowRankKernels]:
        """Scale by the mean diagonal of these rows, weighted, or not at all, and by the kernels' charges (K,)."""
        means = np.empty((self.n_kernels, 1))
        for family in self.families:
            means[family.kernels, 0] = family.mean_diagonal(weight / weight.sum())
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


def has_factors(kernels: Sequence[FittedKernel] | None, normalize: str | None) -> bool:
    """Return True if factors can replace Gram matrices: not precomputed, and scaled by a factor only."""
    return kernels is not None and normalize in (None, "trace")


def low_rank_kernels(
    data: TaskData, kernels: Sequence[FittedKernel] | None, normalize: str | None, most: int | None = None
) -> LowRankKernels | None:
    """Return exact factors over the rows of all tasks; None if kernels are precomputed or factors are too large.

    `most` is the maximum number of columns; by default a share of the rows.
    """
    if kernels is None or not has_factors(kernels, normalize):
        return None
    X = data.X[np.concatenate(data.rows)]
    limit = min(int(_WORTHWHILE * len(X)), len(X) if most is None else most)
    families: list[FactorFamily] = []
    for positions in _families_by_columns(kernels, limit):
        family = _exact_family(kernels, positions, X, limit)
        if family is None or sum(f.factor.shape[1] for f in families) + family.factor.shape[1] > limit:
            return None
        families.append(family)
    return LowRankKernels(families)


def _families_by_columns(kernels: Sequence[FittedKernel], limit: int) -> list[list[int]]:
    """Positions of kernels on the same columns, in order of appearance; alone, those with factors of their own."""
    groups: dict[tuple, list[int]] = {}
    for k, kernel in enumerate(kernels):
        own = (k,) if _n_monomials(kernel) <= limit else ()
        groups.setdefault((kernel.columns, own), []).append(k)
    return list(groups.values())


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


def nystroem_kernels(data: TaskData, kernels: Sequence[FittedKernel], rank: int) -> LowRankKernels:
    """Return factors over the rows of all tasks with `rank` columns in total; exact ones for kernels with few columns.

    The next columns go to the kernel whose trace the previous ones reduced most. Landmarks have a fixed seed.
    """
    rows = np.concatenate(data.rows)
    X = data.X[rows]
    families: list[FactorFamily] = []
    partial: list[PartialCholesky] = []
    rng = np.random.default_rng(0)
    for positions in _families_by_columns(kernels, rank // len(kernels)):
        exact = _exact_family(kernels, positions, X, rank // len(kernels))
        if exact is None:
            partial += [PartialCholesky(kernels[k], k, X, rng) for k in positions]
        else:
            families.append(exact)
    left = rank - sum(family.factor.shape[1] for family in families)
    for factor in partial:
        left -= factor.extend(min(_BLOCK, max(left // len(partial), 1)))
    while left > 0 and any(factor.gain > 0 for factor in partial):
        left -= max(partial, key=lambda factor: factor.gain).extend(min(_BLOCK, left))
    return LowRankKernels([*families, *(factor.family(rows) for factor in partial)])


class PartialCholesky:
    """The first columns of a Cholesky factor of one kernel's Gram on rows X (N, d), at pivots drawn from `rng`.

    `gain` is the share of the trace that each of the last columns accounted for; 0 where no more are needed.
    """

    def __init__(self, kernel: FittedKernel, position: int, X: np.ndarray, rng: np.random.Generator) -> None:
        self.kernel, self.position, self.X, self.rng = kernel, position, X, rng
        self.diagonal = np.asarray(diagonals([kernel], X)[0], dtype=np.float64)
        self.left = self.diagonal.copy()
        self.pivots = np.empty(0, dtype=np.intp)
        self.columns: list[np.ndarray] = []
        self.gain = np.inf

    def extend(self, count: int) -> int:
        """Add up to `count` columns; return the number added."""
        total, before = self.diagonal.sum(), self.left.sum()
        possible = int(np.count_nonzero(self.left))
        if before <= _ENOUGH * total or not possible:
            self.gain = 0.0
            return 0
        drawn = self.rng.choice(len(self.X), min(count, possible), replace=False, p=self.left / before)
        values = np.asarray(self.kernel(self.X[drawn], self.X), dtype=self.X.dtype)
        for columns in self.columns:
            values -= columns[:, drawn].T @ columns
        floor = _SMALLEST_PIVOT * total / len(self.X)
        L, order, rank, _ = dpstrf(np.asarray(values[:, drawn], dtype=np.float64), tol=floor, lower=1)
        L, order = np.tril(L)[:rank, :rank], order[:rank] - 1
        new = np.asarray(solve_triangular(L.astype(self.X.dtype), values[order], lower=True))
        new[:, self.pivots] = 0.0
        new[:, drawn[order]] = L.T
        self.columns.append(new)
        self.pivots = np.concatenate([self.pivots, drawn[order]])
        self.left = np.maximum(self.left - np.square(new).sum(axis=0), 0.0)
        self.left[drawn] = 0.0
        enough = self.left.sum() <= _ENOUGH * total
        self.gain = 0.0 if enough or not rank else (before - self.left.sum()) / total / rank
        return int(rank)

    def family(self, rows: np.ndarray) -> FactorFamily:
        """Return the factor; `rows` (N,) are the positions of the rows in the training X."""
        columns = [np.empty((0, len(self.X)), dtype=self.X.dtype), *self.columns]
        self.columns = []
        factor = np.ascontiguousarray(np.concatenate(columns).T)
        landmarks = Landmarks(rows[self.pivots], factor[self.pivots].astype(np.float64), self.diagonal)
        return FactorFamily.alone(factor, self.position, landmarks)
