"""Kernels on the columns of an encoded table, which are named as in the table before it was encoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .base import Kernel
from .groups import Origins, origin_name


def on_encoded_columns(kernels: Sequence[Kernel], origins: Origins | None) -> list[Kernel]:
    """Replace the names of columns of a table by the positions of the features that were made from them.

    A kernel for each feature becomes one for each group of features of the same origin. `origins` None stands for rows
    that were not encoded, on which kernels stay as they are.
    """
    if origins is None:
        return list(kernels)
    places: dict[str, list[int]] = {}
    groups: dict[str, list[int]] = {}
    for position, (column, part) in enumerate(origins):
        places.setdefault(column, []).append(position)
        groups.setdefault(origin_name(column, part), []).append(position)
    return [found for kernel in kernels for found in _on_features(kernel, places, groups)]


def _on_features(kernel: Kernel, places: dict[str, list[int]], groups: dict[str, list[int]]) -> list[Kernel]:
    columns: Any = kernel.columns
    if isinstance(columns, tuple):
        columns = tuple(p for c in columns for p in (places.get(c, [c]) if isinstance(c, str) else [c]))
        kernel = replace(kernel, columns=columns)
    if not kernel.per_feature or isinstance(columns, slice):
        return [kernel]
    wanted = None if columns is None else set(columns)
    return [
        Kernel(f"{kernel.name}[{name}]", kernel.function, tuple(positions))
        for name, positions in groups.items()
        if wanted is None or wanted.issuperset(positions)
    ]
