"""Convert arrays and tables passed by the user to NumPy arrays. Error messages name the argument.

Tables of pandas, polars and Arrow, and objects with a `to_pandas` method, are recognised by their methods, because none
of these libraries is a dependency.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, time, timedelta
from typing import Any

import numpy as np

_TIMES = (np.datetime64, np.timedelta64, date, time, timedelta)
# Column types that are neither numbers nor text, by the beginning of their name in pandas, polars or Arrow.
# NumPy would convert some of them to numbers without a warning.
_NO_NUMBERS = {
    r"categor|dictionary|enum": "categories",
    r"interval": "intervals",
    r"date|time|duration|period|month": "dates or times",
    r"sparse": "sparse values",
    r"(large_|fixed_size_)?(list|array)": "lists",
    r"struct|map": "records",
    r"(large_|fixed_size_)?binary": "bytes",
}

DICTS = "A dict holds columns of equal length; rows of several tasks are one array, with the task of each row as tasks="


@dataclass(frozen=True)
class Table:
    """Named columns."""

    names: tuple[Any, ...]  # (d,) the unique names of the columns, usually text
    columns: tuple[np.ndarray, ...]  # d arrays (n,), or (n, m) for nested values
    types: tuple[str, ...]  # (d,) the type of each column, as named by its library
    # (d,) for encoded tables, the source column and part of each feature; None for other tables.
    origins: tuple[tuple[str, str], ...] | None = None

    @property
    def n_rows(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_rows, len(self.names)

    def select(self, positions: Sequence[int]) -> Table:
        """Return a table with the columns at these positions."""
        names, types = tuple(self.names[k] for k in positions), tuple(self.types[k] for k in positions)
        origins = None if self.origins is None else tuple(self.origins[k] for k in positions)
        return Table(names, tuple(self.columns[k] for k in positions), types, origins)


def as_table(values: Any, name: str) -> Table | None:
    """Return a data frame or dict of columns as a `Table`; None for anything else. Errors refer to it as `name`."""
    if isinstance(values, Table):
        return values
    if isinstance(values, Mapping):
        arrays = {column: as_array(cells, f"column {column!r}") for column, cells in values.items()}
        shapes = {column: array.shape for column, array in arrays.items()}
        if len(set(shapes.values())) > 1 or any(len(shape) != 1 for shape in shapes.values()):
            raise ValueError(f"{name} is a dict with values of the shapes {shapes}. {DICTS}")
        return Table(tuple(arrays), tuple(arrays.values()), tuple(str(array.dtype) for array in arrays.values()))
    kind = type(values)
    if hasattr(kind, "columns") and not hasattr(kind, "__len__"):
        raise TypeError(f"{name} is a {kind.__name__}, whose rows are not in memory: collect them first")
    if hasattr(values, "iloc") and hasattr(values, "columns"):  # pandas
        named = list(values.items())
    elif hasattr(values, "get_columns"):  # polars
        named = [(column.name, column) for column in values.get_columns()]
    elif hasattr(values, "column_names") and hasattr(values, "itercolumns"):  # Arrow
        named = list(zip(values.column_names, values.itercolumns(), strict=True))
    elif hasattr(values, "columns") and hasattr(values, "to_pandas"):
        return as_table(values.to_pandas(), name)
    elif hasattr(values, "levels"):  # a pandas index of several levels
        return as_table(values.to_frame(index=False), name)
    else:
        return None
    for column, count in Counter(column for column, _ in named).items():
        if count > 1:
            raise ValueError(f"{name} has the column {column!r} {'twice' if count == 2 else f'{count} times'}")
    types = tuple(str(getattr(column, "dtype", None) or column.type) for _, column in named)
    return Table(tuple(label for label, _ in named), tuple(_column_array(column) for _, column in named), types)


def _column_array(column: Any) -> np.ndarray:
    """Return a column of pandas, polars or Arrow as an array; missing values are NaN, NaT, None or pandas.NA."""
    if hasattr(column, "combine_chunks"):  # `to_numpy` of several Arrow chunks loses missing categories
        column = column.combine_chunks()
    if hasattr(column, "dictionary_decode"):
        column = column.dictionary_decode()
    if re.search(r"tz=|time_zone='", str(getattr(column, "dtype", None) or column.type)):
        # Arrow and polars convert to UTC; pandas and these objects keep the local time.
        return np.array(column.to_pylist() if hasattr(column, "to_pylist") else column.to_list(), dtype=object)
    if hasattr(column, "to_pylist"):
        return column.to_numpy(zero_copy_only=False)
    return np.asarray(column.to_numpy())


def no_numbers(type_name: str) -> str | None:
    """Return what a column of this type holds, such as "categories"; None for numbers and text."""
    return next((words for pattern, words in _NO_NUMBERS.items() if re.match(pattern, type_name, re.IGNORECASE)), None)


def as_array(values: Any, name: str) -> np.ndarray:
    """Return a list, array, tensor, column or data frame as an array. Errors refer to it as `name`.

    NumPy would convert numbers and NaN in a list with text to text. Such lists become arrays of objects.
    """
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(f"{name} has masked values: fill them in or leave them out")
    table = as_table(values, name)
    if table is not None:
        return _stack_columns(table, name)
    if hasattr(values, "detach"):  # a PyTorch tensor; NumPy has no bfloat16
        tensor = values.detach().cpu()
        values = tensor.double() if "bfloat16" in str(tensor.dtype) else tensor
    is_column = hasattr(values, "to_numpy") and (hasattr(values, "to_pylist") or hasattr(values, "to_list"))
    try:
        array = _column_array(values) if is_column else np.asarray(values)
        if array.dtype.kind == "T" or (array.dtype.kind in "US" and not hasattr(values, "dtype")):
            return np.asarray(values, dtype=object)
    except (TypeError, ValueError, RuntimeError) as error:
        raise (TypeError if isinstance(error, TypeError) else ValueError)(f"{name} is not an array: {error}") from None
    return array


def _stack_columns(table: Table, name: str) -> np.ndarray:
    """Return the columns as one array (n, d): of their common type if all are numbers, otherwise of objects."""
    for column, values, type_name in zip(table.names, table.columns, table.types, strict=True):
        if values.ndim != 1:
            raise TypeError(f"{name}, column {column!r} holds {no_numbers(type_name) or 'lists'} ({type_name})")
    kinds = {values.dtype.kind for values in table.columns}
    if len(kinds) == 1 or kinds <= set("iuf"):
        return np.stack(table.columns, axis=1)
    return np.stack([values.astype(object) for values in table.columns], axis=1) if kinds else np.empty((0, 0))


def holds_dates(values: np.ndarray) -> bool:
    """Return whether an array holds dates or times, which NumPy may turn into numbers without a warning."""
    if values.dtype.kind != "O":
        return values.dtype.kind in "mM"
    return any(issubclass(kind, _TIMES) for kind in set(map(type, values.flat)))


def missing(values: np.ndarray) -> np.ndarray:
    """Return which values are NaN, NaT, None or pandas.NA."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    if values.dtype.kind == "O":
        return np.array([_is_missing(value) for value in values.ravel()], dtype=bool).reshape(values.shape)
    return np.zeros(values.shape, dtype=bool)


def _is_missing(value: Any) -> bool:
    try:
        return value is None or (not hasattr(value, "__len__") and bool(value != value))
    except (TypeError, ValueError):  # pandas.NA has no truth value
        return True


def plain(values: np.ndarray) -> np.ndarray:
    """Convert an array of objects to numbers or text if all its values are; return other arrays unchanged."""
    return np.array(values.tolist()) if values.dtype.kind == "O" else values


def check_lengths(X: np.ndarray, **others: Any) -> None:
    """Raise if an array, given by name, does not have one item for each row of X."""
    for name, values in others.items():
        if values is not None and len(values) != len(X):
            raise ValueError(f"X has {len(X)} rows, but {name} has {len(values)}")


def take_rows(X: Any, rows: np.ndarray) -> Any:
    """Return rows of a `Table` or an array."""
    return replace(X, columns=tuple(column[rows] for column in X.columns)) if isinstance(X, Table) else X[rows]


def shorten(labels: Iterable[Any], longest: int = 30) -> list[str]:
    """Return names, the long ones shortened to beginning and end, and to what differs between names with the same ends.

    >>> shorten(["The Grammar School of the Town of Little Snoring"])
    ['The Grammar Sc…Little Snoring']
    >>> shorten([f"District of the county, school {k} of the northern town" for k in (11, 12)])
    ['District of th…11 of…e northern town', 'District of th…12 of…e northern town']
    """
    texts, half, names = list(map(str, labels)), longest // 2 - 1, dict[str, str]()
    alike = defaultdict[tuple[str, ...], list[str]](list)
    for text in dict.fromkeys(texts):
        alike[(text,) if len(text) <= longest else (text[:half], text[-half - 1 :])].append(text)
    for (first, *last), own in alike.items():
        found = dict.fromkeys(own, "") if len(own) == 1 else _differences(own, longest // 5)
        names |= {text: "…".join([first + middle, *map(str.strip, last)]) for text, middle in found.items()}
    return [names[text] for text in texts]


def _differences(names: list[str], width: int) -> dict[str, str]:
    """Return for each name the parts of this width, each after "…", in which names with one beginning differ."""
    if len(names) == 1:
        return {names[0]: ""}
    differ = (k for k, letters in enumerate(zip(*names, strict=False)) if len(set(letters)) > 1)
    at = next(differ, min(map(len, names)))
    start, parts = max(at - width // 2, names[0].rfind(" ", 0, at) + 1), defaultdict[str, list[str]](list)
    for name in names:
        parts[name[start : start + width]].append(name)
    rest = {name: more for own in parts.values() for name, more in _differences(own, width).items()}
    return {name: f"…{name[start : start + width].strip()}{rest[name]}" for name in names}


def listing(labels: Sequence[Any] | np.ndarray, at_most: int = 8) -> str:
    """Return names for a message, shortened to `'a', 'b', 'c', ... (19 in all)` if there are many."""
    items = shorten(map(repr, labels.tolist() if isinstance(labels, np.ndarray) else labels), 80)
    if len(items) <= at_most:
        return ", ".join(items)
    return ", ".join(items[:at_most]) + f", ... ({len(items)} in all)"


def match_names(names: Sequence[Any], tasks: Sequence[Any], what: str) -> list[int]:
    """Return the position of each task among the names; raise if these are not the names of all tasks, each once."""
    asked, found = Counter(tasks), Counter(names)
    pairs = ("missing", asked - found), ("not a task, or given twice", found - asked)
    if faults := [f"{fault}: {listing(list(wrong))}" for fault, wrong in pairs if wrong]:
        raise ValueError(f"the {what} must be named by the tasks, each once; {'; '.join(faults)}")
    places = {name: k for k, name in enumerate(names)}
    return [places[task] for task in tasks]


def named_matrix(values: Any, tasks: Sequence[Any], name: str) -> np.ndarray:
    """Return a matrix between tasks as an array; the rows and columns of a data frame are put in their order."""
    table, matrix = as_table(values, name), as_array(values, name)
    if table is None:
        return matrix
    rows = values.index.tolist() if hasattr(values, "iloc") else table.names
    parts = (("rows", rows), ("columns", table.names))
    return matrix[np.ix_(*(match_names(names, tasks, f"{part} of {name}") for part, names in parts))]


def in_order(labels: np.ndarray) -> np.ndarray:
    """Return labels (n,) renumbered 0, 1, ... in the order of their first occurrence."""
    _, first, numbers = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[numbers]
