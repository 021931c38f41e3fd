"""X: rows of numbers, or a stack of precomputed Gram matrices. Each failure names the column."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array

from .arrays import as_array, check_size, holds_dates, listing, missing
from .labels import check_labels
from .tables import Table, as_table, no_numbers

# What to do about columns that are no numbers, or have gaps.
ENCODE = "encode the table with TableEncoder in a pipeline, or fit KinRegressor or KinClassifier, which do so"


def read_rows(X: Any) -> Any:
    """X as a `Table`, if it is a data frame, or as an array; what is sparse is left to `check_rows` to refuse.

    One row or one column passed as a flat list is refused in scikit-learn's words.
    """
    if issparse(X):
        return X
    table = as_table(X, "X")
    if table is not None:
        return table
    array = as_array(X, "X")
    if array.ndim < 2:
        check_array(array, dtype=None)
    return array


def split_task_columns(X: Any, column: Any) -> tuple[Any, dict[Any, np.ndarray]]:
    """X (of `read_rows`) without a column, or a list of columns, and these by name as labels of groups.

    Columns are given by name or position; the first has the tasks.
    """
    columns = column if isinstance(column, list) else [column]
    if not columns:
        raise ValueError("task_column is an empty list")
    if isinstance(X, Table):
        positions = [_column_position(X.names, name) for name in columns]
        for position in positions:
            if X.columns[position].ndim != 1:
                words = no_numbers(X.types[position])
                raise TypeError(f"X, column {X.names[position]!r} holds {words}, not task labels")
        labels = {X.names[k]: check_labels(X.columns[k]) for k in positions}
        rest: Any = X.select([k for k in range(len(X.names)) if k not in positions])
    else:
        X = check_array(X, dtype=None, ensure_all_finite=False, allow_nd=True)
        for name in columns:
            if X.ndim != 2 or not _is_position(name, X.shape[1]):
                raise ValueError(f"task_column={name!r} is not a column of X, an array of shape {X.shape}")
        positions = [int(k) % X.shape[1] for k in columns]
        labels, rest = {k: check_labels(X[:, k]) for k in positions}, np.delete(X, positions, axis=1)
    if len(labels) < len(columns):
        raise ValueError(f"task_column={column!r} names one column twice")
    return rest, labels


def _is_position(column: Any, n_columns: int) -> bool:
    whole = isinstance(column, (int, np.integer)) and not isinstance(column, bool)
    return whole and -n_columns <= column < n_columns


def _column_position(names: Sequence[Any], column: Any) -> int:
    """Where the column is; a name goes before a position."""
    if isinstance(column, Hashable) and not isinstance(column, bool) and column in names:
        return names.index(column)
    if _is_position(column, len(names)):
        return int(column) % len(names)
    raise ValueError(f"task_column={column!r} is not a column of X, which has {listing(list(names))}")


def check_rows(X: Any, *, fitting: bool, precomputed: bool = False, task_column: Any = None) -> np.ndarray:
    """X (of `read_rows`, without tasks) as finite floats (float32 stays float32): rows, or a precomputed stack.

    Errors name columns as the user counts them, with the columns of tasks that were taken out.
    """
    layout = {"allow_nd": True} if precomputed else {"order": "C"}
    labels = _column_labels(X, task_column)
    if isinstance(X, Table):
        X = _columns_as_floats(X.columns, X.types, labels)
    elif not issparse(X) and X.ndim == 2 and X.dtype.kind in "OUS":
        X = _columns_as_floats(X.T, ["object"] * X.shape[1], labels)
    elif not issparse(X) and X.dtype.kind in "mM":
        raise TypeError(f"X holds dates or times ({X.dtype}), not numbers")
    try:
        # What does not fit into a float becomes infinite, and is refused as that.
        with np.errstate(over="ignore", invalid="ignore"):
            checked = check_array(X, dtype=[np.float64, np.float32], input_name="X", **layout)
    except (TypeError, ValueError, OverflowError) as error:
        where = _not_finite(X, labels)
        if where == "X" and "X" in str(error):
            raise
        # What scikit-learn advises about missing values in its further lines does not apply here.
        text = f"{error.args[0].splitlines()[0].rstrip('.')}: {ENCODE}" if "NaN" in str(error) else str(error)
        raise (TypeError if isinstance(error, TypeError) else ValueError)(f"{where}: {text}") from None
    if precomputed:
        return _check_stack(checked, fitting=fitting)
    check_size("X", checked, np.sqrt(np.finfo(checked.dtype).max) / 1e3, fitting=fitting)
    return checked


def _column_labels(X: Any, task_column: Any) -> list[str]:
    """How the user refers to the columns of X; positions count the columns of tasks, which were taken out."""
    if isinstance(X, Table):
        return [f"X, column {name!r}" for name in X.names]
    if issparse(X) or X.ndim != 2:
        return []
    taken = [] if task_column is None else list(np.atleast_1d(task_column))
    total = X.shape[1] + len(taken)
    positions = sorted(set(range(total)) - {int(k) % total for k in taken})
    return [f"X, column {k}" for k in positions]


def _columns_as_floats(columns: Sequence[np.ndarray], types: Sequence[str], labels: Sequence[str]) -> np.ndarray:
    """Columns (n,) of any type as one array (n, d) of numbers, or an error that names the column."""
    if not len(columns):
        raise ValueError("X has no columns of features")
    return np.stack([_as_floats(*column) for column in zip(columns, types, labels, strict=True)], axis=1)


def _as_floats(values: np.ndarray, type_name: str, label: str) -> np.ndarray:
    words = no_numbers(type_name) or ("dates or times" if holds_dates(values) else None)
    if words is not None:
        advice = f": {ENCODE}" if words in ("categories", "dates or times") else ""
        raise TypeError(f"{label} holds {words} ({type_name}), not numbers{advice}")
    if values.dtype.kind == "c":
        raise ValueError(f"{label}: Complex data not supported")
    if values.dtype.kind not in "OUS":
        return values
    try:
        absent = missing(values)
        return (np.where(absent, np.nan, values) if absent.any() else values).astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        advice = f": {ENCODE}" if "string to float" in str(error) else ""
        raise (TypeError if isinstance(error, TypeError) else ValueError)(f"{label}: {error}{advice}") from None


def _not_finite(X: Any, labels: Sequence[str]) -> str:
    """The first column that has a value which is not finite; "X" where there is none."""
    if not labels or X.dtype.kind not in "fiub":
        return "X"
    with np.errstate(over="ignore"):
        finite = np.isfinite(X.astype(np.float64, copy=False)).all(axis=0)
    return "X" if finite.all() else labels[int(np.argmin(finite))]


def _check_stack(X: np.ndarray, *, fitting: bool) -> np.ndarray:
    if X.ndim == 2:
        X = X[:, :, np.newaxis]
    if X.ndim != 3:
        raise ValueError(f"a precomputed X has shape (n_query, n_train, n_kernels), not {X.shape}")
    if fitting and X.shape[0] != X.shape[1]:
        raise ValueError(f"precomputed training Grams must be square, but X has shape {X.shape}")
    return X


def check_precomputed_queries(X: Any, rows: int, kernels: int) -> None:
    """Refuse kernel values that are not between some rows and the training rows, for each kernel of the fit."""
    shape = tuple(np.shape(X))
    if shape[1:] != (rows, kernels) and not (kernels == 1 and shape[1:] == (rows,)):
        raise ValueError(
            f"precomputed X must have shape (n_query, {rows}, {kernels}): {rows} training rows, {kernels} kernels; "
            f"got {shape}"
        )
