"""Kernel functions: elementwise functions of inner products or squared distances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np

from .checks import check_values, mirror

# The median distance uses at most this many rows, because its time is more than linear.
MAX_ROWS = 1000
# A callable returns only matrices: values at pairs are the diagonal of a block of this many pairs.
PAIR_BLOCK = 64


def thin(n: int) -> slice:
    """Return a slice of at most MAX_ROWS of n rows: all, or every (n // MAX_ROWS + 1)-th."""
    return slice(None, None, 1 if n <= MAX_ROWS else n // MAX_ROWS + 1)


def median_distance(X: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """Return the weighted median of the non-zero distances between the rows of X (n, d); 1.0 if there are none.

    The pair (i, j) has weight ``w_i w_j``, so weighting a row by 2 equals repeating it. With more than 1000 rows of
    positive weight, only every (n // 1000 + 1)-th row is used.
    """
    from scipy.spatial.distance import pdist

    weight = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    kept = np.flatnonzero(weight > 0)
    kept = kept[thin(len(kept))]
    distance = pdist(X[kept].astype(np.float64))
    apart = distance > 0
    if not apart.any():
        return 1.0
    first, second = np.triu_indices(len(kept), 1)
    values, weight = distance[apart], (weight[kept][first] * weight[kept][second])[apart]
    order = np.argsort(values)
    total = np.cumsum(weight[order])
    # The mean of both medians if there are two.
    lower, upper = np.searchsorted(total, total[-1] / 2, "left"), np.searchsorted(total, total[-1] / 2, "right")
    return float((values[order[lower]] + values[order[upper]]) / 2)


def squared_distances(X: np.ndarray, Y: np.ndarray | None, out: np.ndarray) -> None:
    """X (n, d), Y (m, d) -> out (n, m) >= 0. With Y=None, distances between rows of X: symmetric, zero diagonal."""
    other = X if Y is None else Y
    if X.shape[1] == 1:
        np.subtract(X, other.T, out=out)
        np.square(out, out=out)
        return
    # |x|^2 + |y|^2 - 2 x'y loses digits when the rows are far from the origin, so subtract the mean first.
    center = other.mean(axis=0)
    left, right = X - center, other - center
    np.matmul(-2.0 * left, right.T, out=out)
    out += np.einsum("ij,ij->i", left, left)[:, None]
    out += np.einsum("ij,ij->i", right, right)
    np.maximum(out, 0.0, out=out)
    if Y is None:
        np.fill_diagonal(out, 0.0)
        mirror(out)


class KernelFunction:
    """An elementwise function of base values; immutable, compared by value.

    Base values are computed once for all kernels with the same columns and the same `base`. Functions with an empty
    `base` do not share base values. `known_psd` says whether Gram matrices are positive semi-definite by theory.
    """

    base: ClassVar[str] = "inner products"
    known_psd: ClassVar[bool] = True

    def fit(self, median: Callable[[], float]) -> Self:
        """Set what depends on the training rows; `median` returns their median distance."""
        return self

    def matrix(self, X: np.ndarray, Y: np.ndarray | None, out: np.ndarray, name: str) -> None:
        """Compute base values: X (n, d), Y (m, d) or None for X -> out (n, m). `name` is used in error messages."""
        np.matmul(X, (X if Y is None else Y).T, out=out)
        if Y is None:
            mirror(out)

    def paired(self, X: np.ndarray, Y: np.ndarray, name: str) -> np.ndarray:
        """Return base values row by row: X (p, d), Y (p, d) -> (p,)."""
        return np.einsum("ij,ij->i", X, Y)

    def apply(self, values: np.ndarray, out: np.ndarray) -> None:
        """Write the kernel values for base values into `out`, elementwise; `out` may be `values`."""
        if out is not values:
            out[...] = values


@dataclass(frozen=True)
class GaussianKernel(KernelFunction):
    """exp(-|x - z|^2 / (2 s^2)), s = bandwidth, or bandwidth x the median training distance when relative."""

    bandwidth: float
    relative: bool = True
    base: ClassVar[str] = "squared distances"

    def __post_init__(self) -> None:
        if not 0 < self.bandwidth < np.inf:
            raise ValueError(f"the bandwidth of a Gaussian kernel must be positive and finite, got {self.bandwidth!r}")

    def fit(self, median: Callable[[], float]) -> GaussianKernel:
        return GaussianKernel(self.bandwidth * median(), relative=False) if self.relative else self

    def matrix(self, X: np.ndarray, Y: np.ndarray | None, out: np.ndarray, name: str) -> None:
        squared_distances(X, Y, out)

    def paired(self, X: np.ndarray, Y: np.ndarray, name: str) -> np.ndarray:
        difference = X - Y
        return np.einsum("ij,ij->i", difference, difference)

    def apply(self, values: np.ndarray, out: np.ndarray) -> None:
        np.multiply(values, -0.5 / self.bandwidth / self.bandwidth, out=out)
        np.exp(out, out=out)


@dataclass(frozen=True)
class PolynomialKernel(KernelFunction):
    """(x'z + coef0)^degree; positive semi-definite for coef0 >= 0 and integer degrees."""

    degree: int
    coef0: float = 1.0

    def __post_init__(self) -> None:
        _check_whole("degree of a polynomial", self.degree)
        if not (np.isfinite(self.coef0) and self.coef0 >= 0):
            raise ValueError(f"coef0 of a polynomial kernel must be finite and not negative, got {self.coef0!r}")

    def apply(self, values: np.ndarray, out: np.ndarray) -> None:
        np.add(values, self.coef0, out=out)
        # Ten times faster than np.power for degrees above 2. Blocks keep the copy small.
        for start in range(0, len(out), 64):
            block = out[start : start + 64]
            factor = block.copy()
            for _ in range(self.degree - 1):
                block *= factor


@dataclass(frozen=True)
class LinearKernel(KernelFunction):
    """x'z."""


@dataclass(frozen=True)
class TanimotoKernel(KernelFunction):
    """An integer power of x'z / (|x|^2 + |z|^2 - x'z), which is one between two rows of zeros.

    Positive semi-definite for all real rows: with s = |x|^2 + |z|^2 - x'z, 1/s is the integral over t > 0 of
    exp(-t |x|^2) exp(t x'z) exp(-t |z|^2), each of which is a kernel, and products of kernels are kernels.
    """

    power: int = 1
    base: ClassVar[str] = "Tanimoto similarities"

    def __post_init__(self) -> None:
        _check_whole("power of a Tanimoto", self.power)

    def matrix(self, X: np.ndarray, Y: np.ndarray | None, out: np.ndarray, name: str) -> None:
        super().matrix(X, Y, out, name)
        left = np.einsum("ij,ij->i", X, X)
        right = left if Y is None else np.einsum("ij,ij->i", Y, Y)
        # Blocks keep the matrix of denominators small.
        for start in range(0, len(out), 64):
            rows = slice(start, start + 64)
            out[rows] = self._similarity(out[rows], left[rows, np.newaxis] + right)
        if Y is None:
            # matmul and einsum add in different orders, so the diagonal may differ from one by rounding.
            np.fill_diagonal(out, 1.0)

    def paired(self, X: np.ndarray, Y: np.ndarray, name: str) -> np.ndarray:
        squares = np.einsum("ij,ij->i", X, X) + np.einsum("ij,ij->i", Y, Y)
        return self._similarity(np.einsum("ij,ij->i", X, Y), squares)

    @staticmethod
    def _similarity(products: np.ndarray, squares: np.ndarray) -> np.ndarray:
        empty = squares == 0
        return np.where(empty, 1.0, products / np.where(empty, 1.0, squares - products))

    def apply(self, values: np.ndarray, out: np.ndarray) -> None:
        np.power(values, self.power, out=out)


@dataclass(frozen=True)
class CallableKernel(KernelFunction):
    """A callable (X, Y) -> matrix (n, m). Two are equal if their callables are equal."""

    function: Callable[[np.ndarray, np.ndarray], np.ndarray] = field(hash=False)  # a callable need not be hashable
    known_psd: bool = False  # type: ignore[misc]
    base: ClassVar[str] = ""

    def matrix(self, X: np.ndarray, Y: np.ndarray | None, out: np.ndarray, name: str) -> None:
        try:
            # Some compiled functions, such as scikit-learn's chi2, reject read-only arrays.
            X = np.require(X, requirements="W")
            values = np.asarray(self.function(X, X if Y is None else np.require(Y, requirements="W")))
        except (TypeError, ValueError) as error:
            raise (TypeError if isinstance(error, TypeError) else ValueError)(f"kernel {name!r}: {error}") from error
        if values.dtype.kind not in "biuf":
            raise TypeError(f"kernel {name!r} returned values of type {values.dtype}, not real numbers")
        check_values(name, values, out.shape)
        out[...] = values

    def paired(self, X: np.ndarray, Y: np.ndarray, name: str) -> np.ndarray:
        values = np.empty(len(X), dtype=X.dtype)
        for start in range(0, len(X), PAIR_BLOCK):
            rows = slice(start, start + PAIR_BLOCK)
            block = np.empty((len(X[rows]), len(X[rows])), dtype=X.dtype)
            self.matrix(X[rows], Y[rows], block, name)
            values[rows] = block.diagonal()
        return values


def _check_whole(what: str, value: object) -> None:
    if not (isinstance(value, int | np.integer) and value >= 1):
        raise ValueError(f"the {what} kernel must be a positive integer, got {value!r}")
