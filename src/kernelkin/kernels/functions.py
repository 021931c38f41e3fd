"""Kernel functions, each an elementwise map of a base (squared distances, inner products) that a family can share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from typing import ClassVar, Protocol

import numpy as np

from .checks import check_values
from .distances import inner_products, median_distance, squared_distances

# A callable gives matrices only: its value at a pair is read off the diagonal of a block of this many pairs.
PAIR_BLOCK = 64


class TrainingRows:
    """Training rows X (n, d) on the columns of a kernel, and what kernels learn from them, computed at most once."""

    def __init__(self, X: np.ndarray, sample_weight: np.ndarray | None = None):
        self.X, self.sample_weight = X, sample_weight

    @cached_property
    def median_distance(self) -> float:
        return median_distance(self.X, self.sample_weight)


class Base(Protocol):
    """Values that several kernels on the same columns are maps of; equal bases are computed once."""

    def matrix(self, X: np.ndarray, Y: np.ndarray | None, out: np.ndarray, name: str) -> None:
        """X (n, d), Y (m, d) or None for X -> out (n, m). `name` is the kernel to name in errors."""

    def paired(self, X: np.ndarray, Y: np.ndarray, name: str) -> np.ndarray:
        """X (p, d), Y (p, d) -> (p,): row by row."""


class KernelFunction(Protocol):
    """A map of the values of its base; immutable, compared by value."""

    @property
    def label(self) -> str: ...

    @property
    def base(self) -> Base: ...

    @property
    def known_psd(self) -> bool: ...

    def fit(self, rows: TrainingRows) -> KernelFunction:
        """The same function with every number that depends on the training rows filled in."""

    def apply(self, values: np.ndarray, out: np.ndarray) -> None:
        """Base values -> kernel values, elementwise; `out` may be `values`."""


@dataclass(frozen=True)
class SquaredDistance:
    """|x - z|^2."""

    def matrix(self, X: np.ndarray, Y: np.ndarray | None, out: np.ndarray, name: str) -> None:
        squared_distances(X, Y, out)

    def paired(self, X: np.ndarray, Y: np.ndarray, name: str) -> np.ndarray:
        difference = X - Y
        return np.einsum("ij,ij->i", difference, difference)


@dataclass(frozen=True)
class ScaledSquaredDistance:
    """sum_j (s_j (x_j - z_j))^2, with a scale s_j for each column."""

    scales: tuple[float, ...]

    def matrix(self, X: np.ndarray, Y: np.ndarray | None, out: np.ndarray, name: str) -> None:
        scales = np.array(self.scales, dtype=X.dtype)
        squared_distances(X * scales, None if Y is None else Y * scales, out)

    def paired(self, X: np.ndarray, Y: np.ndarray, name: str) -> np.ndarray:
        difference = (X - Y) * np.array(self.scales, dtype=X.dtype)
        return np.einsum("ij,ij->i", difference, difference)


@dataclass(frozen=True)
class InnerProduct:
    """x'z."""

    def matrix(self, X: np.ndarray, Y: np.ndarray | None, out: np.ndarray, name: str) -> None:
        inner_products(X, Y, out)

    def paired(self, X: np.ndarray, Y: np.ndarray, name: str) -> np.ndarray:
        return np.einsum("ij,ij->i", X, Y)


@dataclass(frozen=True)
class TanimotoSimilarity:
    """x'z / (|x|^2 + |z|^2 - x'z); one between two rows of zeros, which are the same."""

    def matrix(self, X: np.ndarray, Y: np.ndarray | None, out: np.ndarray, name: str) -> None:
        inner_products(X, Y, out)
        left = np.einsum("ij,ij->i", X, X)
        right = left if Y is None else np.einsum("ij,ij->i", Y, Y)
        # By blocks, so that the matrix of denominators stays small.
        for start in range(0, len(out), 64):
            rows = slice(start, start + 64)
            out[rows] = _tanimoto(out[rows], left[rows, np.newaxis] + right)
        if Y is None:
            # The squares of a row are added up in another order than its product with itself.
            np.fill_diagonal(out, 1.0)

    def paired(self, X: np.ndarray, Y: np.ndarray, name: str) -> np.ndarray:
        squares = np.einsum("ij,ij->i", X, X) + np.einsum("ij,ij->i", Y, Y)
        return _tanimoto(np.einsum("ij,ij->i", X, Y), squares)


def _tanimoto(products: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Products x'z and sums |x|^2 + |z|^2 -> the similarity."""
    empty = squares == 0
    return np.where(empty, 1.0, products / np.where(empty, 1.0, squares - products))


@dataclass(frozen=True)
class Gaussian:
    """exp(-|x - z|^2 / (2 s^2)), s = bandwidth, or bandwidth x the median training distance when relative."""

    bandwidth: float
    relative: bool = True
    base: ClassVar[Base] = SquaredDistance()
    known_psd: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (np.isfinite(self.bandwidth) and self.bandwidth > 0):
            raise ValueError(f"the bandwidth of a Gaussian kernel must be positive and finite, got {self.bandwidth!r}")

    @property
    def label(self) -> str:
        return f"rbf({self.bandwidth:g} x median)" if self.relative else f"rbf(bandwidth={self.bandwidth:g})"

    def fit(self, rows: TrainingRows) -> Gaussian:
        return Gaussian(self.bandwidth * rows.median_distance, relative=False) if self.relative else self

    def apply(self, values: np.ndarray, out: np.ndarray) -> None:
        np.multiply(values, -0.5 / self.bandwidth / self.bandwidth, out=out)
        np.exp(out, out=out)


@dataclass(frozen=True)
class ScaledGaussian:
    """exp(-1/2 sum_j (s_j (x_j - z_j))^2 / width^2), with a scale s_j for each column."""

    scales: tuple[float, ...]
    width: float = 1.0
    known_psd: ClassVar[bool] = True

    @property
    def label(self) -> str:
        return f"relevance({self.width:g})"

    @property
    def base(self) -> Base:
        return ScaledSquaredDistance(self.scales)

    def fit(self, rows: TrainingRows) -> ScaledGaussian:
        return self

    def apply(self, values: np.ndarray, out: np.ndarray) -> None:
        np.multiply(values, -0.5 / self.width**2, out=out)
        np.exp(out, out=out)


@dataclass(frozen=True)
class Polynomial:
    """(x'z + coef0)^degree; coef0 >= 0 and a whole degree keep it positive semi-definite."""

    degree: int
    coef0: float = 1.0
    base: ClassVar[Base] = InnerProduct()
    known_psd: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (isinstance(self.degree, Integral) and self.degree >= 1):
            raise ValueError(f"the degree of a polynomial kernel must be a whole number from 1, got {self.degree!r}")
        if not (np.isfinite(self.coef0) and self.coef0 >= 0):
            raise ValueError(f"coef0 of a polynomial kernel must be finite and not negative, got {self.coef0!r}")

    @property
    def label(self) -> str:
        return f"poly{self.degree}" + ("" if self.coef0 == 1 else f"(coef0={self.coef0:g})")

    def fit(self, rows: TrainingRows) -> Polynomial:
        return self

    def apply(self, values: np.ndarray, out: np.ndarray) -> None:
        np.add(values, self.coef0, out=out)
        # Ten times faster than np.power from the third degree on; by blocks, so that the copy stays small.
        for start in range(0, len(out), 64):
            block = out[start : start + 64]
            factor = block.copy()
            for _ in range(self.degree - 1):
                block *= factor


@dataclass(frozen=True)
class Tanimoto:
    """A whole power of the Tanimoto similarity.

    Positive semi-definite for any real rows: with s = |x|^2 + |z|^2 - x'z, 1/s is the integral over t > 0 of
    exp(-t |x|^2) exp(t x'z) exp(-t |z|^2), each of which is a kernel, and a product of kernels is one.
    """

    power: int = 1
    base: ClassVar[Base] = TanimotoSimilarity()
    known_psd: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (isinstance(self.power, Integral) and self.power >= 1):
            raise ValueError(f"the power of a Tanimoto kernel must be a whole number from 1, got {self.power!r}")

    @property
    def label(self) -> str:
        return "tanimoto" if self.power == 1 else f"tanimoto^{self.power}"

    def fit(self, rows: TrainingRows) -> Tanimoto:
        return self

    def apply(self, values: np.ndarray, out: np.ndarray) -> None:
        np.power(values, self.power, out=out)


@dataclass(frozen=True)
class Linear:
    """x'z."""

    label: ClassVar[str] = "linear"
    base: ClassVar[Base] = InnerProduct()
    known_psd: ClassVar[bool] = True

    def fit(self, rows: TrainingRows) -> Linear:
        return self

    def apply(self, values: np.ndarray, out: np.ndarray) -> None:
        if out is not values:
            out[...] = values


@dataclass(frozen=True)
class Custom:
    """Any callable (X, Y) -> matrix (n, m); it is its own base. Equal where the callables are equal."""

    function: Callable[[np.ndarray, np.ndarray], np.ndarray] = field(hash=False)  # a callable need not be hashable
    label: str
    known_psd: bool = False

    @property
    def base(self) -> Base:
        return self

    def fit(self, rows: TrainingRows) -> Custom:
        return self

    def apply(self, values: np.ndarray, out: np.ndarray) -> None:
        if out is not values:
            out[...] = values

    def matrix(self, X: np.ndarray, Y: np.ndarray | None, out: np.ndarray, name: str) -> None:
        try:
            # Some compiled functions, scikit-learn's chi2 among them, refuse arrays that cannot be written to.
            X = np.require(X, requirements="W")
            values = np.asarray(self.function(X, X if Y is None else np.require(Y, requirements="W")))
        except (TypeError, ValueError) as error:
            raise (TypeError if isinstance(error, TypeError) else ValueError)(f"kernel {name!r}: {error}") from error
        if values.dtype.kind not in "biuf":
            raise TypeError(f"kernel {name!r} gave values of type {values.dtype}, not real numbers")
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
