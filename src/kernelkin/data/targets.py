"""Targets and weights of rows: what they must be. Each failure names the array."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from .arrays import (
    as_array,
    check_rounding,
    check_size,
    check_trailing_nul,
    holds_dates,
    missing,
    named,
    plain,
    type_names,
    types_in,
)

# Objectives and scores are quadratic in the targets, and these squares still have a sum.
LARGEST = 1e150
# Above, the penalty is lost in rounding: machines interpolate noise, or overflow.
LARGEST_WEIGHT = 1e30


def check_targets(y: Any, *, classification: bool, tasks_given: bool) -> np.ndarray:
    """y as (n,) or, for wide data, (n, T) with NaN (floats) or None (objects) where a label is missing."""
    if issparse(y):
        raise TypeError("Sparse data was passed for y, but dense data is required: use y.toarray()")
    Y = as_array(y, "y")
    if classification:
        check_rounding(y, Y, "y")
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
    if holds_dates(Y):
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
    with named("y"), np.errstate(over="ignore"):
        Y = check_array(Y, dtype=np.float64, ensure_2d=False, ensure_all_finite=False, input_name="y")
    _refuse_rows(np.isinf(Y), "infinity")
    _refuse_rows(np.isnan(Y) & (Y.ndim == 1), "NaN")
    absent = np.isnan(Y)
    present = Y[~absent] if absent.any() else Y
    if present.size:
        check_size("y", present, LARGEST, fitting=True)
    return Y


def _refuse_rows(bad: np.ndarray, what: str) -> None:
    """Refuse targets of which some (n,) or (n, T) are bad, with the first of their rows."""
    if bad.any():
        rows = np.flatnonzero(bad.any(axis=1) if bad.ndim == 2 else bad)
        more = f", and {len(rows) - 1} more" if len(rows) > 1 else ""
        raise ValueError(f"Input y contains {what} in row {rows[0]}{more} (counted from 0): leave these rows out")


def _check_classes(Y: np.ndarray) -> np.ndarray:
    absent = missing(Y)
    if Y.dtype.kind == "S" or (Y.dtype.kind == "O" and bytes in types_in(Y.ravel())):
        raise TypeError("the classes in y are bytes: decode them to text")
    _refuse_rows(absent & (Y.ndim == 1), "NaN or None")
    if Y.dtype.kind == "f":
        _refuse_rows(np.isinf(Y), "infinity")
    check_trailing_nul(Y, "class")
    for column, gone in zip(np.atleast_2d(Y.T), np.atleast_2d(absent.T), strict=True):
        present = column[~gone]
        if present.dtype.kind == "O" and str in (kinds := types_in(present)) and len(kinds) > 1:
            raise ValueError(f"the classes in y are of mixed types: {type_names(kinds)}")
        check_classification_targets(plain(present))
    return Y if Y.ndim == 2 else plain(Y)


def check_weights(sample_weight: Any, X: np.ndarray) -> np.ndarray:
    """Weights of the rows of X: (n,) floats that are not negative; ones where none are given."""
    if sample_weight is not None:
        sample_weight = as_array(sample_weight, "sample_weight")
        if holds_dates(sample_weight):
            raise TypeError("sample_weight holds dates or times, not numbers")
        if sample_weight.dtype.kind == "O":
            sample_weight = np.where(missing(sample_weight), np.nan, sample_weight)
    with named("sample_weight"):
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    check_size("sample_weight", weights, LARGEST_WEIGHT, fitting=True)
    return weights


def task_fault(name: str, y: np.ndarray, *, classification: bool) -> str | None:
    """Why targets y (n,) do not make a task, in words; None where they do."""
    if len(y) < 2:
        amount = "one sample only (n_samples=1)" if len(y) else "no samples (n_samples=0)"
        return f"{name} has {amount} with a label and a positive weight; a task needs two or more"
    if classification and (y == y[0]).all():
        return f"{name} has one class only ({y[0].item()!r}); a classifier needs two or more"
    return None
