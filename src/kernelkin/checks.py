"""What y, the weights of rows and the labels of tasks must be to pass the door. Each failure names the array."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

# Targets enter a fit to the fourth power (the bound squares what is quadratic in them): these just fit into a float.
LARGEST = 1e75


def as_array(values: Any, name: str) -> np.ndarray:
    """An array of what was given: NumPy alone would write numbers, and NaN, beside text in a list as text."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(f"{name} has masked values: fill them in, or leave them out")
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} is not an array: {error}") from None
    if array.dtype.kind in "US" and not hasattr(values, "dtype"):
        return np.asarray(values, dtype=object)
    return array


def dates_in(values: Any) -> bool:
    """Whether a column holds dates or times of NumPy, which turn into numbers unasked; other objects do not."""
    kind = getattr(getattr(values, "dtype", None), "kind", "O")
    if kind != "O":
        return kind in "mM"
    return any(issubclass(item, np.datetime64 | np.timedelta64) for item in set(map(type, np.asarray(values).flat)))


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


def check_labels(tasks: Any) -> np.ndarray:
    """Task labels as a 1-d array whose items sort and compare; whole floats become integers."""
    labels = as_array(tasks, "tasks")
    if labels.size != len(np.atleast_1d(labels)) or not labels.ndim:
        raise ValueError(f"tasks must be one label for each row, not an array of shape {labels.shape}")
    labels = labels.ravel()
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            raise ValueError(f"the task of row {int(np.argmin(np.isfinite(labels)))} is NaN or infinite")
        whole = (labels == np.round(labels)).all() and (np.abs(labels) < 2**53).all()
        return labels.astype(np.int64) if whole else labels
    if missing(labels).any():
        raise ValueError(f"the task of row {int(np.argmax(missing(labels)))} is missing")
    return _check_objects(labels) if labels.dtype.kind == "O" else labels


def _check_objects(labels: np.ndarray) -> np.ndarray:
    kinds = _kinds(labels)
    if kinds == {str}:
        return labels.astype(str)
    if len(kinds) > 1 and not all(issubclass(kind, (int, float, np.number)) for kind in kinds):
        raise ValueError(f"task labels are of mixed types: {_names(kinds)}")
    try:
        sorted(set(labels.tolist()))
    except TypeError:
        raise ValueError(f"task labels of type {_names(kinds)} cannot be sorted: use text or numbers") from None
    return labels


def _kinds(values: np.ndarray) -> set[type]:
    return {str if isinstance(value, str) else type(value) for value in values.tolist()}


def _names(kinds: set[type]) -> str:
    return ", ".join(sorted(kind.__name__ for kind in kinds))


def check_targets(y: Any, *, classification: bool, tasks_given: bool) -> np.ndarray:
    """y as (n,) or, for wide data, (n, T) with NaN (floats) or None (objects) where a label is missing."""
    if issparse(y):
        raise TypeError("Sparse data was passed for y, but dense data is required: use y.toarray()")
    Y = as_array(y, "y")
    if Y.ndim not in (1, 2):
        raise ValueError(f"y must have shape (n,) or (n, n_tasks), not {Y.shape}")
    if Y.ndim == 2 and not Y.shape[1]:
        raise ValueError("y has no columns, and every column is a task")
    if Y.ndim == 2 and tasks_given:
        if Y.shape[1] != 1:
            raise ValueError(
                f"y has {Y.shape[1]} columns and the task of each row is given too: pass one target for each row, or "
                "leave out the tasks to make every column of y a task"
            )
        Y = column_or_1d(Y, warn=True)
    return _check_classes(Y) if classification else _check_reals(Y)


def _check_reals(Y: np.ndarray) -> np.ndarray:
    if dates_in(Y):
        raise TypeError("y holds dates or times, not numbers")
    if Y.dtype.kind in "OUS":
        try:
            Y = np.where(missing(Y), np.nan, Y).astype(np.float64)
        except OverflowError as error:
            raise ValueError(f"y: {error}") from None
        except (TypeError, ValueError):
            raise ValueError(
                "Unknown label type: y holds text, not numbers. Maybe you are trying to fit a regressor, which "
                "expects real numbers on a classification target with discrete values."
            ) from None
    finite: bool | Literal["allow-nan"] = "allow-nan" if Y.ndim == 2 else True
    with named("y"), np.errstate(over="ignore"):
        Y = check_array(Y, dtype=np.float64, ensure_2d=False, ensure_all_finite=finite, input_name="y")
    present = Y[~np.isnan(Y)]
    if len(present):
        check_size("y", present, LARGEST, fitting=True)
    return Y


def _check_classes(Y: np.ndarray) -> np.ndarray:
    absent = missing(Y)
    if Y.dtype.kind == "S" or (Y.dtype.kind == "O" and bytes in _kinds(Y.ravel())):
        raise TypeError("the classes in y are bytes: decode them to text")
    if (Y.ndim == 1 and absent.any()) or (Y.dtype.kind == "f" and np.isinf(Y).any()):
        raise ValueError("Input y contains NaN or infinity.")
    for column, gone in zip(np.atleast_2d(Y.T), np.atleast_2d(absent.T), strict=True):
        present = column[~gone]
        if present.dtype.kind == "O" and str in (kinds := _kinds(present)) and len(kinds) > 1:
            raise ValueError(f"the classes in y are of mixed types: {_names(kinds)}")
        check_classification_targets(plain(present))
    return Y if Y.ndim == 2 else plain(Y)


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
    except TypeError:  # pandas.NA has no truth value
        return True


def plain(values: np.ndarray) -> np.ndarray:
    """Labels without the disguise as objects that pandas, or missing ones beside them, forced on them."""
    return np.array(values.tolist()) if values.dtype.kind == "O" else values


def check_weights(sample_weight: Any, X: np.ndarray) -> np.ndarray:
    """Weights of the rows of X: (n,) floats that are not negative; ones where none are given."""
    if sample_weight is not None and dates_in(as_array(sample_weight, "sample_weight")):
        raise TypeError("sample_weight holds dates or times, not numbers")
    with named("sample_weight"):
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    check_size("sample_weight", weights, np.inf, fitting=True)
    return weights
