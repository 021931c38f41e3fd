"""Many kernels at once: what kernels on the same columns have in common is computed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .distances import as_float
from .functions import Base, KernelFunction, TrainingRows

if TYPE_CHECKING:
    from .base import FittedKernel, Kernel


def fit_kernels(
    kernels: Sequence[Kernel],
    X: np.ndarray,
    feature_names: Sequence[str] | None = None,
    sample_weight: np.ndarray | None = None,
) -> list[FittedKernel]:
    """Expand per-feature kernels and fit all of them on the training rows.

    Parameters
    ----------
    kernels : sequence of Kernel
    X : array (n, d)
    feature_names : sequence of d str, default None
        Needed by kernels whose columns are given by name.
    sample_weight : array (n,), default None
        Weighs rows in the median distance; repeating a row equals weighting it.
    """
    from .base import FittedKernel

    X = as_float(X)
    found = [(kernel, *target) for kernel in kernels for target in kernel.targets(X.shape[1], feature_names)]
    for name, count in Counter(name for _, name, _ in found).items():
        if count > 1:
            raise ValueError(f"{count} kernels are named {name!r}: names must be unique")
    rows = {columns: TrainingRows(X[:, columns], sample_weight) for columns in {columns for _, _, columns in found}}
    return [
        FittedKernel(name, _fit_function(kernel.function, rows[columns], name), columns)
        for kernel, name, columns in found
    ]


def _fit_function(function: KernelFunction, rows: TrainingRows, name: str) -> KernelFunction:
    try:
        return function.fit(rows)
    except ValueError as error:
        raise ValueError(f"kernel {name!r}: {error}") from error


def _families(kernels: Sequence[FittedKernel]) -> list[list[int]]:
    """Positions of kernels that are maps of the same base on the same columns, in order of appearance."""
    families: dict[tuple[tuple[int, ...], Base], list[int]] = {}
    for k, kernel in enumerate(kernels):
        families.setdefault((kernel.columns, kernel.function.base), []).append(k)
    return list(families.values())


def _apply(kernels: Sequence[FittedKernel], family: list[int], out: np.ndarray) -> None:
    """Turn the base values in out[family[-1]] into kernel values; the last kernel overwrites them."""
    *others, last = family
    values = out[last]
    for k in others:
        kernels[k].function.apply(values, out=out[k])
    kernels[last].function.apply(values, out=values)


def evaluate(
    kernels: Sequence[FittedKernel], X: np.ndarray, Y: np.ndarray | None = None, out: np.ndarray | None = None
) -> np.ndarray:
    """X (n, d), Y (m, d) -> raw kernel matrices (K, n, m), in the precision of X and Y.

    Y=None stands for X and gives exactly symmetric matrices (those of callables as the callable returns them). No
    memory of the size of a matrix is used besides `out`, which must have the shape and dtype of the result.
    """
    X, Y = as_float(X), None if Y is None else as_float(Y)
    shape = (len(kernels), len(X), len(X if Y is None else Y))
    dtype = X.dtype if Y is None else np.result_type(X, Y)
    if out is None:
        out = np.empty(shape, dtype=dtype)
    elif out.shape != shape or out.dtype != dtype:
        raise ValueError(f"out must be {dtype} of shape {shape}, got {out.dtype} of shape {out.shape}")
    for family in _families(kernels):
        kernel = kernels[family[-1]]
        columns_of_Y = None if Y is None else kernel.select(Y)
        # Overflow may be right (a Gaussian of far rows is 0); where it is not, `check_values` refuses it by name.
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            kernel.function.base.matrix(kernel.select(X), columns_of_Y, out[family[-1]], kernel.name)
            _apply(kernels, family, out)
    return out


def pairs(kernels: Sequence[FittedKernel], X: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """k(X[i], X[j]) of each kernel -> (K, len(i)); X (n, d), positions i and j of the same length.

    Costs O(len(i) d) for a family on d columns. Callables give matrices only: 64 evaluations a pair.
    """
    X = as_float(X)
    out = np.empty((len(kernels), len(i)), dtype=X.dtype)
    for family in _families(kernels):
        kernel = kernels[family[-1]]
        columns = kernel.select(X)
        # Overflow may be right (a Gaussian of far rows is 0); where it is not, `check_values` refuses it by name.
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            out[family[-1]] = kernel.function.base.paired(columns[i], columns[j], kernel.name)
            _apply(kernels, family, out)
    return out


def diagonals(kernels: Sequence[FittedKernel], X: np.ndarray) -> np.ndarray:
    """k(x, x) of each kernel for the rows of X (n, d) -> (K, n)."""
    every = np.arange(len(X))
    return pairs(kernels, X, every, every)
