"""Kernels on the columns of an encoded table, which are named as in the table before it was encoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

from .base import Kernel
from .families import resolve_kernels
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


def refuse_positions(kernels: Any) -> None:
    """Refuse what a user passes as `kernels` where columns are given by position: encoding a table moves columns."""
    if kernels is None or isinstance(kernels, str):
        return
    columns: Any = kernels.values() if isinstance(kernels, Mapping) else [k.columns for k in resolve_kernels(kernels)]
    for given in columns:
        items = [given] if given is None or isinstance(given, str | slice | Integral) else list(given)
        if any(isinstance(item, slice | Integral) for item in items):
            raise ValueError("kernels: columns of a table are given by name, not by position")


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
