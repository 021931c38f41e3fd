"""The columns of a kernel: given by position or by name, resolved to positions when the kernel is fitted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np

Columns = int | str | slice | Iterable[int] | Iterable[str] | None


def freeze_columns(columns: Columns, kernel: str) -> tuple | slice | None:
    """The columns as given by a user -> None (all), a slice of positions, or a tuple of positions and names.

    `kernel` is the name for errors.
    """
    if columns is None:
        return None
    if isinstance(columns, slice):
        wrong = [end for end in (columns.start, columns.stop, columns.step) if not (end is None or _position(end))]
        frozen: tuple | slice = columns
    else:
        given: Any = [columns] if isinstance(columns, int | str) or _position(columns) else columns
        frozen = tuple(int(c) if _position(c) else c for c in given)
        wrong = [c for c in frozen if not (isinstance(c, str) or _position(c))]
    if wrong or frozen == ():
        found = repr(wrong[0]) if wrong else "none"
        raise ValueError(f"kernel {kernel!r}: columns are positions, names or a slice of positions; found {found}")
    return frozen


def _position(column: object) -> bool:
    return isinstance(column, Integral) and not isinstance(column, bool)


def resolve_columns(
    columns: tuple | slice | None, n_features: int, feature_names: Sequence[str] | None, kernel: str
) -> tuple[int, ...]:
    """Frozen columns -> positions in 0 .. n_features - 1; `kernel` is the name for errors."""
    if columns is None:
        return tuple(range(n_features))
    if isinstance(columns, slice):
        positions = tuple(range(*columns.indices(n_features)))
        if not positions:
            raise ValueError(f"kernel {kernel!r}: {label_columns(columns)} holds none of the {n_features} columns of X")
        return positions
    return tuple(_resolve_one(c, n_features, feature_names, kernel) for c in columns)


def _resolve_one(column: int | str, n_features: int, feature_names: Sequence[str] | None, kernel: str) -> int:
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


def label_columns(columns: tuple | slice | None) -> str:
    """A short suffix for the name of a kernel on these columns: "", "[age]", "[0:5]", "[12 columns]"."""
    if columns is None:
        return ""
    if isinstance(columns, slice):
        ends = ["" if end is None else str(end) for end in (columns.start, columns.stop, columns.step)]
        return f"[{':'.join(ends if columns.step is not None else ends[:2])}]"
    return f"[{', '.join(map(str, columns))}]" if len(columns) <= 3 else f"[{len(columns)} columns]"
