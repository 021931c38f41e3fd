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
from sklearn.utils import check_array, column_or_1d
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

    def select(self, tasks: np.ndarray) -> TaskData:
        """Some of the tasks, by position; rows of other tasks weigh nothing any more."""
        rows = tuple(self.rows[t] for t in tasks)
        weight = np.zeros_like(self.sample_weight)
        used = slice(None) if self.form == "wide" else np.concatenate(rows)
        weight[used] = self.sample_weight[used]
        y = tuple(self.y[t] for t in tasks)
        return replace(self, rows=rows, y=y, labels=self.labels[tasks], sample_weight=weight)

    def take(self, kept: Sequence[np.ndarray]) -> TaskData:
        """Fewer rows: `kept` are positions within each task's rows. On wide data X loses the rows no task keeps."""
        rows = tuple(rows[part] for rows, part in zip(self.rows, kept, strict=True))
        y = tuple(y[part] for y, part in zip(self.y, kept, strict=True))
        if self.form != "wide":
            return replace(self, rows=rows, y=y)
        used = np.unique(np.concatenate(rows))
        X = self.X[np.ix_(used, used)] if self.X.ndim == 3 else self.X[used]
        rows = tuple(np.searchsorted(used, part) for part in rows)
        return replace(self, X=X, rows=rows, y=y, sample_weight=self.sample_weight[used])


@dataclass(frozen=True)
class Queries:
    """Rows to predict. `codes` is each row's task (an index), or None where every task predicts every row."""

    X: np.ndarray
    codes: np.ndarray | None


def read_training(estimator: Any, X: Any, y: Any, tasks: Any, sample_weight: Any, *, classification: bool) -> TaskData:
    """Validate what `fit` was given. Sets `n_features_in_` and `feature_names_in_` on the estimator."""
    data = read_piece(estimator, X, y, tasks, sample_weight, classification=classification)
    _check_tasks(data, classification=classification)
    return data


def read_piece(
    estimator: Any, X: Any, y: Any, tasks: Any, sample_weight: Any = None, *, classification: bool, first: bool = True
) -> TaskData:
    """As `read_training`, for a piece of a stream: tasks may have too few rows, and later pieces must fit the first."""
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y is None."
        )
    _check_dimensions(X)
    validate_data(estimator, X, skip_check_array=True, reset=first)
    X, tasks, names = _split_task_column(estimator, X, tasks)
    X = _check_rows(estimator, X, fitting=True)
    Y = _check_targets(y, classification=classification, tasks_given=tasks is not None)
    check_lengths(X, y=Y, tasks=tasks)
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    data = _wide(X, Y, weights, _column_names(y)) if Y.ndim == 2 else _long(X, Y, weights, tasks)
    return replace(data, feature_names=names)


def read_queries(estimator: Any, X: Any, tasks: Any, allow_unknown: bool = False) -> Queries:
    """Validate what `predict` was given against what `fit` has seen; unknown tasks, where allowed, have code -1."""
    _check_dimensions(X)
    if estimator.__sklearn_tags__().input_tags.pairwise:
        _check_precomputed_queries(estimator, X)
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
    check_lengths(X, tasks=tasks)
    if estimator.data_form_ == "single":
        raise ValueError("this model was fitted on one task, without tasks: leave them out here too")
    return Queries(X, encode_tasks(tasks, known, allow_unknown))


def encode_tasks(tasks: np.ndarray, known: np.ndarray, allow_unknown: bool = False) -> np.ndarray:
    """Task labels -> their indices in `known`; an unknown label is -1 if allowed, else an error that names it."""
    index = {label: code for code, label in enumerate(known.tolist())}
    codes = np.array([index.get(label, -1) for label in tasks.tolist()], dtype=np.intp)
    if not allow_unknown and (codes < 0).any():
        unknown = list(dict.fromkeys(tasks[codes < 0].tolist()))
        raise ValueError(
            f"unknown task{'s' if len(unknown) > 1 else ''} {listing(unknown)}; this model knows {listing(known)}. A "
            "model fitted with couplings='common' can predict tasks it has never seen: unknown_tasks='common'"
        )
    return codes


def listing(labels: Sequence[Any] | np.ndarray, at_most: int = 8) -> str:
    """`'a', 'b', 'c', ... (19 in all)`: names for a message, however many there are."""
    items = [repr(label) for label in (labels.tolist() if isinstance(labels, np.ndarray) else labels)]
    if len(items) <= at_most:
        return ", ".join(items)
    return ", ".join(items[:at_most]) + f", ... ({len(items)} in all)"


def check_lengths(X: np.ndarray, **others: Any) -> None:
    """Refuse arrays, given by name, that have not one item for each row of X."""
    for name, values in others.items():
        if values is not None and len(values) != len(X):
            raise ValueError(f"X has {len(X)} rows, but {name} has {len(values)}")


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
    X = check_array(X, dtype=None, ensure_all_finite=False, allow_nd=True)
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
    labels = np.asarray(tasks)
    if labels.size != len(np.atleast_1d(labels)) or not labels.ndim:
        raise ValueError(f"tasks must be one label for each row, not an array of shape {labels.shape}")
    labels = labels.ravel()
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            raise ValueError(f"the task of row {int(np.argmin(np.isfinite(labels)))} is NaN or infinite")
        return labels.astype(np.int64) if (labels == np.round(labels)).all() else labels
    if labels.dtype.kind == "O":
        if missing(labels).any():
            raise ValueError(f"the task of row {int(np.argmax(missing(labels)))} is missing")
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


def _check_precomputed_queries(estimator: Any, X: Any) -> None:
    """Refuse kernel values that are not between some rows and the training rows, for each kernel of the fit."""
    rows, kernels = estimator.n_features_in_, len(estimator.kernel_names_)
    shape = np.shape(X)
    if shape[1:] != (rows, kernels) and not (kernels == 1 and shape[1:] == (rows,)):
        raise ValueError(
            f"precomputed X must have shape (n_query, {rows}, {kernels}): {rows} training rows, {kernels} kernels; "
            f"got {shape}"
        )


def _check_targets(y: Any, *, classification: bool, tasks_given: bool) -> np.ndarray:
    """y as (n,) or, for wide data, (n, T) with NaN (floats) or None (objects) where a label is missing."""
    Y = np.asarray(y)
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
    return check_array(Y, dtype=np.float64, ensure_2d=False, ensure_all_finite=finite, input_name="y")


def _check_classes(Y: np.ndarray) -> np.ndarray:
    absent = missing(Y)
    if (Y.ndim == 1 and absent.any()) or (Y.dtype.kind == "f" and np.isinf(Y).any()):
        raise ValueError("Input y contains NaN or infinity.")
    for column, gone in zip(np.atleast_2d(Y.T), np.atleast_2d(absent.T), strict=True):
        check_classification_targets(plain(column[~gone]))
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


def _column_names(y: Any) -> np.ndarray | None:
    return np.asarray(y.columns) if hasattr(y, "columns") else None


def _wide(X: np.ndarray, Y: np.ndarray, weights: np.ndarray, names: np.ndarray | None) -> TaskData:
    rows = tuple(np.flatnonzero(~missing(column) & (weights > 0)) for column in Y.T)
    return TaskData(
        X=X,
        rows=rows,
        y=tuple(plain(column[kept]) for column, kept in zip(Y.T, rows, strict=True)),
        sample_weight=weights,
        labels=np.arange(Y.shape[1]) if names is None else names,
        form="wide",
    )


def _long(X: np.ndarray, y: np.ndarray, weights: np.ndarray, tasks: np.ndarray | None) -> TaskData:
    if tasks is None:
        labels, codes = np.array([0]), np.zeros(len(X), dtype=np.intp)
    else:
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


def plain(values: np.ndarray) -> np.ndarray:
    """Labels without the disguise as objects that pandas, or missing ones beside them, forced on them."""
    return np.array(values.tolist()) if values.dtype.kind == "O" else values


def task_fault(name: str, y: np.ndarray, *, classification: bool) -> str | None:
    """Why targets y (n,) do not make a task, in words; None where they do."""
    if len(y) < 2:
        amount = "one sample only (n_samples=1)" if len(y) else "no samples (n_samples=0)"
        return f"{name} has {amount} with a label and a positive weight; a task needs two or more"
    if classification and (y == y[0]).all():
        return f"{name} has one class only ({y[0].item()!r}); a classifier needs two or more"
    return None


def _check_tasks(data: TaskData, *, classification: bool) -> None:
    for label, y in zip(data.labels.tolist(), data.y, strict=True):
        name = "the data" if data.form == "single" else f"task {label!r}"
        fault = task_fault(name, y, classification=classification)
        if fault is not None:
            raise ValueError(fault)
    kinds = {"text" if y.dtype.kind in "US" else "numbers": label for label, y in zip(data.labels, data.y, strict=True)}
    if len(kinds) > 1:
        raise ValueError(f"the classes of task {kinds['text']!r} are text, those of task {kinds['numbers']!r} numbers")
