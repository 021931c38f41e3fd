"""One kernel over the rows of all tasks: the average of the base kernels, as a Gram or as explicit features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from ..data import TaskData
from ..kernels import (
    FittedKernel,
    Scaling,
    check_gram,
    check_precomputed,
    diagonals,
    evaluate,
    fit_diagonal_scaling,
    fit_scaling,
    project,
    project_stack,
)
from .build import KernelBank

# What a low-rank factor may leave of the Gram, relative to its mean diagonal.
_RESIDUAL = 1e-12
# Columns that are allocated for a factor at first.
FIRST_RANK = 64
# A kernel that is not known to be positive semi-definite is tested on this many rows at most.
TESTED_ROWS = 1000


@dataclass(frozen=True)
class PooledKernel:
    """The average of K scaled kernels on the rows that any task uses.

    Attributes
    ----------
    rows : (n,) these rows of the training X, ascending.
    bank : the kernels and their one scaling, fitted on these rows.
    diagonal : (n,) k(x, x).
    column : position i -> k(x, x_i) for all these rows, (n,).
    """

    rows: np.ndarray
    bank: KernelBank
    diagonal: np.ndarray
    column: Callable[[int], np.ndarray]

    def gram(self) -> np.ndarray:
        """(n, n) float64."""
        columns = np.empty((len(self.rows), len(self.rows)))
        for i in range(len(columns)):
            columns[i] = self.column(i)
        known = self.bank.kernels is None or all(kernel.known_psd for kernel in self.bank.kernels)
        return columns.T if known else project("average of all kernels", columns.T)

    def features(self, max_rank: int) -> Features | None:
        """Explicit features of the kernel, or None where it has more than `max_rank`."""
        return pivoted_cholesky(self.diagonal, self.column, max_rank)


@dataclass(frozen=True)
class Features:
    """Phi (n, r) with Phi Phi' the Gram. A function Phi w is `sum over pivots of k(x, x_i) c_i` with c of `dual(w)`."""

    Phi: np.ndarray
    pivots: np.ndarray

    def dual(self, W: np.ndarray) -> np.ndarray:
        """W (r, O) -> coefficients (n, O), zero but at the pivots."""
        coefficients = np.zeros((len(self.Phi), W.shape[1]))
        coefficients[self.pivots] = solve_triangular(self.Phi[self.pivots], W, lower=True, trans="T")
        return coefficients


def pivoted_cholesky(diagonal: np.ndarray, column: Callable[[int], np.ndarray], max_rank: int) -> Features | None:
    """Factor a Gram from the columns it takes, `max_rank` at most: a linear kernel on d features takes d."""
    left, floor = diagonal.copy(), _RESIDUAL * diagonal.mean()
    factor = np.empty((min(max_rank, FIRST_RANK), len(diagonal)))
    pivots: list[int] = []
    while left.max() > floor:
        r, i = len(pivots), int(left.argmax())
        if r == max_rank:
            return None
        if r == len(factor):
            factor = np.concatenate([factor, np.empty((min(max_rank - r, r), len(diagonal)))])
        factor[r] = (column(i) - factor[:r, i] @ factor[:r]) / np.sqrt(left[i])
        factor[r, pivots] = 0.0
        left -= factor[r] ** 2
        left[i] = 0.0
        pivots.append(i)
    return Features(np.ascontiguousarray(factor[: len(pivots)].T), np.array(pivots, dtype=np.intp))


def needs_stack(kernels: Sequence[FittedKernel] | None, normalize: str | None) -> bool:
    """Whether all Gram matrices have to be there at once: they are given, or are centred."""
    return kernels is None or normalize == "center"


def pool_kernels(data: TaskData, kernels: Sequence[FittedKernel] | None, normalize: str | None) -> PooledKernel:
    """Fit one scaling on the rows of all tasks together; `kernels` None stands for precomputed Grams."""
    rows = np.unique(np.concatenate(data.rows))
    weight = data.sample_weight[rows]
    if kernels is None or needs_stack(kernels, normalize):
        return _from_grams(data, rows, weight, kernels, normalize)
    X = np.asarray(data.X[rows], dtype=np.float64)
    names = tuple(kernel.name for kernel in kernels)
    _check_kernels(kernels, X)
    raw = diagonals(kernels, X)
    scaling = fit_diagonal_scaling(normalize, raw, weight, names)
    every = _scaled_diagonal(scaling, raw)

    def column(i: int) -> np.ndarray:
        cross = evaluate(kernels, X, X[i : i + 1])
        return scaling.take(np.array([i])).apply(cross, raw, overwrite=True)[:, :, 0].mean(axis=0)

    return PooledKernel(rows, KernelBank(names, tuple(kernels), (scaling,)), every.mean(axis=0), column)


def _from_grams(
    data: TaskData,
    rows: np.ndarray,
    weight: np.ndarray,
    kernels: Sequence[FittedKernel] | None,
    normalize: str | None,
) -> PooledKernel:
    """Where the whole stack is given, or needed to centre it."""
    if kernels is None:
        names = tuple(check_precomputed(np.moveaxis(data.X, 2, 0), normalize))
        stack = np.ascontiguousarray(np.moveaxis(data.X[np.ix_(rows, rows)], 2, 0), dtype=np.float64)
        clipped = project_stack(names, stack)
    else:
        names = tuple(kernel.name for kernel in kernels)
        X = np.asarray(data.X[rows], dtype=np.float64)
        stack, clipped = evaluate(kernels, X), False
        for kernel, gram in zip(kernels, stack, strict=True):
            checked = check_gram(kernel.name, gram, kernel.known_psd)
            if checked is not gram:
                gram[...], clipped = checked, True
    scaling, stack = fit_scaling(normalize, stack, weight, names, overwrite=True)
    gram = stack.mean(axis=0)
    bank = KernelBank(names, None if kernels is None else tuple(kernels), (scaling,), clipped=clipped)
    return PooledKernel(rows, bank, np.diagonal(gram).copy(), lambda i: gram[i])


def _scaled_diagonal(scaling: Scaling, raw: np.ndarray) -> np.ndarray:
    """raw (K, n) values k(x, x) -> scaled."""
    every = np.arange(raw.shape[1])
    return scaling.apply_pairs(raw, every, every)


def _check_kernels(kernels: Sequence[FittedKernel], X: np.ndarray) -> None:
    """Refuse a kernel that is zero, not finite or clearly indefinite, as the Gram stacks of the other models do."""
    X = X[:: len(X) // TESTED_ROWS + 1]
    for kernel, gram in zip(kernels, evaluate(kernels, X), strict=True):
        check_gram(kernel.name, gram, kernel.known_psd)
