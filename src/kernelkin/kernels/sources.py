"""Kernels on groups of columns: named by the user, found in the training data, or of one origin in a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np

from ..data.forms import TaskData
from .families import gaussian_kernels, linear_kernels, resolve_kernels
from .kernel import Kernel

# Maximum number of groups of columns.
MAX_GROUPS = 50
# Columns whose absolute correlation is above this form a block.
CORRELATED = 0.8
# Maximum number of columns for which all pairwise correlations are computed.
MAX_PAIRED = 1000

Origins = Sequence[tuple[str, str]]


def named_groups(groups: Mapping[str, Any]) -> list[Kernel]:
    return [
        Kernel(f"{name}: {kernel.name}", kernel.function, columns)
        for name, columns in groups.items()
        for kernel in (*gaussian_kernels((0.5, 1.0, 2.0)), *linear_kernels())
    ]


def group_kernels(data: TaskData) -> list[Kernel]:
    """Return a Gaussian kernel for each group of columns found in the data."""
    rows = np.flatnonzero(data.sample_weight > 0)
    groups = column_groups(np.asarray(data.X[rows], dtype=np.float64), MAX_GROUPS, data.feature_origins)
    if len(groups) == 1 and len(groups[0]) == data.X.shape[1]:
        return []  # the default kernels already use all columns
    (kernel,) = gaussian_kernels(1.0)
    names = [group_name(group, data.feature_names, data.feature_origins) for group in groups]
    named = zip(names, groups, strict=True)
    return [Kernel(f"{kernel.name}[{name}]", kernel.function, group) for name, group in named]


def on_encoded_columns(kernels: Sequence[Kernel], origins: Origins) -> list[Kernel]:
    """Replace names of table columns by the positions of the features encoded from them.

    A per-feature kernel becomes one kernel for each group of features of the same origin.
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
    """Raise if `kernels` gives columns by position: encoding a table changes positions."""
    if kernels is None or isinstance(kernels, str):
        return
    columns: Any = kernels.values() if isinstance(kernels, Mapping) else [k.columns for k in resolve_kernels(kernels)]
    for given in columns:
        items = [given] if given is None or isinstance(given, str | slice | Integral) else list(given)
        if any(isinstance(item, slice | Integral) for item in items):
            raise ValueError("kernels: give columns of a table by name, not by position")


def column_groups(X: np.ndarray, max_groups: int, origins: Origins | None = None) -> list[tuple[int, ...]]:
    """Return at most `max_groups` groups of columns of X (n, d); constant columns are left out.

    Columns of the same origin form a group. Without origins, the indicator columns of a category form a group. Every
    other column is its own group. If there are too many groups, correlated columns are merged; otherwise blocks of
    correlated columns are added as further groups.
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
    """Return runs of adjacent 0/1 columns in which exactly one column is 1 in every row."""
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
    """Cluster columns by average linkage of 1 - |correlation|: into `count` groups, or blocks above `CORRELATED`.

    If there are more than `MAX_PAIRED` columns, only that many, equally spaced, are clustered. Each other column joins
    the group of the clustered column it is most correlated with.
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
    """Return a name for a group of columns: their names, their common prefix, or the first name and a count.

    Columns of an encoded table are named by their origin: "day", "date (season)".
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
