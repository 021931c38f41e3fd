"""One door for the three forms of multi-task data: long, wide, single.

Whatever a user passes leaves this module as a `TaskData`: the rows of X that each task uses, and its targets. No other
module tells the forms apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

Form = Literal["long", "wide", "single"]


@dataclass(frozen=True)
class TaskData:
    """Tasks over the rows of one array.

    Attributes
    ----------
    X : (n, d) rows, or (n, n, K) precomputed Gram matrices.
    rows : for each task, the rows of X it has a label for.
    y : for each task, its targets, in the order of `rows`.
    sample_weight : (n,) the weight of each row of X; rows of weight zero belong to no task.
    labels : (T,) the user's names of the tasks.
    form : how the data came, which decides the shape predictions go out in.
    """

    X: np.ndarray
    rows: tuple[np.ndarray, ...]
    y: tuple[np.ndarray, ...]
    sample_weight: np.ndarray
    labels: np.ndarray
    form: Form
    feature_names: tuple[str, ...] | None = None

    @property
    def n_tasks(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Queries:
    """Rows to predict. `codes` is each row's task (an index), or None where every task predicts every row."""

    X: np.ndarray
    codes: np.ndarray | None


def read_training(estimator: Any, X: Any, y: Any, tasks: Any, sample_weight: Any, *, classification: bool) -> TaskData:
    """Validate what `fit` was given. Sets `n_features_in_` and `feature_names_in_` on the estimator."""
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y is None."
        )
    _check_dimensions(X)
    validate_data(estimator, X, skip_check_array=True)
    X, tasks, names = _split_task_column(estimator, X, tasks)
    X = _check_rows(estimator, X, fitting=True)
    Y = _check_targets(y, classification=classification, tasks_given=tasks is not None)
    check_consistent_length(X, Y)
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    data = _wide(X, Y, weights, _column_names(y)) if Y.ndim == 2 else _long(X, Y, weights, tasks)
    data = replace(data, feature_names=names)
    _check_tasks(data, classification=classification)
    return data


def read_queries(estimator: Any, X: Any, tasks: Any) -> Queries:
    """Validate what `predict` was given against what `fit` has seen."""
    _check_dimensions(X)
    validate_data(estimator, X, skip_check_array=True, reset=False)
    X, tasks, _ = _split_task_column(estimator, X, tasks)
    X = _check_rows(estimator, X, fitting=False)
    known = estimator.tasks_
    if tasks is None:
        if estimator.data_form_ == "long" and len(known) > 1:
            raise ValueError(
                f"this model was fitted on {len(known)} tasks ({listing(known)}) and needs the task of each row: "
                "pass tasks=, or give the estimator a task_column"
            )
        every_task = estimator.data_form_ == "wide"
        return Queries(X, None if every_task else np.zeros(len(X), dtype=np.intp))
    check_consistent_length(X, tasks)
    return Queries(X, encode_tasks(tasks, known))


def encode_tasks(tasks: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Task labels -> their indices in `known`; an unknown label is an error that names it."""
    index = {label: code for code, label in enumerate(known.tolist())}
    try:
        return np.array([index[label] for label in tasks.tolist()], dtype=np.intp)
    except KeyError:
        unknown = list(dict.fromkeys(label for label in tasks.tolist() if label not in index))
        raise ValueError(
            f"unknown task{'s' if len(unknown) > 1 else ''} {listing(unknown)}; this model knows {listing(known)}"
        ) from None


def listing(labels: Sequence[Any] | np.ndarray, at_most: int = 8) -> str:
    """`'a', 'b', 'c', ... (19 in all)`: names for a message, however many there are."""
    items = [repr(label) for label in (labels.tolist() if isinstance(labels, np.ndarray) else labels)]
    if len(items) <= at_most:
        return ", ".join(items)
    return ", ".join(items[:at_most]) + f", ... ({len(items)} in all)"


def _check_dimensions(X: Any) -> None:
    """Refuse one row or one column passed as a flat list, in scikit-learn's words."""
    if not issparse(X) and not hasattr(X, "columns") and np.asarray(X).ndim < 2:
        check_array(X, dtype=None)


def _split_task_column(estimator: Any, X: Any, tasks: Any) -> tuple[Any, np.ndarray | None, tuple[str, ...] | None]:
    """Take the task of each row from `tasks` or from the column of X that `task_column` names."""
    column = estimator.task_column
    names = tuple(map(str, X.columns)) if hasattr(X, "columns") else None
    if column is None:
        return X, None if tasks is None else _check_labels(tasks), names
    if tasks is not None:
        raise ValueError(f"the task of each row is given twice: by tasks= and by task_column={column!r}")
    if hasattr(X, "columns"):
        position = _column_position(X, column)
        labels, X = X.iloc[:, position], X.drop(columns=X.columns[position])
        return X, _check_labels(labels), tuple(map(str, X.columns))
    X = np.asarray(X)
    if X.ndim != 2 or not isinstance(column, (int, np.integer)) or not -X.shape[1] <= column < X.shape[1]:
        raise ValueError(f"task_column={column!r} is not a column of X, an array of shape {X.shape}")
    return np.delete(X, column, axis=1), _check_labels(X[:, column]), None


def _column_position(X: Any, column: Any) -> int:
    if column in X.columns:
        return int(X.columns.get_loc(column))
    if isinstance(column, (int, np.integer)) and -X.shape[1] <= column < X.shape[1]:
        return int(column) % X.shape[1]
    raise ValueError(f"task_column={column!r} is not a column of X, which has {listing(list(X.columns))}")


def _check_labels(tasks: Any) -> np.ndarray:
    """Task labels as a 1-d array whose items sort and compare; whole floats become integers."""
    labels = column_or_1d(np.asarray(tasks))
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            raise ValueError("task labels contain NaN or infinity")
        return labels.astype(np.int64) if (labels == np.round(labels)).all() else labels
    if labels.dtype.kind == "O":
        if any(label is None or label != label for label in labels.tolist()):
            raise ValueError("task labels contain missing values")
        kinds = {str if isinstance(label, str) else type(label) for label in labels.tolist()}
        if kinds == {str}:
            return labels.astype(str)
        if len(kinds) > 1 and not all(issubclass(kind, (int, float, np.number)) for kind in kinds):
            raise ValueError(f"task labels are of mixed types: {', '.join(sorted(kind.__name__ for kind in kinds))}")
    return labels


def _check_rows(estimator: Any, X: Any, *, fitting: bool) -> np.ndarray:
    """X as finite floats (float32 stays float32): rows, or a precomputed stack."""
    if not estimator.__sklearn_tags__().input_tags.pairwise:
        return check_array(
            X, dtype=[np.float64, np.float32], order="C", estimator=estimator, input_name="X", accept_sparse=False
        )
    X = check_array(X, dtype=[np.float64, np.float32], allow_nd=True, estimator=estimator, input_name="X")
    if X.ndim == 2:
        X = X[:, :, np.newaxis]
    if X.ndim != 3:
        raise ValueError(f"a precomputed X has shape (n_query, n_train, n_kernels), not {X.shape}")
    if fitting and X.shape[0] != X.shape[1]:
        raise ValueError(f"precomputed training Grams must be square, but X has shape {X.shape}")
    return X


def _check_targets(y: Any, *, classification: bool, tasks_given: bool) -> np.ndarray:
    """y as (n,) or, for wide data, (n, T) with NaN (floats) or None (objects) where a label is missing."""
    Y = np.asarray(y)
    if Y.ndim == 2 and tasks_given:
        Y = column_or_1d(Y, warn=True)
    if Y.ndim not in (1, 2):
        raise ValueError(f"y must have shape (n,) or (n, n_tasks), not {Y.shape}")
    if classification:
        return _check_class_targets(Y)
    if Y.dtype.kind in "OUS":
        try:
            Y = Y.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                "Unknown label type: y holds text, not numbers. Maybe you are trying to fit a regressor, which "
                "expects real numbers on a classification target with discrete values."
            ) from None
    return check_array(
        Y, dtype=np.float64, ensure_2d=False, ensure_all_finite="allow-nan" if Y.ndim == 2 else True, input_name="y"
    )


def _check_class_targets(Y: np.ndarray) -> np.ndarray:
    if Y.dtype.kind == "f" and not np.isfinite(Y[~np.isnan(Y)] if Y.ndim == 2 else Y).all():
        raise ValueError("Input y contains NaN or infinity.")
    for column in np.atleast_2d(Y.T):
        check_classification_targets(column[~missing(column)] if Y.ndim == 2 else column)
    return Y


def missing(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind == "O":
        return np.array([value is None or value != value for value in values.tolist()], dtype=bool)
    return np.zeros(values.shape, dtype=bool)


def _column_names(y: Any) -> np.ndarray | None:
    return np.asarray(y.columns) if hasattr(y, "columns") else None


def _wide(X: np.ndarray, Y: np.ndarray, weights: np.ndarray, names: np.ndarray | None) -> TaskData:
    rows = tuple(np.flatnonzero(~missing(column) & (weights > 0)) for column in Y.T)
    return TaskData(
        X=X,
        rows=rows,
        y=tuple(_plain(column[kept]) for column, kept in zip(Y.T, rows, strict=True)),
        sample_weight=weights,
        labels=np.arange(Y.shape[1]) if names is None else names,
        form="wide",
    )


def _long(X: np.ndarray, y: np.ndarray, weights: np.ndarray, tasks: np.ndarray | None) -> TaskData:
    if tasks is None:
        labels, codes = np.array([0]), np.zeros(len(X), dtype=np.intp)
    else:
        check_consistent_length(X, tasks)
        labels, codes = np.unique(tasks, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(labels)))
    rows = tuple(part[weights[part] > 0] for part in np.split(order, ends[:-1]))
    return TaskData(
        X=X,
        rows=rows,
        y=tuple(y[kept] for kept in rows),
        sample_weight=weights,
        labels=labels,
        form="single" if tasks is None else "long",
    )


def _plain(values: np.ndarray) -> np.ndarray:
    """The labels of one wide column, without the float or object disguise that its missing ones forced on it."""
    if values.dtype.kind == "O":
        return np.array(values.tolist())
    return values


def _check_tasks(data: TaskData, *, classification: bool) -> None:
    for label, y in zip(data.labels.tolist(), data.y, strict=True):
        name = "the data" if data.form == "single" else f"task {label!r}"
        if len(y) < 2:
            amount = "one sample only (n_samples=1)" if len(y) else "no samples (n_samples=0)"
            raise ValueError(f"{name} has {amount} with a label and a positive weight; a task needs two or more")
        if classification and (y == y[0]).all():
            raise ValueError(f"{name} has one class only ({y[0]!r}); a classifier needs two or more")
