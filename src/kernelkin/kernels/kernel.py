"""Kernels: functions of pairs of rows, how a user specifies them, and how many are fitted and evaluated together.

A `KernelFunction` maps inner products or squared distances, which kernels of a family share. A `Kernel` is a function
with a name and columns; a `FittedKernel` has all that depends on training rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from .grams import check_values, mirror

Columns = int | str | slice | Iterable[int] | Iterable[str] | None

# The median distance looks at no more rows than this: it costs more than linear time.
MAX_ROWS = 1000
# A callable gives matrices only: its value at a pair is read off the diagonal of a block of this many pairs.
PAIR_BLOCK = 64


def thin(n: int) -> slice:
    """The rows that stand for n rows where MAX_ROWS must do: all, or every (n // MAX_ROWS + 1)-th."""
    return slice(None, None, 1 if n <= MAX_ROWS else n // MAX_ROWS + 1)


def median_distance(X: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """Weighted median of the non-zero Euclidean distances between the rows of X (n, d); 1.0 if there are none.

    The pair (i, j) weighs ``w_i w_j``, so that repeating a row equals weighting it. Beyond 1000 rows of positive
    weight only every (n // 1000 + 1)-th is looked at.
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
    # The middle of two distances where both are medians.
    lower, upper = np.searchsorted(total, total[-1] / 2, "left"), np.searchsorted(total, total[-1] / 2, "right")
    return float((values[order[lower]] + values[order[upper]]) / 2)


class KernelFunction:
    """A map of base values; immutable, compared by value.

    Kernels on the same columns with the same `base` share base values, which are computed once; the empty base is
    shared with no other function. `known_psd`: whether theory says that Gram matrices are positive semi-definite.
    """

    base: ClassVar[str] = "inner products"
    known_psd: ClassVar[bool] = True

    def matrix(self, X: np.ndarray, Y: np.ndarray | None, out: np.ndarray, name: str) -> None:
        """Base values: X (n, d), Y (m, d) or None for X -> out (n, m). Errors call the kernel `name`."""
        np.matmul(X, (X if Y is None else Y).T, out=out)
        if Y is None:
            mirror(out)

    def paired(self, X: np.ndarray, Y: np.ndarray, name: str) -> np.ndarray:
        """Base values row by row: X (p, d), Y (p, d) -> (p,)."""
        return np.einsum("ij,ij->i", X, Y)

    def apply(self, values: np.ndarray, out: np.ndarray) -> None:
        """Base values -> kernel values, elementwise; `out` may be `values`."""
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

    def matrix(self, X: np.ndarray, Y: np.ndarray | None, out: np.ndarray, name: str) -> None:
        """Squared distances >= 0; among the rows of X they are symmetric, with a diagonal of exact zeros."""
        other = X if Y is None else Y
        if X.shape[1] == 1:
            np.subtract(X, other.T, out=out)
            np.square(out, out=out)
            return
        # |x|^2 + |y|^2 - 2 x'y cancels badly when the rows are far from the origin: move it to the mean of Y first.
        center = other.mean(axis=0)
        left, right = X - center, other - center
        np.matmul(-2.0 * left, right.T, out=out)
        out += np.einsum("ij,ij->i", left, left)[:, None]
        out += np.einsum("ij,ij->i", right, right)
        np.maximum(out, 0.0, out=out)
        if Y is None:
            np.fill_diagonal(out, 0.0)
            mirror(out)

    def paired(self, X: np.ndarray, Y: np.ndarray, name: str) -> np.ndarray:
        difference = X - Y
        return np.einsum("ij,ij->i", difference, difference)

    def apply(self, values: np.ndarray, out: np.ndarray) -> None:
        np.multiply(values, -0.5 / self.bandwidth / self.bandwidth, out=out)
        np.exp(out, out=out)


@dataclass(frozen=True)
class PolynomialKernel(KernelFunction):
    """(x'z + coef0)^degree; coef0 >= 0 and a whole degree keep it positive semi-definite."""

    degree: int
    coef0: float = 1.0

    def __post_init__(self) -> None:
        _check_whole("degree of a polynomial", self.degree)
        if not (np.isfinite(self.coef0) and self.coef0 >= 0):
            raise ValueError(f"coef0 of a polynomial kernel must be finite and not negative, got {self.coef0!r}")

    def apply(self, values: np.ndarray, out: np.ndarray) -> None:
        np.add(values, self.coef0, out=out)
        # Ten times faster than np.power from the third degree on; by blocks, so that the copy stays small.
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
    """A whole power of x'z / (|x|^2 + |z|^2 - x'z), which is one between two rows of zeros.

    Positive semi-definite for any real rows: with s = |x|^2 + |z|^2 - x'z, 1/s is the integral over t > 0 of
    exp(-t |x|^2) exp(t x'z) exp(-t |z|^2), each of which is a kernel, and a product of kernels is one.
    """

    power: int = 1
    base: ClassVar[str] = "Tanimoto similarities"

    def __post_init__(self) -> None:
        _check_whole("power of a Tanimoto", self.power)

    def matrix(self, X: np.ndarray, Y: np.ndarray | None, out: np.ndarray, name: str) -> None:
        super().matrix(X, Y, out, name)
        left = np.einsum("ij,ij->i", X, X)
        right = left if Y is None else np.einsum("ij,ij->i", Y, Y)
        # By blocks, so that the matrix of denominators stays small.
        for start in range(0, len(out), 64):
            rows = slice(start, start + 64)
            out[rows] = self._similarity(out[rows], left[rows, np.newaxis] + right)
        if Y is None:
            # The squares of a row are added up in another order than its product with itself.
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
    """Any callable (X, Y) -> matrix (n, m). Equal where the callables are equal."""

    function: Callable[[np.ndarray, np.ndarray], np.ndarray] = field(hash=False)  # a callable need not be hashable
    known_psd: bool = False  # type: ignore[misc]
    base: ClassVar[str] = ""

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


def _check_whole(what: str, value: object) -> None:
    if not (isinstance(value, int | np.integer) and value >= 1):
        raise ValueError(f"the {what} kernel must be a whole number from 1, got {value!r}")


@dataclass(frozen=True)
class Kernel:
    """A base kernel before it has seen data; immutable, compared by value.

    Parameters
    ----------
    name : str
        Readable, such as "rbf(0.5 x median)"; errors and results use it.
    function : KernelFunction
        What it computes, such as GaussianKernel(0.5).
    columns : int, str, slice or list of them, default None
        The columns it looks at, by position or by name; None: all.
    per_feature : bool, default False
        Stand for one kernel per column, named "name[column]"; `fit_kernels` expands it.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import gaussian_kernels
    >>> kernel = gaussian_kernels(0.5)[0]
    >>> kernel.name
    'rbf(0.5 x median)'
    >>> kernel.fit(np.array([[0.0], [1.0]]))(np.array([[0.0]]), np.array([[0.5]])).round(4)
    array([[0.6065]])
    """

    name: str
    function: KernelFunction
    columns: Columns = field(default=None, hash=False)  # slices have no hash before Python 3.12
    per_feature: bool = False

    def __post_init__(self) -> None:
        if self.columns is not None:
            object.__setattr__(self, "columns", freeze_columns(self.columns, self.name))

    def fit(
        self,
        X: np.ndarray,
        feature_names: Sequence[str] | None = None,
        sample_weight: np.ndarray | None = None,
    ) -> FittedKernel:
        """Resolve columns and median-relative bandwidths on the training rows.

        Parameters
        ----------
        X, feature_names, sample_weight : rows (n, d), names of the columns (d,), weights of the rows (n,)
        """
        if self.per_feature:
            raise ValueError(f"kernel {self.name!r} stands for one kernel per feature: fit it with fit_kernels")
        return fit_kernels([self], X, feature_names, sample_weight)[0]


@dataclass(frozen=True)
class FittedKernel:
    """A kernel with every column and number resolved: `function` on the `columns` (positions) of X."""

    name: str
    function: KernelFunction
    columns: tuple[int, ...]

    def select(self, X: np.ndarray) -> np.ndarray:
        """X (n, d) -> (n, len(columns)); X itself when the kernel looks at all of it."""
        return X if self.columns == tuple(range(X.shape[1])) else X[:, self.columns]

    def __call__(self, X: np.ndarray, Y: np.ndarray | None = None) -> np.ndarray:
        """X (n, d), Y (m, d) -> (n, m); Y=None stands for X."""
        return evaluate([self], X, Y)[0]


def _expand(kernel: Kernel, n_features: int, feature_names: Sequence[str] | None) -> list[tuple[str, tuple[int, ...]]]:
    """Return the kernels that one stands for: the name and the positions of the columns of each."""
    columns: Any = kernel.columns
    if columns is None:
        positions = tuple(range(n_features))
    elif isinstance(columns, slice):
        positions = tuple(range(*columns.indices(n_features)))
        if not positions:
            shown = label_columns(columns)
            raise ValueError(f"kernel {kernel.name!r}: {shown} holds none of the {n_features} columns of X")
    else:
        positions = tuple(_position(column, n_features, feature_names, kernel.name) for column in columns)
    if not kernel.per_feature:
        return [(kernel.name, positions)]
    labels = range(n_features) if feature_names is None else feature_names
    return [(f"{kernel.name}[{labels[p]}]", (p,)) for p in positions]


def freeze_columns(columns: Columns, kernel: str) -> tuple | slice:
    """Columns as a user gives them -> a slice of positions, or a tuple of positions and names.

    `kernel` is the name for errors.
    """
    if isinstance(columns, slice):
        ends = (columns.start, columns.stop, columns.step)
        wrong = [end for end in ends if not (end is None or _is_whole(end))]
        frozen: tuple | slice = columns
    else:
        given: Any = [columns] if isinstance(columns, str) or _is_whole(columns) else columns
        frozen = tuple(int(c) if _is_whole(c) else c for c in given)
        wrong = [c for c in frozen if not (isinstance(c, str) or _is_whole(c))]
    if wrong or frozen == ():
        found = repr(wrong[0]) if wrong else "none"
        raise ValueError(f"kernel {kernel!r}: columns are positions, names or a slice of positions; found {found}")
    return frozen


def _is_whole(column: object) -> bool:
    return isinstance(column, Integral) and not isinstance(column, bool)


def _position(column: int | str, n_features: int, feature_names: Sequence[str] | None, kernel: str) -> int:
    if isinstance(column, int):
        if not -n_features <= column < n_features:
            raise ValueError(f"kernel {kernel!r}: column {column} is out of range, X has {n_features} columns")
        return column % n_features
    if feature_names is None:
        raise ValueError(f"kernel {kernel!r}: column {column!r} is given by name, but X has no column names")
    found = np.flatnonzero(np.asarray(feature_names, dtype=object) == column)
    if len(found) != 1:
        fault = "is not a column of X" if len(found) == 0 else f"names {len(found)} columns of X"
        raise ValueError(f"kernel {kernel!r}: {column!r} {fault}")
    return int(found[0])


def label_columns(columns: tuple | slice) -> str:
    """A short suffix for the name of a kernel on these columns: "[age]", "[0:5]", "[12 columns]"."""
    if isinstance(columns, slice):
        ends = ["" if end is None else str(end) for end in (columns.start, columns.stop, columns.step)]
        return f"[{':'.join(ends if columns.step is not None else ends[:2])}]"
    return f"[{', '.join(map(str, columns))}]" if len(columns) <= 3 else f"[{len(columns)} columns]"


def as_float(X: np.ndarray) -> np.ndarray:
    """X (n, d) as an array of float32 or float64; other numbers become float64."""
    X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"kernels need rows and columns, an array of two dimensions; got shape {X.shape}")
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)


def fit_kernels(
    kernels: Sequence[Kernel],
    X: np.ndarray,
    feature_names: Sequence[str] | None = None,
    sample_weight: np.ndarray | None = None,
) -> list[FittedKernel]:
    """Expand per-feature kernels and fit all of them on the training rows X (n, d).

    `feature_names` (d,) are needed by kernels whose columns are given by name. `sample_weight` (n,) weighs rows in the
    median distance: repeating a row equals weighting it.
    """
    X = as_float(X)
    found = [(kernel, *target) for kernel in kernels for target in _expand(kernel, X.shape[1], feature_names)]
    for name, count in Counter(name for _, name, _ in found).items():
        if count > 1:
            raise ValueError(f"{count} kernels are named {name!r}: names must be unique")

    medians: dict[tuple[int, ...], float] = {}
    fitted = []
    for kernel, name, columns in found:
        function = kernel.function
        if isinstance(function, GaussianKernel) and function.relative:
            if columns not in medians:
                medians[columns] = median_distance(X[:, columns], sample_weight)
            try:
                function = GaussianKernel(function.bandwidth * medians[columns], relative=False)
            except ValueError as error:
                raise ValueError(f"kernel {name!r}: {error}") from error
        fitted.append(FittedKernel(name, function, columns))
    return fitted


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
    _fill(kernels, X, Y, None, out)
    return out


def pairs(kernels: Sequence[FittedKernel], X: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """k(X[i], X[j]) of each kernel -> (K, len(i)); X (n, d), positions i and j of the same length.

    Costs O(len(i) d) for a family on d columns. Callables give matrices only: 64 evaluations a pair.
    """
    X = as_float(X)
    out = np.empty((len(kernels), len(i)), dtype=X.dtype)
    _fill(kernels, X, None, (i, j), out)
    return out


def diagonals(kernels: Sequence[FittedKernel], X: np.ndarray) -> np.ndarray:
    """k(x, x) of each kernel for the rows of X (n, d) -> (K, n)."""
    every = np.arange(len(X))
    return pairs(kernels, X, every, every)


def _fill(
    kernels: Sequence[FittedKernel],
    X: np.ndarray,
    Y: np.ndarray | None,
    at: tuple[np.ndarray, np.ndarray] | None,
    out: np.ndarray,
) -> None:
    """Write kernel values into `out`: matrices (K, n, m), or with `at` those of pairs of rows of X (K, p)."""
    families: dict[Any, list[int]] = {}
    for k, kernel in enumerate(kernels):
        families.setdefault((kernel.columns, kernel.function.base or kernel.function), []).append(k)
    # Overflow may be right (a Gaussian of far rows is 0); where it is not, `check_values` refuses it by name.
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for *others, last in families.values():
            kernel, values = kernels[last], out[last]
            rows = kernel.select(X)
            if at is None:
                kernel.function.matrix(rows, None if Y is None else kernel.select(Y), values, kernel.name)
            else:
                values[...] = kernel.function.paired(rows[at[0]], rows[at[1]], kernel.name)
            # The last kernel of a family overwrites the base values.
            for k in others:
                kernels[k].function.apply(values, out=out[k])
            kernel.function.apply(values, out=values)
