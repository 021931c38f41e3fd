"""Kernels: functions of pairs of rows, how a user specifies them, and how many are fitted and evaluated together.

A `KernelFunction` maps inner products or squared distances, which kernels of a family share. A `Kernel` is a function
with a name and columns; a `FittedKernel` has all that depends on training rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..data.arrays import listing
from .grams import mirror

if TYPE_CHECKING:
    from ..data.forms import TaskData

Columns = int | str | slice | Iterable[int] | Iterable[str] | None

# Warn if the largest standard deviation of a column is more than this many times the smallest.
MAX_RATIO = 100.0
# The median distance uses at most this many rows, because its time is more than linear.
MAX_ROWS = 1000


def median_distance(X: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """Return the weighted median of the non-zero distances between the rows of X (n, d); 1.0 if there are none.

    The pair (i, j) has weight ``w_i w_j``, so weighting a row by 2 equals repeating it. With more than 1000 rows of
    positive weight, only every (n // 1000 + 1)-th row is used.
    """
    from scipy.spatial.distance import pdist

    weight = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    kept = np.flatnonzero(weight > 0)
    kept = kept[:: len(kept) // MAX_ROWS + 1] if len(kept) > MAX_ROWS else kept
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


class KernelFunction:
    """An elementwise function of base values; immutable, compared by value.

    Base values are computed once for all kernels with the same columns and the same `base`. Functions with an empty
    `base` do not share base values. `known_psd` says whether Gram matrices are positive semi-definite by theory.
    `of_distances` says whether values depend on distances between rows, and so on the units of columns; `relative`,
    whether parameters are in units of the median distance of training rows.
    """

    base: ClassVar[str] = "inner products"
    known_psd: ClassVar[bool] = True
    of_distances: ClassVar[bool] = False
    relative: ClassVar[bool] = False

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

    def scaled(self, median: float) -> KernelFunction:
        """Return the function for rows with this median distance; called if the function is `relative`."""
        return self

    def n_features(self, d: int) -> float:
        """Return the number of features of rows with d columns whose inner products are the kernel, or infinity."""
        return np.inf

    def features(self, X: np.ndarray) -> np.ndarray:
        """Return these features of rows (n, d), if their number is finite."""
        raise NotImplementedError


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
        self, X: np.ndarray, feature_names: Sequence[str] | None = None, sample_weight: np.ndarray | None = None
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

    def __call__(self, X: np.ndarray, Y: np.ndarray | None = None) -> np.ndarray:
        """Return kernel values (n, m) between X (n, d) and Y (m, d), by default X."""
        return evaluate([self], X, Y)[0]


def _expand(kernel: Kernel, labels: Sequence[Any], places: dict[str, list[int]]) -> list[tuple[str, tuple[int, ...]]]:
    """Return the name and column positions of each kernel that `kernel` expands to.

    `labels` (d,) are the same for columns that per-feature kernels keep together, `places` the positions by name.
    """
    columns: Any = kernel.columns
    positions = list(range(len(labels)))
    if isinstance(columns, slice):
        positions = positions[columns]
        if not positions:
            shown = label_columns(columns)
            raise ValueError(f"kernel {kernel.name!r}: {shown} selects none of the {len(labels)} columns of X")
    elif columns is not None:
        positions = [p for column in columns for p in _positions(column, len(labels), places, kernel.name)]
    if not kernel.per_feature:
        return [(kernel.name, tuple(positions))]
    groups: dict[Any, list[int]] = {}
    for p in positions:
        groups.setdefault(labels[p], []).append(p)
    return [(f"{kernel.name}[{label}]", tuple(group)) for label, group in groups.items()]


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


def _positions(column: int | str, d: int, places: dict[str, list[int]], kernel: str) -> list[int]:
    if isinstance(column, str):
        if column not in places:
            known = f", which has {listing(list(places))}" if places else ", which has no column names"
            raise ValueError(f"kernel {kernel!r}: {column!r} is not a column of X{known}")
        return places[column]
    if not -d <= column < d:
        raise ValueError(f"kernel {kernel!r}: column {column} is out of range, X has {d} columns")
    return [column % d]


def label_columns(columns: Any) -> str:
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
    origins: Sequence[tuple[str, str]] | None = None,
) -> list[FittedKernel]:
    """Expand per-feature kernels and fit all of them on the training rows X (n, d).

    `feature_names` (d,) are needed if columns are given by name. `sample_weight` (n,) are weights of rows in the
    median distance: weighting a row by 2 equals repeating it. For an encoded table, `origins` (d,) are the column and
    part that each feature was made from: names are then those of the table's columns too, and a per-feature kernel
    becomes one kernel for all features of the same origin.
    """
    X = as_float(X)
    labels: Sequence[Any] = range(X.shape[1]) if feature_names is None else feature_names
    places = {name: [p] for p, name in enumerate(() if feature_names is None else feature_names)}
    if origins is not None:
        labels = [f"{column} ({part})" if part else column for column, part in origins]
        made: dict[str, list[int]] = {}
        for p, (column, _) in enumerate(origins):
            made.setdefault(column, []).append(p)
        places |= made
    found = [(kernel, *target) for kernel in kernels for target in _expand(kernel, labels, places)]
    for name, count in Counter(name for _, name, _ in found).items():
        if count > 1:
            raise ValueError(f"{count} kernels are named {name!r}: names must be unique")

    medians: dict[tuple[int, ...], float] = {}
    fitted = []
    for kernel, name, columns in found:
        function = kernel.function
        if function.relative:
            if columns not in medians:
                medians[columns] = median_distance(X[:, columns], sample_weight)
            try:
                function = function.scaled(medians[columns])
            except ValueError as error:
                raise ValueError(f"kernel {name!r}: {error}") from error
        fitted.append(FittedKernel(name, function, columns))
    return fitted


def fitting_bytes(kernels: Sequence[FittedKernel] | None, X: np.ndarray) -> int:
    """Bound the memory of `fit_kernels`: a copy of columns, and distances; 0 for precomputed kernels (None)."""
    has_distances = any(kernel.function.of_distances for kernel in kernels or ())
    return (0 if kernels is None else X.nbytes) + 40 * min(len(X), MAX_ROWS) ** 2 * has_distances


def evaluate(
    kernels: Sequence[FittedKernel],
    X: np.ndarray,
    Y: np.ndarray | None = None,
    at: tuple[np.ndarray, np.ndarray] | None = None,
) -> np.ndarray:
    """Return raw kernel matrices (K, n, m) between X (n, d) and Y (m, d), in the precision of X and Y.

    Y=None uses X, and matrices are then exactly symmetric (except those of callables). With positions `at`, both of
    length p, only the values (K, p) at these pairs of rows of X are computed, in O(p d) for kernels on d columns;
    callables need 64 evaluations per pair. No other array of the size of a matrix is allocated.
    """
    X, Y = as_float(X), None if Y is None else as_float(Y)
    shape = (len(X), len(X if Y is None else Y)) if at is None else (len(at[0]),)
    out = np.empty((len(kernels), *shape), dtype=X.dtype if Y is None else np.result_type(X, Y))
    families: dict[Any, list[int]] = {}
    every = tuple(range(X.shape[1]))
    for k, kernel in enumerate(kernels):
        families.setdefault((kernel.columns, kernel.function.base or kernel.function), []).append(k)
    # Overflow can be harmless (a Gaussian of distant rows is 0); otherwise `check_values` raises later.
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        for *others, last in families.values():
            kernel, values = kernels[last], out[last]
            # X itself, without a copy, if the kernel uses all columns.
            columns: Any = slice(None) if kernel.columns == every else kernel.columns
            rows = X[:, columns]
            if at is None:
                kernel.function.matrix(rows, None if Y is None else Y[:, columns], values, kernel.name)
            else:
                values[...] = kernel.function.paired(rows[at[0]], rows[at[1]], kernel.name)
            # The last kernel of a family overwrites the base values.
            for k in others:
                kernels[k].function.apply(values, out=out[k])
            kernel.function.apply(values, out=values)
    return out


def diagonals(kernels: Sequence[FittedKernel], X: np.ndarray) -> np.ndarray:
    """Return k(x, x) of each kernel for the rows of X (n, d): (K, n)."""
    every = np.arange(len(X))
    return evaluate(kernels, X, at=(every, every))


def spread_warnings(kernels: Sequence[FittedKernel] | None, data: TaskData) -> tuple[tuple[str, type[Warning]], ...]:
    """Return a warning if distances of rows combine columns of very different standard deviations.

    Encoded tables are already scaled, and precomputed kernels (None) have no columns.
    """
    d = data.X.shape[1]
    if kernels is None or d < 2 or data.feature_origins is not None:
        return ()
    if not any(k.function.of_distances and len(k.columns) == d for k in kernels):
        return ()
    spreads = np.asarray(data.X[data.sample_weight > 0], dtype=np.float64).std(axis=0)
    varying = np.flatnonzero(spreads > 0)
    if not len(varying):
        return ()
    wide, narrow = varying[spreads[varying].argmax()], varying[spreads[varying].argmin()]
    ratio = spreads[wide] / spreads[narrow]
    if not ratio > MAX_RATIO:
        return ()
    names = range(d) if data.feature_names is None else data.feature_names
    text = (
        f"the standard deviation of column {names[wide]!r} is {ratio:.3g} times that of column {names[narrow]!r}, so "
        "kernels of distances depend mostly on a few of them: scale the columns (StandardScaler, "
        "TableEncoder), or use KinRegressor or KinClassifier, which scale them"
    )
    return ((text, UserWarning),)
