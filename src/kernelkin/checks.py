"""What one array must be to pass the door: X, y and the labels of tasks. Each failure names the array."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

# Targets enter a fit to the fourth power (the bound squares what is quadratic in them): these just fit into a float.
LARGEST = 1e75


def as_array(values: Any, name: str) -> np.ndarray:
    """An array of what was given: NumPy alone would write numbers, and NaN, beside text in a list as text."""
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} is not an array: {error}") from None
    if array.dtype.kind in "US" and not hasattr(values, "dtype"):
        return np.asarray(values, dtype=object)
    return array


def check_dimensions(X: Any) -> None:
    """Refuse one row or one column passed as a flat list, in scikit-learn's words."""
    if not issparse(X) and not hasattr(X, "columns") and as_array(X, "X").ndim < 2:
        check_array(X, dtype=None)


def check_rows(estimator: Any, X: Any, *, fitting: bool) -> np.ndarray:
    """X as finite floats (float32 stays float32): rows, or a precomputed stack."""
    precomputed = estimator.__sklearn_tags__().input_tags.pairwise
    layout = {"allow_nd": True} if precomputed else {"order": "C"}
    try:
        X = check_array(X, dtype=[np.float64, np.float32], estimator=estimator, input_name="X", **layout)
    except (TypeError, ValueError) as error:
        if "X" in str(error):
            raise
        raise (TypeError if isinstance(error, TypeError) else ValueError)(f"X: {error}") from None
    if precomputed:
        return _check_stack(X, fitting=fitting)
    _check_size("X", X, np.sqrt(np.finfo(X.dtype).max) / 1e3, fitting=fitting)
    return X


def _check_stack(X: np.ndarray, *, fitting: bool) -> np.ndarray:
    if X.ndim == 2:
        X = X[:, :, np.newaxis]
    if X.ndim != 3:
        raise ValueError(f"a precomputed X has shape (n_query, n_train, n_kernels), not {X.shape}")
    if fitting and X.shape[0] != X.shape[1]:
        raise ValueError(f"precomputed training Grams must be square, but X has shape {X.shape}")
    return X


def _check_size(name: str, values: np.ndarray, limit: float, *, fitting: bool) -> None:
    """Refuse numbers so large that a fit would overflow or, while fitting, all so small that their squares vanish."""
    largest = max(float(values.max()), -float(values.min()))
    if largest > limit:
        raise ValueError(f"{name} has values of size {largest:.3g}; above {limit:.3g} a fit overflows: rescale {name}")
    least = 1e3 * float(np.sqrt(np.finfo(values.dtype).tiny))
    if fitting and 0 < largest < least:
        raise ValueError(
            f"{name} has no value above {largest:.3g} in size; below {least:.3g} their squares vanish: rescale {name}"
        )


def check_precomputed_queries(estimator: Any, X: Any) -> None:
    """Refuse kernel values that are not between some rows and the training rows, for each kernel of the fit."""
    rows, kernels = estimator.n_features_in_, len(estimator.kernel_names_)
    shape = np.shape(X)
    if shape[1:] != (rows, kernels) and not (kernels == 1 and shape[1:] == (rows,)):
        raise ValueError(
            f"precomputed X must have shape (n_query, {rows}, {kernels}): {rows} training rows, {kernels} kernels; "
            f"got {shape}"
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
    return _check_objects(labels) if labels.dtype.kind == "O" else labels


def _check_objects(labels: np.ndarray) -> np.ndarray:
    if missing(labels).any():
        raise ValueError(f"the task of row {int(np.argmax(missing(labels)))} is missing")
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
    if Y.ndim == 2 and tasks_given:
        if Y.shape[1] != 1:
            raise ValueError(
                f"y has {Y.shape[1]} columns and the task of each row is given too: pass one target for each row, or "
                "leave out the tasks to make every column of y a task"
            )
        Y = column_or_1d(Y, warn=True)
    return _check_classes(Y) if classification else _check_reals(Y)


def _check_reals(Y: np.ndarray) -> np.ndarray:
    if Y.dtype.kind in "OUS":
        try:
            Y = np.where(missing(Y), np.nan, Y).astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                "Unknown label type: y holds text, not numbers. Maybe you are trying to fit a regressor, which "
                "expects real numbers on a classification target with discrete values."
            ) from None
    finite: bool | Literal["allow-nan"] = "allow-nan" if Y.ndim == 2 else True
    Y = check_array(Y, dtype=np.float64, ensure_2d=False, ensure_all_finite=finite, input_name="y")
    present = Y[~np.isnan(Y)]
    if len(present):
        _check_size("y", present, LARGEST, fitting=True)
    return Y


def _check_classes(Y: np.ndarray) -> np.ndarray:
    absent = missing(Y)
    if (Y.ndim == 1 and absent.any()) or (Y.dtype.kind == "f" and np.isinf(Y).any()):
        raise ValueError("Input y contains NaN or infinity.")
    for column, gone in zip(np.atleast_2d(Y.T), np.atleast_2d(absent.T), strict=True):
        present = column[~gone]
        if present.dtype.kind == "O" and str in (kinds := _kinds(present)) and len(kinds) > 1:
            raise ValueError(f"the classes in y are of mixed types: {_names(kinds)}")
        check_classification_targets(plain(present))
    return Y if Y.ndim == 2 else plain(Y)


def missing(values: np.ndarray) -> np.ndarray:
    """Which values are NaN, None or pandas.NA."""
    if values.dtype.kind == "f":
        return np.isnan(values)
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
