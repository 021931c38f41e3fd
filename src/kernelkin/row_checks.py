"""What X must be to pass the door: rows of numbers, or a precomputed stack. Each failure names the column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    names = [*map(repr, names)] if names is not None else _positions(estimator, X)
    _refuse_what_is_no_number(X, names)
    try:
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # what does not fit into a float becomes infinite, and is refused as that
            checked = check_array(X, dtype=[np.float64, np.float32], estimator=estimator, input_name="X", **layout)
    except (TypeError, ValueError, OverflowError) as error:
        column = None if precomputed or issparse(X) else _culprit(X)
        if column is None and "X" in str(error):
            raise
        place = "X" if column is None else f"X, column {names[column]}"
        raise (TypeError if isinstance(error, TypeError) else ValueError)(f"{place}: {error}") from None
    if precomputed:
        return _check_stack(checked, fitting=fitting)
    check_size("X", checked, np.sqrt(np.finfo(checked.dtype).max) / 1e3, fitting=fitting)
    return checked


def _positions(estimator: Any, X: Any) -> list[str]:
    """The columns of an array without names, as its user counts them: with the column of tasks that was taken out."""
    count = 0 if issparse(X) or np.ndim(X) != 2 else np.shape(X)[1]
    taken = estimator.task_column
    positions = [*range(count + (taken is not None))]
    if taken is not None:
        del positions[int(taken)]
    return [*map(str, positions)]


def _refuse_what_is_no_number(X: Any, names: Sequence[str]) -> None:
    """Dates and categories, which would be cast to numbers in silence."""
    if not hasattr(X, "iloc"):
        array = None if issparse(X) else as_array(X, "X")
        if array is not None and array.dtype.kind in "mM":
            raise TypeError(f"X holds dates or times ({array.dtype}), not numbers")
        if array is None or array.ndim != 2 or array.dtype.kind != "O":
            return
    for name, column in zip(names, _columns(X), strict=True):
        dtype = getattr(column, "dtype", None)
        kind = _KINDS.get(type(dtype).__name__) or ("dates or times" if dates_in(column) else None)
        if kind is not None:
            raise TypeError(f"X, column {name} holds {kind} ({dtype}), not numbers")


def _culprit(X: Any) -> int | None:
    """The first column that does not become finite numbers."""
    if np.iscomplexobj(X):
        return None  # all of them
    for k, column in enumerate(_columns(X)):
        try:
            with np.errstate(over="ignore"):
                finite = np.isfinite(np.asarray(column, dtype=np.float64)).all()
        except (TypeError, ValueError, OverflowError):
            return k
        if not finite:
            return k
    return None


def _columns(X: Any) -> Iterator[Any]:
    if hasattr(X, "iloc"):
        return (X.iloc[:, k] for k in range(X.shape[1]))
    array = as_array(X, "X")
    return iter(array.T if array.ndim == 2 else ())


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
