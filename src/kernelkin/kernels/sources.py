"""Where a model's kernels come from: a list, or kernels that are made from the training rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np

from ..data import TaskData
from .families import default_kernels, gaussian_kernels, linear_kernels, resolve_kernels
from .kernel import FittedKernel, GaussianKernel, Kernel, fit_kernels

# Kernels on groups of columns at most.
MAX_GROUPS = 50
# Columns whose correlation is above this in size are a block.
CORRELATED = 0.8
# Correlations between all pairs of columns are computed for so many columns at most.
MAX_PAIRED = 1000
# The ratio of the largest to the smallest standard deviation of columns above which a user is warned.
MAX_RATIO = 100.0

Origins = Sequence[tuple[str, str]]


def source_kernels(kernels: Any, data: TaskData) -> list[FittedKernel]:
    """Return the kernels that a user means by `kernels`, fitted on the training rows.

    Parameters
    ----------
    kernels : what `resolve_kernels` reads, mapping from names to columns, or "auto"
        The kernels; or named groups of columns, each with Gaussians of three widths and a linear kernel, beside the
        default kernels; or "auto", the default kernels and a Gaussian on each group of columns that is found.
    """
    if isinstance(kernels, Mapping):
        if not kernels:
            raise ValueError("kernels is an empty dict: name one group of columns at least")
        kernels = [*default_kernels(), *_named_groups(kernels)]
    elif isinstance(kernels, str) and kernels == "auto":
        kernels = [*default_kernels(), *_group_kernels(data)]
    found = resolve_kernels(kernels)
    if data.feature_origins is not None:
        found = on_encoded_columns(found, data.feature_origins)
    return fit_kernels(found, data.X, data.feature_names, data.sample_weight)


def _named_groups(groups: Mapping[str, Any]) -> list[Kernel]:
    return [
        Kernel(f"{name}: {kernel.name}", kernel.function, columns)
        for name, columns in groups.items()
        for kernel in (*gaussian_kernels((0.5, 1.0, 2.0)), *linear_kernels())
    ]


def _group_kernels(data: TaskData) -> list[Kernel]:
    """A Gaussian on each group of columns that is found in the data."""
    rows = np.flatnonzero(data.sample_weight > 0)
    groups = column_groups(np.asarray(data.X[rows], dtype=np.float64), MAX_GROUPS, data.feature_origins)
    if len(groups) == 1 and len(groups[0]) == data.X.shape[1]:
        return []  # the kernels on all columns are those
    (kernel,) = gaussian_kernels(1.0)
    names = [group_name(group, data.feature_names, data.feature_origins) for group in groups]
    named = zip(names, groups, strict=True)
    return [Kernel(f"{kernel.name}[{name}]", kernel.function, group) for name, group in named]


def on_encoded_columns(kernels: Sequence[Kernel], origins: Origins) -> list[Kernel]:
    """Replace the names of columns of a table by the positions of the features that were made from them.

    A kernel for each feature becomes one for each group of features of the same origin.
    """
    places: dict[str, list[int]] = {}
    groups: dict[str, list[int]] = {}
    for position, (column, part) in enumerate(origins):
        places.setdefault(column, []).append(position)
        groups.setdefault(_origin_name(column, part), []).append(position)
    found = []
    for kernel in kernels:
        columns: Any = kernel.columns
        if isinstance(columns, tuple):
            columns = tuple(p for c in columns for p in (places.get(c, [c]) if isinstance(c, str) else [c]))
            kernel = replace(kernel, columns=columns)
        if not kernel.per_feature or isinstance(columns, slice):
            found.append(kernel)
            continue
        found += [
            Kernel(f"{kernel.name}[{name}]", kernel.function, tuple(positions))
            for name, positions in groups.items()
            if columns is None or set(columns).issuperset(positions)
        ]
    return found


def refuse_positions(kernels: Any) -> None:
    """Refuse what a user passes as `kernels` where columns are given by position: encoding a table moves columns."""
    if kernels is None or isinstance(kernels, str):
        return
    columns: Any = kernels.values() if isinstance(kernels, Mapping) else [k.columns for k in resolve_kernels(kernels)]
    for given in columns:
        items = [given] if given is None or isinstance(given, str | slice | Integral) else list(given)
        if any(isinstance(item, slice | Integral) for item in items):
            raise ValueError("kernels: columns of a table are given by name, not by position")


def column_groups(X: np.ndarray, max_groups: int, origins: Origins | None = None) -> list[tuple[int, ...]]:
    """Return groups of columns of X (n, d), at most `max_groups`; constant columns belong to none.

    Columns of the same origin, or without origins indicator columns of one category, are one group; every other column
    is one of its own. Where these are too many, columns are joined by correlation until they are few enough; otherwise
    blocks of correlated columns are added.
    """
    varying = np.flatnonzero(np.ptp(X, axis=0) > 0) if len(X) else np.arange(0)
    if origins is None:
        groups = _indicator_runs(X, varying)
    else:
        members: dict[tuple[str, str], list[int]] = {}
        for column in varying.tolist():
            members.setdefault(origins[column], []).append(column)
        groups = [tuple(columns) for columns in members.values() if len(columns) > 1]
    taken = {column for group in groups for column in group}
    single = [column for column in varying.tolist() if column not in taken]
    if len(groups) + len(single) > max_groups:
        return (groups + _joined(X, single, max(max_groups - len(groups), 1)))[:max_groups]
    groups += [(column,) for column in single]
    blocks = [block for block in _joined(X, single, None) if 1 < len(block) < len(varying)]
    return groups + blocks[: max_groups - len(groups)]


def _indicator_runs(X: np.ndarray, varying: np.ndarray) -> list[tuple[int, ...]]:
    """Return runs of neighbouring 0/1 columns of which exactly one is 1 in every row."""
    binary = varying[((X[:, varying] == 0.0) | (X[:, varying] == 1.0)).all(axis=0)].tolist()
    runs, start = [], 0
    while start < len(binary):
        total = np.zeros(len(X))
        for end in range(start, len(binary)):
            if end > start and binary[end] != binary[end - 1] + 1:
                break
            total += X[:, binary[end]]
            if total.max() > 1:
                break
            if total.min() == 1 and end > start:
                runs.append(tuple(binary[start : end + 1]))
                start = end
                break
        start += 1
    return runs


def _joined(X: np.ndarray, columns: Sequence[int], count: int | None) -> list[tuple[int, ...]]:
    """Join columns by average linkage of 1 - |correlation|: into `count` groups, or while they are correlated.

    Of more than `MAX_PAIRED` columns, so many at equal distances are joined; each of the others goes to the group of
    the one that it is most correlated with. No matrix is larger than `MAX_PAIRED` times `MAX_PAIRED`.
    """
    if len(columns) < 2:
        return [(column,) for column in columns]
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    Z = X[:, columns] - X[:, columns].mean(axis=0)
    Z /= np.linalg.norm(Z, axis=0)
    leaders = np.unique(np.linspace(0, len(columns) - 1, min(len(columns), MAX_PAIRED)).astype(np.intp))
    L = Z[:, leaders]
    distance = np.clip(1.0 - np.abs(L.T @ L), 0.0, None)
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(0.5 * (distance + distance.T), checks=False), "average")
    labels = fcluster(tree, 1.0 - CORRELATED, "distance") if count is None else fcluster(tree, count, "maxclust")
    if len(leaders) < len(columns):
        blocks = (slice(start, start + MAX_PAIRED) for start in range(0, len(columns), MAX_PAIRED))
        labels = labels[np.concatenate([np.abs(Z[:, block].T @ L).argmax(axis=1) for block in blocks])]
    members = [np.flatnonzero(labels == label).tolist() for label in dict.fromkeys(labels.tolist())]
    return [tuple(columns[i] for i in group) for group in members]


def group_name(group: Sequence[int], feature_names: Sequence[str] | None, origins: Origins | None = None) -> str:
    """Return a name for a group of columns: the column's own, what their names begin with, or their number.

    Columns of an encoded table are named by where they come from: "day", "date (season)".
    """
    if origins is not None:
        names = list(dict.fromkeys(_origin_name(*origins[column]) for column in group))
    else:
        names = [str(column) if feature_names is None else feature_names[column] for column in group]
    if len(names) > 1 and origins is None and feature_names is not None:
        first, last = min(names), max(names)
        length = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
        prefix = first[:length].rstrip(" =:_-.")
        if len(prefix) > 1:
            return prefix
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} more"


def _origin_name(column: str, part: str) -> str:
    return f"{column} ({part})" if part else column


def spread_warnings(kernels: Sequence[FittedKernel] | None, data: TaskData) -> tuple[tuple[str, type[Warning]], ...]:
    """Return a warning where columns of very different spread enter one distance.

    Encoded tables are scaled already; what is narrow there is rare. Precomputed kernels (None) have no columns.
    """
    d = data.X.shape[1]
    if kernels is None or d < 2 or data.feature_origins is not None:
        return ()
    if not any(isinstance(k.function, GaussianKernel) and len(k.columns) == d for k in kernels):
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
        "that Gaussians on all columns depend on few of them: scale the columns (StandardScaler, TableEncoder), or fit "
        "KinRegressor or KinClassifier, which do"
    )
    return ((text, UserWarning),)
