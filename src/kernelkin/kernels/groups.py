"""Columns that belong together: indicators of one category, and columns that are highly correlated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# Columns whose correlation is above this in size are a block.
CORRELATED = 0.8


Origins = Sequence[tuple[str, str]]


def column_groups(X: np.ndarray, max_groups: int, origins: Origins | None = None) -> list[tuple[int, ...]]:
    """Return groups of columns of X (n, d), at most `max_groups`; constant columns belong to none.

    Columns of the same origin, or without origins indicator columns of one category, are one group; every other column
    is one of its own. Where these are too many, columns are joined by correlation until they are few enough; otherwise
    blocks of correlated columns are added.
    """
    varying = np.flatnonzero(np.ptp(X, axis=0) > 0) if len(X) else np.arange(0)
    groups = _indicator_runs(X, varying) if origins is None else _of_one_origin(varying, origins)
    taken = {column for group in groups for column in group}
    single = [int(column) for column in varying if column not in taken]
    if len(groups) + len(single) > max_groups:
        return (groups + _joined(X, single, max(max_groups - len(groups), 1)))[:max_groups]
    groups += [(column,) for column in single]
    blocks = [block for block in _joined(X, single, None) if 1 < len(block) < len(varying)]
    return groups + blocks[: max_groups - len(groups)]


def _of_one_origin(varying: np.ndarray, origins: Origins) -> list[tuple[int, ...]]:
    """Return the groups of several columns that have the same origin."""
    members: dict[tuple[str, str], list[int]] = {}
    for column in varying.tolist():
        members.setdefault(origins[column], []).append(column)
    return [tuple(columns) for columns in members.values() if len(columns) > 1]


def _indicator_runs(X: np.ndarray, varying: np.ndarray) -> list[tuple[int, ...]]:
    """Return runs of neighbouring 0/1 columns of which exactly one is 1 in every row."""
    binary = [column for column in varying.tolist() if np.isin(X[:, column], (0.0, 1.0)).all()]
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
    """Join columns by average linkage of 1 - |correlation|: into `count` groups, or while they are correlated."""
    if len(columns) < 2:
        return [(column,) for column in columns]
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    distance = np.clip(1.0 - np.abs(np.corrcoef(X[:, columns], rowvar=False)), 0.0, None)
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(0.5 * (distance + distance.T), checks=False), "average")
    labels = fcluster(tree, 1.0 - CORRELATED, "distance") if count is None else fcluster(tree, count, "maxclust")
    members = [np.flatnonzero(labels == label).tolist() for label in dict.fromkeys(labels.tolist())]
    return [tuple(columns[i] for i in group) for group in members]


def group_name(group: Sequence[int], feature_names: Sequence[str] | None, origins: Origins | None = None) -> str:
    """Return a name for a group of columns: the column's own, what their names begin with, or their number.

    Columns of an encoded table are named by where they come from: "day", "date (season)".
    """
    if origins is not None:
        names = list(dict.fromkeys(origin_name(*origins[column]) for column in group))
        return ", ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} more"
    names = [str(column) if feature_names is None else feature_names[column] for column in group]
    if len(names) == 1:
        return names[0]
    prefix = _common_prefix(names).rstrip(" =:_-.") if feature_names is not None else ""
    if len(prefix) > 1:
        return prefix
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} and {len(names) - 1} more"


def origin_name(column: str, part: str) -> str:
    return f"{column} ({part})" if part else column


def _common_prefix(names: Sequence[str]) -> str:
    first, last = min(names), max(names)
    length = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[:length]
