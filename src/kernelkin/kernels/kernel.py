"""Kernel (specified by the user), FittedKernel (after fitting on training rows), and their evaluation."""

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
        Name in results and error messages, such as "rbf(0.5 x median)".
    function : KernelFunction
        The kernel function, such as GaussianKernel(0.5).
    columns : int, str, slice or list of them, default None
        The columns of X that the kernel uses, by position or by name. None: all.
    per_feature : bool, default False
        If True, `fit_kernels` makes one kernel per column, named "name[column]".

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
        X : array of shape (n, d)
        feature_names : sequence of length d, optional
        sample_weight : array of shape (n,), optional
        """
        if self.per_feature:
            raise ValueError(f"kernel {self.name!r} has per_feature=True: fit it with fit_kernels")
        return fit_kernels([self], X, feature_names, sample_weight)[0]


@dataclass(frozen=True)
class FittedKernel:
    """A fitted kernel: `function` evaluated on the `columns` (positions) of X."""

    name: str
    function: KernelFunction
    columns: tuple[int, ...]

    @property
    def known_psd(self) -> bool:
        """Whether its Gram matrices are positive semi-definite by theory."""
        return self.function.known_psd

    def select(self, X: np.ndarray) -> np.ndarray:
        """Return the columns of X (n, d) that the kernel uses; X itself if it uses all."""
        return X if self.columns == tuple(range(X.shape[1])) else X[:, self.columns]

    def __call__(self, X: np.ndarray, Y: np.ndarray | None = None) -> np.ndarray:
        """Return kernel values (n, m) between X (n, d) and Y (m, d), by default X."""
        return evaluate([self], X, Y)[0]


def _expand(kernel: Kernel, n_features: int, feature_names: Sequence[str] | None) -> list[tuple[str, tuple[int, ...]]]:
    """Return the name and column positions of each kernel that `kernel` expands to."""
    columns: Any = kernel.columns
    if columns is None:
        positions = tuple(range(n_features))
    elif isinstance(columns, slice):
        positions = tuple(range(*columns.indices(n_features)))
        if not positions:
            shown = label_columns(columns)
            raise ValueError(f"kernel {kernel.name!r}: {shown} selects none of the {n_features} columns of X")
    else:
        positions = tuple(_position(column, n_features, feature_names, kernel.name) for column in columns)
    if not kernel.per_feature:
        return [(kernel.name, positions)]
    labels = range(n_features) if feature_names is None else feature_names
    return [(f"{kernel.name}[{labels[p]}]", (p,)) for p in positions]


def freeze_columns(columns: Columns, kernel: str) -> tuple | slice:
    """Return columns as a slice of positions, or as a tuple of positions and names; `kernel` is for error messages."""
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
        raise ValueError(f"kernel {kernel!r}: columns must be positions, names or a slice of positions; found {found}")
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
    """Return a short suffix for kernel names: "[age]", "[0:5]", "[12 columns]"."""
    if isinstance(columns, slice):
        ends = ["" if end is None else str(end) for end in (columns.start, columns.stop, columns.step)]
        return f"[{':'.join(ends if columns.step is not None else ends[:2])}]"
    return f"[{', '.join(map(str, columns))}]" if len(columns) <= 3 else f"[{len(columns)} columns]"


def as_float(X: np.ndarray) -> np.ndarray:
    """Return X (n, d) as float32 or float64; other types become float64."""
    X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"kernels need a two-dimensional array of rows and columns; got shape {X.shape}")
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)


def fit_kernels(
    kernels: Sequence[Kernel],
    X: np.ndarray,
    feature_names: Sequence[str] | None = None,
    sample_weight: np.ndarray | None = None,
) -> list[FittedKernel]:
    """Expand per-feature kernels and fit all of them on the training rows X (n, d).

    `feature_names` (d,) are needed if columns are given by name. `sample_weight` (n,) are weights of rows in the
    median distance: weighting a row by 2 equals repeating it.
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
    """Return raw kernel matrices (K, n, m) between X (n, d) and Y (m, d), in the precision of X and Y.

    Y=None uses X, and matrices are then exactly symmetric (except those of callables). Apart from `out`, which must
    have the shape and dtype of the result, no array of the size of a matrix is allocated.
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
    """Return k(X[i], X[j]) of each kernel (K, len(i)); X (n, d), positions i and j of the same length.

    The cost is O(len(i) d) for kernels on d columns. Callables need 64 evaluations per pair.
    """
    X = as_float(X)
    out = np.empty((len(kernels), len(i)), dtype=X.dtype)
    _fill(kernels, X, None, (i, j), out)
    return out


def diagonals(kernels: Sequence[FittedKernel], X: np.ndarray) -> np.ndarray:
    """Return k(x, x) of each kernel for the rows of X (n, d): (K, n)."""
    every = np.arange(len(X))
    return pairs(kernels, X, every, every)


def _fill(
    kernels: Sequence[FittedKernel],
    X: np.ndarray,
    Y: np.ndarray | None,
    at: tuple[np.ndarray, np.ndarray] | None,
    out: np.ndarray,
) -> None:
    """Write kernel values into `out`: matrices (K, n, m), or values at pairs `at` of rows of X (K, p)."""
    families: dict[Any, list[int]] = {}
    for k, kernel in enumerate(kernels):
        families.setdefault((kernel.columns, kernel.function.base or kernel.function), []).append(k)
    # Overflow can be harmless (a Gaussian of distant rows is 0); otherwise `check_values` raises later.
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
