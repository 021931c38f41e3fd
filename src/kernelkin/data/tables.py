"""Data frames of any library as named columns of NumPy arrays.

pandas, polars and Arrow tables (and what offers `to_pandas`) are recognised by their methods, because none of these
libraries is a dependency.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

# What a column holds that is neither a number nor text, by how the name of its type begins in pandas, polars or Arrow.
# NumPy would turn some of these into numbers without a warning.
_NO_NUMBERS = {
    r"categor|dictionary|enum": "categories",
    r"interval": "intervals",
    r"date|time|duration|period|month": "dates or times",
    r"sparse": "sparse values",
    r"(large_|fixed_size_)?(list|array)": "lists",
    r"struct|map": "records",
    r"(large_|fixed_size_)?binary": "bytes",
}


@dataclass(frozen=True)
class Table:
    """Named columns.

    Attributes
    ----------
    names : (d,) the names of the columns, text in most cases; unique.
    columns : d arrays (n,), or (n, m) for nested values.
    types : (d,) the type of each column as its library calls it.
    origins : (d,) of encoded tables, the column that each feature was made from and the part of it; None for others.
    """

    names: tuple[Any, ...]
    columns: tuple[np.ndarray, ...]
    types: tuple[str, ...]
    origins: tuple[tuple[str, str], ...] | None = None

    @property
    def n_rows(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_rows, len(self.names)

    def select(self, positions: Sequence[int]) -> Table:
        """Some of the columns."""
        names, types = tuple(self.names[k] for k in positions), tuple(self.types[k] for k in positions)
        origins = None if self.origins is None else tuple(self.origins[k] for k in positions)
        return Table(names, tuple(self.columns[k] for k in positions), types, origins)


def as_table(values: Any, name: str) -> Table | None:
    """A data frame as a `Table`; None where `values` is not a data frame. `name` is what errors call it."""
    if isinstance(values, Table):
        return values
    kind = type(values)
    if hasattr(kind, "columns") and not hasattr(kind, "__len__"):
        raise TypeError(f"{name} is a {kind.__name__}, whose rows are not in memory yet: collect them first")
    named = _named_columns(values)
    if named is None:
        return None
    names = tuple(names for names, _ in named)
    _check_unique(names, name)
    types = tuple(_type_of(column) for _, column in named)
    return Table(names, tuple(_column(*pair, name) for pair in named), types)


def _column(label: Any, column: Any, name: str) -> np.ndarray:
    try:
        return column_array(column)
    except Exception as error:  # of any library: polars has its own, for 128-bit integers say
        raise TypeError(f"{name}, column {label!r} ({_type_of(column)}) is not an array: {error}") from None


def column_array(column: Any) -> np.ndarray:
    """A column of pandas, polars or Arrow as an array; missing values are NaN, NaT, None or pandas.NA."""
    if hasattr(column, "combine_chunks"):  # `to_numpy` of several Arrow chunks loses missing categories
        column = column.combine_chunks()
    if hasattr(column, "dictionary_decode"):
        column = column.dictionary_decode()
    if hasattr(column, "to_pylist"):
        return column.to_numpy(zero_copy_only=False)
    return np.asarray(column.to_numpy())


def is_column(values: Any) -> bool:
    """Whether `values` is a column of pandas, polars or Arrow."""
    return hasattr(values, "to_numpy") and (hasattr(values, "to_pylist") or hasattr(values, "to_list"))


def no_numbers(type_name: str) -> str | None:
    """What a column of this type holds if neither numbers nor text: "categories", say."""
    return next((words for pattern, words in _NO_NUMBERS.items() if re.match(pattern, type_name, re.IGNORECASE)), None)


def _named_columns(values: Any) -> list[tuple[Any, Any]] | None:
    if hasattr(values, "iloc") and hasattr(values, "columns"):  # pandas
        return [(name, values.iloc[:, k]) for k, name in enumerate(values.columns)]
    if hasattr(values, "get_columns"):  # polars
        return [(column.name, column) for column in values.get_columns()]
    if hasattr(values, "column_names") and hasattr(values, "itercolumns"):  # Arrow
        return list(zip(values.column_names, values.itercolumns(), strict=True))
    if hasattr(values, "columns") and hasattr(values, "to_pandas"):
        return _named_columns(values.to_pandas())
    return None


def _type_of(column: Any) -> str:
    return str(getattr(column, "dtype", None) or column.type)


def _check_unique(names: tuple[Any, ...], name: str) -> None:
    for column, count in Counter(names).items():
        if count > 1:
            raise ValueError(f"{name} has the column {column!r} {'twice' if count == 2 else f'{count} times'}")
