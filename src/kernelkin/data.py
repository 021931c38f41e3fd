"""One door for the three forms of multi-task data: long, wide, single.

Whatever a user passes leaves this module as a `TaskData`: the rows of X that each task uses, and its targets. No other
module tells the forms apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from .checks import check_labels, check_targets, check_weights, missing, plain
from .row_checks import check_form, check_precomputed_queries, check_rows

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
    check_form(X)
    validate_data(estimator, X, skip_check_array=True, reset=first)
    X, tasks, names = _split_task_column(estimator, X, tasks)
    X = check_rows(estimator, X, names, fitting=True)
    Y = check_targets(y, classification=classification, tasks_given=tasks is not None)
    check_lengths(X, y=Y, tasks=tasks)
    weights = check_weights(sample_weight, X)
    data = _wide(X, Y, weights, _column_names(y)) if Y.ndim == 2 else _long(X, Y, weights, tasks)
    return replace(data, feature_names=names)


def read_queries(estimator: Any, X: Any, tasks: Any, allow_unknown: bool = False) -> Queries:
    """Validate what `predict` was given against what `fit` has seen; unknown tasks, where allowed, have code -1."""
    check_form(X)
    if estimator.__sklearn_tags__().input_tags.pairwise:
        check_precomputed_queries(estimator, X)
    validate_data(estimator, X, skip_check_array=True, reset=False)
    X, tasks, names = _split_task_column(estimator, X, tasks)
    X = check_rows(estimator, X, names, fitting=False)
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


def _split_task_column(estimator: Any, X: Any, tasks: Any) -> tuple[Any, np.ndarray | None, tuple[str, ...] | None]:
    """Take the task of each row from `tasks` or from the column of X that `task_column` names."""
    column = estimator.task_column
    names = tuple(map(str, X.columns)) if hasattr(X, "columns") else None
    if column is None:
        return X, None if tasks is None else check_labels(tasks), names
    if tasks is not None:
        raise ValueError(f"the task of each row is given twice: by tasks= and by task_column={column!r}")
    if hasattr(X, "columns"):
        position = _column_position(X, column)
        labels, X = X.iloc[:, position], X.drop(columns=X.columns[position])
        return X, check_labels(labels), tuple(map(str, X.columns))
    X = check_array(X, dtype=None, ensure_all_finite=False, allow_nd=True)
    if X.ndim != 2 or not _is_position(column) or not -X.shape[1] <= column < X.shape[1]:
        raise ValueError(f"task_column={column!r} is not a column of X, an array of shape {X.shape}")
    return np.delete(X, column, axis=1), check_labels(X[:, column]), None


def _is_position(column: Any) -> bool:
    return isinstance(column, (int, np.integer)) and not isinstance(column, bool)


def _column_position(X: Any, column: Any) -> int:
    if column in X.columns:
        return int(X.columns.get_loc(column))
    if _is_position(column) and -X.shape[1] <= column < X.shape[1]:
        return int(column) % X.shape[1]
    raise ValueError(f"task_column={column!r} is not a column of X, which has {listing(list(X.columns))}")


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
    kept = np.flatnonzero(weights > 0)
    order = kept[np.argsort(codes[kept], kind="stable")]
    ends = np.cumsum(np.bincount(codes[kept], minlength=len(labels))).tolist()
    rows = tuple(order[start:end] for start, end in zip([0, *ends], ends, strict=False))
    return TaskData(
        X=X,
        rows=rows,
        y=tuple(y[part] for part in rows),
        sample_weight=weights,
        labels=labels,
        form="single" if tasks is None else "long",
    )


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
