"""Kernel, as a user specifies it, and FittedKernel, with all that depends on training rows; many of them at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from numbers import Integral
from typing import Any

import numpy as np

from .functions import KernelFunction, median_distance

Columns = int | str | slice | Iterable[int] | Iterable[str] | None


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

    @property
    def known_psd(self) -> bool:
        """Whether theory says that its Gram matrices are positive semi-definite."""
        return self.function.known_psd

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

    @cache
    def median(columns: tuple[int, ...]) -> float:
        return median_distance(X[:, columns], sample_weight)

    fitted = []
    for kernel, name, columns in found:
        try:
            fitted.append(FittedKernel(name, kernel.function.fit(partial(median, columns)), columns))
        except ValueError as error:
            raise ValueError(f"kernel {name!r}: {error}") from error
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
