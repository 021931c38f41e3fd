"""Validate rows, targets, weights and task labels. Error messages name the array, the column or the row."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Sequence
from datetime import date
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from ..exceptions import warn_user
from .arrays import Table, as_array, as_table, holds_dates, listing, missing, no_numbers, plain

# Advice for columns that are not numbers or have missing values.
ENCODE = "pass a data frame to KinRegressor or KinClassifier, or encode it with TableEncoder in a pipeline"
UNKNOWN = "New tasks need unknown_tasks='common' (and couplings='common', if not Kin), or Kin with task_features"
# Objectives and scores are quadratic in the targets; the sum of such squares does not overflow.
LARGEST = 1e150
# Above this value the penalty is lost in rounding: models interpolate noise or overflow.
LARGEST_WEIGHT = 1e30


def _named(name: str, error: object, text: object = None) -> Exception:
    """Return an error of the same type whose message begins with the name of the array, or with another text."""
    return (TypeError if isinstance(error, TypeError) else ValueError)(f"{name}: {error if text is None else text}")


def check_size(name: str, values: np.ndarray, limit: float, *, fitting: bool) -> None:
    """Raise if numbers are so large that a fit overflows or, when fitting, so small that all squares underflow."""
    largest = max(float(values.max()), -float(values.min()))
    if largest > limit:
        raise ValueError(f"{name} has values of size {largest:.3g}; above {limit:.3g} a fit overflows: rescale {name}")
    least = 1e3 * float(np.sqrt(np.finfo(values.dtype).tiny))
    if fitting and 0 < largest < least:
        raise ValueError(
            f"{name} has no value above {largest:.3g} in size; squares of numbers below {least:.3g} underflow: "
            f"rescale {name}"
        )


# Rows


def read_rows(X: Any) -> Any:
    """Return X as a `Table` if it is a data frame, otherwise as an array. `check_rows` refuses sparse X.

    A flat list raises the same error as in scikit-learn.
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
    """Return X (from `read_rows`) without the given column or columns, and their group labels by name.

    Columns are given by name or position; names take precedence. The first column holds the tasks.
    """
    columns = column if isinstance(column, list) else [column]
    if not columns:
        raise ValueError("task_column is an empty list")
    if isinstance(X, Table):
        names: Sequence[Any] = X.names
        found, has = X.columns, f"which has {listing(list(names))}"
    else:
        X = check_array(X, dtype=None, ensure_all_finite=False, allow_nd=True)
        names = range(X.shape[1]) if X.ndim == 2 else ()
        found, has = X.T, f"an array of shape {X.shape}"
    positions = []
    for name in columns:
        whole = isinstance(name, int | np.integer) and not isinstance(name, bool)
        if isinstance(name, Hashable) and not isinstance(name, bool) and name in names:
            positions.append(names.index(name))
        elif whole and -len(names) <= name < len(names):
            positions.append(int(name) % len(names))
        else:
            raise ValueError(f"task_column={name!r} is not a column of X, {has}")
        if found[positions[-1]].ndim != 1:
            words = no_numbers(X.types[positions[-1]])
            raise TypeError(f"X, column {names[positions[-1]]!r} holds {words}, not task labels")
    labels = {names[k]: check_labels(found[k]) for k in positions}
    if len(labels) < len(columns):
        raise ValueError(f"task_column={column!r} contains a column twice")
    rest = [k for k in range(len(names)) if k not in positions]
    return (X.select(rest) if isinstance(X, Table) else X[:, rest]), labels


def check_rows(X: Any, *, fitting: bool, precomputed: bool = False, task_column: Any = None) -> np.ndarray:
    """Return X (from `read_rows`, without task columns) as finite floats: rows, or a precomputed stack.

    float32 stays float32. Column numbers in errors count the task columns, as in the X of the user.
    """
    layout: dict[str, Any] = {"allow_nd": True} if precomputed else {"order": "C"}
    given = X
    if isinstance(X, Table) or (not issparse(X) and X.ndim == 2 and X.dtype.kind in "OUSmM"):
        labels = _column_labels(X, task_column)
        if not labels:
            raise ValueError("X has no columns of features")
        columns, types = (X.columns, X.types) if isinstance(X, Table) else (X.T, (str(X.dtype),) * X.shape[1])
        X = np.stack([_as_floats(*column) for column in zip(columns, types, labels, strict=True)], axis=1)
    try:
        # Values too large for a float become infinite, and are refused as infinite.
        with np.errstate(over="ignore", invalid="ignore"):
            checked = check_array(X, dtype=[np.float64, np.float32], input_name="X", **layout)
    except (TypeError, ValueError, OverflowError) as error:
        where = _not_finite(X, _column_labels(given, task_column))
        if where == "X" and "X" in str(error):
            raise
        # scikit-learn's advice about missing values, in the other lines, does not apply here.
        text = f"{error.args[0].splitlines()[0].rstrip('.')}: {ENCODE}" if "NaN" in str(error) else str(error)
        raise _named(where, error, text) from None
    if not precomputed:
        check_size("X", checked, np.sqrt(np.finfo(checked.dtype).max) / 1e3, fitting=fitting)
        return checked
    checked = checked[:, :, np.newaxis] if checked.ndim == 2 else checked
    if checked.ndim != 3:
        raise ValueError(f"a precomputed X has shape (n_query, n_train, n_kernels), not {checked.shape}")
    if fitting and checked.shape[0] != checked.shape[1]:
        raise ValueError(f"precomputed training Grams must be square, but X has shape {checked.shape}")
    return checked


def _column_labels(X: Any, task_column: Any) -> list[str]:
    """Return names for the columns of X in messages; positions count the task columns that were removed."""
    if isinstance(X, Table):
        return [f"X, column {name!r}" for name in X.names]
    if issparse(X) or X.ndim != 2:
        return []
    taken = [] if task_column is None else list(np.atleast_1d(task_column))
    total = X.shape[1] + len(taken)
    return [f"X, column {k}" for k in sorted(set(range(total)) - {int(k) % total for k in taken})]


def _as_floats(values: np.ndarray, type_name: str, label: str) -> np.ndarray:
    words = no_numbers(type_name) or ("dates or times" if holds_dates(values) else None)
    if words is not None:
        advice = f": {ENCODE}" if words in ("categories", "dates or times") else ""
        raise TypeError(f"{label} holds {words} ({type_name}), not numbers{advice}")
    if values.dtype.kind not in "OUS":
        return values
    try:
        absent = missing(values)
        return (np.where(absent, np.nan, values) if absent.any() else values).astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        advice = f": {ENCODE}" if "string to float" in str(error) else ""
        raise _named(label, error, f"{error}{advice}") from None


def _not_finite(X: Any, labels: Sequence[str]) -> str:
    """Return the name of the first column with a value that is not finite, or "X"."""
    if not labels or X.dtype.kind not in "fiub":
        return "X"
    with np.errstate(over="ignore"):
        finite = np.isfinite(X.astype(np.float64, copy=False)).all(axis=0)
    return "X" if finite.all() else labels[int(np.argmin(finite))]


def check_precomputed_queries(X: Any, rows: int, kernels: int) -> None:
    """Raise if X does not have the shape (n_query, n_train, n_kernels) of the fit."""
    shape = tuple(np.shape(X))
    if shape[1:] != (rows, kernels) and not (kernels == 1 and shape[1:] == (rows,)):
        raise ValueError(
            f"precomputed X must have shape (n_query, {rows}, {kernels}): {rows} training rows, {kernels} kernels; "
            f"got {shape}"
        )


# Targets and weights


def check_targets(y: Any, *, classification: bool, tasks_given: bool) -> np.ndarray:
    """Return y as (n,) or, for wide data, (n, T) with NaN (floats) or None (objects) for missing labels."""
    if issparse(y):
        raise TypeError("Sparse data was passed for y, but dense data is required: use y.toarray()")
    if isinstance(y, str):
        raise TypeError(f"y={y!r} is a string, not the target of each row: pass the column with this name")
    Y = as_array(y, "y")
    if Y.ndim not in (1, 2):
        raise ValueError(f"y must have shape (n,) or (n, n_tasks), not {Y.shape}")
    if Y.ndim == 2 and not Y.shape[1]:
        raise ValueError("y has no columns; every column must be a task")
    if Y.ndim == 2 and tasks_given:
        if Y.shape[1] != 1:
            raise ValueError(
                f"y has {Y.shape[1]} columns and the task of each row is given too: pass one target for each row, or "
                "leave out the tasks to make every column of y a task"
            )
        Y = column_or_1d(Y, warn=True)
    if not classification:
        return _check_reals(Y)
    return _check_classes(Y)


def _check_reals(Y: np.ndarray) -> np.ndarray:
    if holds_dates(Y):
        raise TypeError("y holds dates or times, not numbers")
    if Y.dtype.kind in "OUS":
        try:
            Y = np.where(missing(Y), np.nan, Y).astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(
                "Unknown label type: y holds text, not numbers. Maybe you are trying to fit a regressor, which "
                "expects real numbers on a classification target with discrete values."
            ) from None
    try:
        with np.errstate(over="ignore"):
            Y = check_array(Y, dtype=np.float64, ensure_2d=False, ensure_all_finite=False, input_name="y")
    except (TypeError, ValueError, OverflowError) as error:
        raise _named("y", error) from None
    absent = np.isnan(Y)
    _refuse_rows(np.isinf(Y), "infinity")
    _refuse_rows(absent & (Y.ndim == 1), "NaN")
    present = Y[~absent] if absent.any() else Y
    if present.size:
        check_size("y", present, LARGEST, fitting=True)
    return Y


def _check_classes(Y: np.ndarray) -> np.ndarray:
    absent = missing(Y)
    if Y.dtype.kind == "S" or (Y.dtype.kind == "O" and bytes in _types_in(Y.ravel())):
        raise TypeError("the classes in y are bytes: decode them to text")
    _refuse_rows(absent & (Y.ndim == 1), "NaN or None")
    if Y.dtype.kind == "f":
        _refuse_rows(np.isinf(Y), "infinity")
    for column, gone in zip(np.atleast_2d(Y.T), np.atleast_2d(absent.T), strict=True):
        present = column[~gone]
        if present.dtype.kind == "O" and str in (kinds := _types_in(present)) and len(kinds) > 1:
            raise ValueError(f"the classes in y are of mixed types: {_type_names(kinds)}")
        check_classification_targets(plain(present))
    return Y if Y.ndim == 2 else plain(Y)


def _refuse_rows(bad: np.ndarray, what: str, name: str = "y") -> None:
    """Raise if any target or label is bad, by the mask (n,) or (n, T); the error names the first such row."""
    if bad.any():
        rows = np.flatnonzero(bad.any(axis=1) if bad.ndim == 2 else bad)
        more = f", and {len(rows) - 1} more" if len(rows) > 1 else ""
        raise ValueError(f"Input {name} contains {what} in row {rows[0]}{more} (counted from 0): leave these rows out")


def check_weights(sample_weight: Any, X: np.ndarray) -> np.ndarray:
    """Return the weights of the rows of X as nonnegative floats (n,)."""
    weights = as_array(sample_weight, "sample_weight")
    if holds_dates(weights):
        raise TypeError("sample_weight holds dates or times, not numbers")
    if weights.dtype.kind == "O":
        weights = np.where(missing(weights), np.nan, weights)
    try:
        weights = _check_sample_weight(weights, X, dtype=np.float64, ensure_non_negative=True)
    except (TypeError, ValueError, OverflowError) as error:
        raise error if "sample_weight" in str(error) else _named("sample_weight", error) from None
    check_size("sample_weight", weights, LARGEST_WEIGHT, fitting=True)
    return weights


# Labels of tasks


def read_groupings(tasks: Any) -> dict[Any, np.ndarray]:
    """Return the task of each row, or groupings by name from the columns of a table, 2-d array or dict."""
    if isinstance(tasks, str):
        raise TypeError(
            f"tasks={tasks!r} is a string, not the task of each row: if a column of X holds the tasks, set "
            f"task_column={tasks!r} on the estimator"
        )
    columns: dict[Any, Any] = {}
    if (table := as_table(tasks, "tasks")) is not None:
        columns = dict(zip(table.names, table.columns, strict=True))
    elif (labels := as_array(tasks, "tasks")).ndim == 2 and labels.shape[1] > 1:
        columns = dict(enumerate(labels.T))
    if columns:
        return {name: check_labels(values, f"tasks, column {name!r}") for name, values in columns.items()}
    return {None: check_labels(tasks)}


def read_groups(X: Any, tasks: Any, column: Any = None) -> tuple[Any, dict[Any, np.ndarray]]:
    """Return X without the columns of groups, and groupings by name, that of the tasks first; none without tasks."""
    rows = read_rows(X)
    if column is None:
        return rows, {} if tasks is None else read_groupings(tasks)
    if tasks is not None:
        raise ValueError(f"the task of each row is given twice: by tasks= and by task_column={column!r}")
    return split_task_columns(rows, column)


def order_groupings(given: dict[Any, np.ndarray], names: Collection[Any]) -> list[np.ndarray]:
    """Return groupings in the order of the `names` of the fit; by position if there is one, or one has no names."""
    if set(given) == set(names):
        return [given[name] for name in names]
    if len(given) != len(names) or (len(names) > 1 and all(isinstance(name, str) for name in [*given, *names])):
        known, asked = (f"{len(own)} ({listing(list(own))})" if len(own) > 1 else "one" for own in (names, given))
        raise ValueError(f"groupings of rows: this model was fitted on {known}, but got {asked}")
    return list(given.values())


def first_labels(X: Any, tasks: Any, column: Any = None, name: Any = None) -> np.ndarray | None:
    """Return the group of each row (n,) in the grouping `name`, else in the first one; None without groups."""
    groups = read_groups(X, tasks, column)[1]
    return groups.get(name, next(iter(groups.values()), None))


def check_labels(tasks: Any, name: str = "tasks") -> np.ndarray:
    """Return the task of each row as a sortable 1-d array; whole floats become integers."""
    labels = as_array(tasks, name)
    if labels.size != len(np.atleast_1d(labels)) or not labels.ndim:
        raise ValueError(f"{name} must be one label for each row, not an array of shape {labels.shape}")
    labels = labels.ravel()
    if labels.dtype.kind == "f":
        _refuse_rows(~np.isfinite(labels), "NaN or infinity", name)
        whole = (labels == np.round(labels)).all() and (np.abs(labels) < 2**53).all()
        return labels.astype(np.int64) if whole else labels
    _refuse_rows(missing(labels), "a missing label", name)
    labels = _check_objects(labels) if labels.dtype.kind == "O" else labels
    return labels.astype("datetime64[us]") if labels.dtype.kind == "M" else labels


def check_task_names(names: tuple[Any, ...]) -> np.ndarray:
    """Return the column names of wide y, checked as task labels."""
    labels = np.empty(len(names), dtype=object)
    labels[:] = names
    if missing(labels).any() or tuple in _types_in(labels):
        raise ValueError(f"the columns of y must have one name each, which labels the task; got {listing(names)}")
    return plain(_check_objects(labels))


def _check_objects(labels: np.ndarray) -> np.ndarray:
    kinds = _types_in(labels)
    if kinds == {str}:
        return labels.astype(str)
    if all(isinstance(label, date) and getattr(label, "tzinfo", None) is None for label in labels):
        return labels.astype("datetime64[us]")
    if len(kinds) > 1 and not all(issubclass(kind, (int, float, np.number)) for kind in kinds):
        raise ValueError(f"task labels are of mixed types: {_type_names(kinds)}")
    try:
        sorted(labels.tolist())
    except TypeError:
        raise ValueError(f"task labels of type {_type_names(kinds)} cannot be sorted: use text or numbers") from None
    return labels


def encode_tasks(
    tasks: np.ndarray, known: np.ndarray, allow_unknown: bool = False, new: np.ndarray | None = None
) -> np.ndarray:
    """Return the positions of task labels in `known` followed by `new`; -1 for unknown ones, if these are allowed.

    The message about a label that differs from a known one only in type or writing, such as "1" and 1, names both.
    """
    index = {label: code for code, label in enumerate([*known.tolist(), *([] if new is None else new.tolist())])}
    codes = np.array([index.get(label, -1) for label in tasks.tolist()], dtype=np.intp)
    if (codes >= 0).all():
        return codes
    unknown = list(dict.fromkeys(tasks[codes < 0].tolist()))
    # Labels without what other programs change: spaces, case, leading zeros, ".0", and midnight.
    core = {x: re.sub(r"^[0\s]+|(\.0| 00:00:00)?\s*$", "", str(x)).casefold() for x in known.tolist() + unknown}
    same = {core[label]: label for label in known.tolist()}
    twins = [(label, same[core[label]]) for label in unknown if core[label] in same]
    types = ""
    if twins:
        (given, trained), (one, other) = twins[0], (type(label).__name__ for label in twins[0])
        types = f"Labels need the type and text of the fit: here {given!r} ({one}), in the fit {trained!r} ({other})"
    if not allow_unknown:
        raise ValueError(
            f"unknown task{'s' if len(unknown) > 1 else ''} {listing(unknown)}; this model knows {listing(known)}. "
            + (types or UNKNOWN)
        )
    if types:
        warn_user(f"{listing([label for label, _ in twins])} are predicted as new tasks. {types}", UserWarning)
    return codes


# Labels of tasks and classes


def _types_in(values: np.ndarray) -> set[type]:
    """Return the Python types of the values; all kinds of text count as str."""
    return {str if isinstance(value, str) else type(value) for value in values.tolist()}


def _type_names(types: set[type]) -> str:
    return ", ".join(sorted(kind.__name__ for kind in types))
