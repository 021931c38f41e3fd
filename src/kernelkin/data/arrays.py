"""Anything a user may pass for an array, as an array of NumPy. Each failure names the argument."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, time, timedelta
from typing import Any

import numpy as np

from .tables import Table, as_table, column_array, is_column, no_numbers

_TIMES = (np.datetime64, np.timedelta64, date, time, timedelta)


def as_array(values: Any, name: str) -> np.ndarray:
    """Lists, arrays, tensors, columns and data frames as an array; `name` is what errors call it.

    NumPy alone would write numbers, and NaN, that stand beside text in a list as text, and would drop NUL characters
    at the end of text: such lists become arrays of objects.
    """
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(f"{name} has masked values: fill them in, or leave them out")
    table = as_table(values, name)
    if table is not None:
        return stack_columns(table, name)
    if hasattr(values, "detach"):
        values = _from_tensor(values, name)
    try:
        array = column_array(values) if is_column(values) else np.asarray(values)
        if array.dtype.kind == "T" or (array.dtype.kind in "US" and not hasattr(values, "dtype")):
            return np.asarray(values, dtype=object)
    except (TypeError, ValueError, RuntimeError) as error:
        raise (TypeError if isinstance(error, TypeError) else ValueError)(f"{name} is not an array: {error}") from None
    return array


def _from_tensor(tensor: Any, name: str) -> np.ndarray:
    """A tensor of PyTorch, whatever it is used for there; types that NumPy does not have become float64."""
    if "sparse" in str(tensor.layout):
        raise TypeError(f"Sparse data was passed for {name}, but dense data is required: use {name}.to_dense()")
    try:
        tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
        return tensor.double().numpy() if "float8" in str(tensor.dtype) or "bf" in str(tensor.dtype) else tensor.numpy()
    except (TypeError, RuntimeError, NotImplementedError) as error:
        raise TypeError(f"{name} is not an array: {error}") from None


def stack_columns(table: Table, name: str) -> np.ndarray:
    """The columns of a table as one array (n, d): of their common type if all are numbers, otherwise of objects."""
    for column, values, type_name in zip(table.names, table.columns, table.types, strict=True):
        if values.ndim != 1:
            raise TypeError(f"{name}, column {column!r} holds {no_numbers(type_name) or 'lists'} ({type_name})")
    kinds = {values.dtype.kind for values in table.columns}
    if len(kinds) == 1 or kinds <= set("iuf"):
        return np.stack(table.columns, axis=1)
    return np.stack([values.astype(object) for values in table.columns], axis=1) if kinds else np.empty((0, 0))


def holds_dates(values: np.ndarray) -> bool:
    """Whether an array holds dates or times, which NumPy may turn into numbers without a warning."""
    if values.dtype.kind != "O":
        return values.dtype.kind in "mM"
    return any(issubclass(kind, _TIMES) for kind in set(map(type, values.flat)))


def missing(values: np.ndarray) -> np.ndarray:
    """Which values are NaN, NaT, None or pandas.NA."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    if values.dtype.kind == "O":
        return np.array([_is_missing(value) for value in values.ravel()], dtype=bool).reshape(values.shape)
    return np.zeros(values.shape, dtype=bool)


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # pandas.NA has no truth value, nor have arrays
        return not hasattr(value, "__len__")


def plain(values: np.ndarray) -> np.ndarray:
    """An array of objects as one of numbers or text, if all its values are; other arrays as they are."""
    return np.array(values.tolist()) if values.dtype.kind == "O" else values


def types_in(values: np.ndarray) -> set[type]:
    """The Python types of the values; all kinds of text count as str."""
    return {str if isinstance(value, str) else type(value) for value in values.tolist()}


def type_names(types: set[type]) -> str:
    return ", ".join(sorted(kind.__name__ for kind in types))


def check_trailing_nul(values: np.ndarray, what: str) -> None:
    """Refuse text that ends in a NUL character: NumPy drops it, so that two different labels would become one."""
    for value in values.ravel() if values.dtype.kind == "O" else ():
        if isinstance(value, str) and value.endswith("\0"):
            raise ValueError(f"{what} {value!r} ends in a NUL character, which NumPy would drop: rename it")


def check_rounding(values: Any, array: np.ndarray, name: str) -> None:
    """Refuse lists of labels whose integers became floats that are other numbers: two labels would become one."""
    if array.dtype.kind == "f" and isinstance(values, list | tuple):
        for value in np.array(values, dtype=object).flat:
            if isinstance(value, int) and int(float(value)) != value:
                raise ValueError(f"{name} has integers beside floats, and {value!r} is no float: use text, or one type")


@contextmanager
def named(name: str) -> Iterator[None]:
    """Errors of arrays that cannot be turned into numbers say which array it was."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        if name in str(error):
            raise
        raise (TypeError if isinstance(error, TypeError) else ValueError)(f"{name}: {error}") from None


def check_size(name: str, values: np.ndarray, limit: float, *, fitting: bool) -> None:
    """Refuse numbers so large that a fit would overflow or, while fitting, all so small that their squares vanish."""
    largest = max(float(values.max()), -float(values.min()))
    if largest > limit:
        raise ValueError(f"{name} has values of size {largest:.3g}; above {limit:.3g} a fit overflows: rescale {name}")
    least = 1e3 * float(np.sqrt(np.finfo(values.dtype).tiny))
    if fitting and 0 < largest < least:
        raise ValueError(
            f"{name} has no value above {largest:.3g} in size; below {least:.3g} their squares vanish: rescale {name}"
        )


def check_lengths(X: np.ndarray, **others: Any) -> None:
    """Refuse arrays, given by name, that have not one item for each row of X."""
    for name, values in others.items():
        if values is not None and len(values) != len(X):
            raise ValueError(f"X has {len(X)} rows, but {name} has {len(values)}")


def listing(labels: Sequence[Any] | np.ndarray, at_most: int = 8) -> str:
    """`'a', 'b', 'c', ... (19 in all)`: names for a message, however many there are."""
    items = [repr(label) for label in (labels.tolist() if isinstance(labels, np.ndarray) else labels)]
    if len(items) <= at_most:
        return ", ".join(items)
    return ", ".join(items[:at_most]) + f", ... ({len(items)} in all)"
