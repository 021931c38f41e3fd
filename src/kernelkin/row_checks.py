"""What X must be to pass the door: rows of numbers, or a precomputed stack. Each failure names the column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array

from .checks import as_array, check_size, dates_in

# Columns of pandas that are no numbers, by the class of their type; scikit-learn would take some of them for numbers.
_KINDS = {
    "CategoricalDtype": "categories",
    "PeriodDtype": "dates",
    "IntervalDtype": "intervals",
    "SparseDtype": "sparse values",
}


def check_form(X: Any) -> None:
    """Refuse one row or one column passed as a flat list, in scikit-learn's words, and a column named twice."""
    if hasattr(X, "columns"):
        names = list(X.columns)
        twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
        if twice is not None:
            raise ValueError(f"X has the column {twice!r} twice")
    elif not issparse(X) and as_array(X, "X").ndim < 2:
        check_array(X, dtype=None)


def check_rows(estimator: Any, X: Any, names: Sequence[str] | None, *, fitting: bool) -> np.ndarray:
    """X as finite floats (float32 stays float32): rows, whose columns have these names, or a precomputed stack."""
    precomputed = estimator.__sklearn_tags__().input_tags.pairwise
    layout = {"allow_nd": True} if precomputed else {"order": "C"}
    columns = _columns(X)
    for k, column in enumerate(columns):
        kind = _no_number(column)
        if kind is not None:
            raise TypeError(f"{_place(estimator, names, k)} holds {kind} ({column.dtype}), not numbers")
    try:
        # What does not fit into a float becomes infinite, and is refused as that.
        with np.errstate(over="ignore", invalid="ignore"):
            checked = check_array(X, dtype=[np.float64, np.float32], estimator=estimator, input_name="X", **layout)
    except (TypeError, ValueError, OverflowError) as error:
        culprit = next((k for k, column in enumerate(columns) if not _is_finite(column)), None)
        if culprit is None and "X" in str(error):
            raise
        place = "X" if culprit is None else _place(estimator, names, culprit)
        raise (TypeError if isinstance(error, TypeError) else ValueError)(f"{place}: {error}") from None
    if precomputed:
        return _check_stack(checked, fitting=fitting)
    check_size("X", checked, np.sqrt(np.finfo(checked.dtype).max) / 1e3, fitting=fitting)
    return checked


def _columns(X: Any) -> list[Any]:
    """The columns of X, each an array or a series; none where X is no table, or complex throughout."""
    if hasattr(X, "iloc"):
        return [X.iloc[:, k] for k in range(X.shape[1])]
    array = np.empty(0) if issparse(X) else as_array(X, "X")
    if array.dtype.kind in "mM":
        raise TypeError(f"X holds dates or times ({array.dtype}), not numbers")
    return list(array.T) if array.ndim == 2 and array.dtype.kind != "c" else []


def _place(estimator: Any, names: Sequence[str] | None, k: int) -> str:
    """Column k, as the user calls it: positions count the column of tasks, which was taken out."""
    if names is not None:
        return f"X, column {names[k]!r}"
    taken = estimator.task_column
    return f"X, column {k if taken is None else k + (k >= taken % estimator.n_features_in_)}"


def _no_number(column: Any) -> str | None:
    """What a column holds that would be cast to numbers in silence."""
    return _KINDS.get(type(column.dtype).__name__) or ("dates or times" if dates_in(column) else None)


def _is_finite(column: Any) -> bool:
    try:
        with np.errstate(over="ignore"):
            return bool(np.isfinite(np.asarray(column, dtype=np.float64)).all())
    except (TypeError, ValueError, OverflowError):
        return False


def _check_stack(X: np.ndarray, *, fitting: bool) -> np.ndarray:
    if X.ndim == 2:
        X = X[:, :, np.newaxis]
    if X.ndim != 3:
        raise ValueError(f"a precomputed X has shape (n_query, n_train, n_kernels), not {X.shape}")
    if fitting and X.shape[0] != X.shape[1]:
        raise ValueError(f"precomputed training Grams must be square, but X has shape {X.shape}")
    return X


def check_precomputed_queries(estimator: Any, X: Any) -> None:
    """Refuse kernel values that are not between some rows and the training rows, for each kernel of the fit."""
    rows, kernels = estimator.n_features_in_, len(estimator.kernel_names_)
    shape = np.shape(X)
    if shape[1:] != (rows, kernels) and not (kernels == 1 and shape[1:] == (rows,)):
        raise ValueError(
            f"precomputed X must have shape (n_query, {rows}, {kernels}): {rows} training rows, {kernels} kernels; "
            f"got {shape}"
        )
