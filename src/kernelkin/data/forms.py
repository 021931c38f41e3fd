"""The three forms of multi-task data: long, wide and single.

Whatever a user passes leaves this module as a `TaskData`: the rows of X that each task uses, and its targets. No other
module distinguishes the forms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from sklearn.utils.validation import validate_data

from .arrays import check_lengths, listing, missing, plain
from .labels import check_labels, check_task_names, encode_tasks
from .rows import check_precomputed_queries, check_rows, read_rows, split_task_column
from .tables import Table, as_table
from .targets import check_targets, check_weights

Form = Literal["long", "wide", "single"]


class Columns(tuple[np.ndarray, ...]):
    """The columns of one array, in memory of its own.

    Attributes
    ----------
    array : (n, T).
    """

    array: np.ndarray

    @classmethod
    def of(cls, Y: np.ndarray) -> Columns:
        """A copy of Y (n, T)."""
        array = np.array(Y, order="C")
        columns = cls(array.T)
        columns.array = array
        return columns


@dataclass(frozen=True)
class TaskData:
    """Tasks over the rows of one array.

    Attributes
    ----------
    X : (n, d) rows, or (n, n, K) precomputed Gram matrices.
    rows : for each task, the rows of X it has a label for.
    y : for each task, its targets, in the order of `rows`; `Columns` where real ones of wide data are all known.
    sample_weight : (n,) the weight of each row of X; rows of weight zero belong to no task.
    labels : (T,) the user's names of the tasks.
    form : how the data came, which decides the shape predictions go out in.
    feature_names : (d,) the names of the columns of X, where it had names.
    feature_origins : (d,) where X is an encoded table, the column of the table and the part of it that each column of X
        was made from; those of one origin belong together.
    """

    X: np.ndarray
    rows: tuple[np.ndarray, ...]
    y: tuple[np.ndarray, ...]
    sample_weight: np.ndarray
    labels: np.ndarray
    form: Form
    feature_names: tuple[str, ...] | None = None
    feature_origins: tuple[tuple[str, str], ...] | None = None

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
        """Fewer rows: `kept` are positions within each task's rows.

        On wide data X loses the rows that no task keeps; on long data they stay, with weight zero.
        """
        rows = tuple(rows[part] for rows, part in zip(self.rows, kept, strict=True))
        y = tuple(y[part] for y, part in zip(self.y, kept, strict=True))
        used = np.unique(np.concatenate(rows))
        if self.form != "wide":
            weight = np.zeros_like(self.sample_weight)
            weight[used] = self.sample_weight[used]
            return replace(self, rows=rows, y=y, sample_weight=weight)
        X = self.X[np.ix_(used, used)] if self.X.ndim == 3 else self.X[used]
        rows = tuple(np.searchsorted(used, part) for part in rows)
        return replace(self, X=X, rows=rows, y=y, sample_weight=self.sample_weight[used])


@dataclass(frozen=True)
class Queries:
    """Rows to predict.

    Attributes
    ----------
    X : (q, d) rows, or (q, n, K) precomputed Gram matrices.
    codes : (q,) the position of each row's task among `tasks_`, then among the new tasks that a model has features of;
        -1 for other tasks that were not in training. None where every task predicts every row.
    labels : (q,) the user's names of the rows' tasks, where they were given.
    is_nearest : (q,) whether the code is that of the task most like the row's, which was not in training.
    device : the device of torch that the rows were on; None for main memory.
    """

    X: np.ndarray
    codes: np.ndarray | None
    labels: np.ndarray | None = None
    is_nearest: np.ndarray | None = None
    device: str | None = None


def read_training(
    estimator: Any,
    X: Any,
    y: Any,
    tasks: Any,
    sample_weight: Any,
    *,
    classification: bool,
    encode: Callable[[Table], Table] | None = None,
) -> TaskData:
    """Validate what `fit` was given. Sets `n_features_in_` and `feature_names_in_` on the estimator.

    `encode` turns the columns of a table, without the tasks, into numbers.
    """
    from .tiny import settle_tiny_tasks

    data = read_piece(estimator, X, y, tasks, sample_weight, classification=classification, encode=encode)
    data = settle_tiny_tasks(estimator, data, classification=classification)
    _check_class_types(data)
    return data


def read_piece(
    estimator: Any,
    X: Any,
    y: Any,
    tasks: Any,
    sample_weight: Any = None,
    *,
    classification: bool,
    first: bool = True,
    encode: Callable[[Table], Table] | None = None,
) -> TaskData:
    """As `read_training`, for a piece of a stream: tasks may have too few rows, and later pieces must fit the first."""
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y is None."
        )
    rows, tasks = _split_tasks(estimator, X, tasks, reset=first)
    if encode is not None and isinstance(rows, Table):
        rows = encode(rows)
    names, origins = (tuple(map(str, rows.names)), rows.origins) if isinstance(rows, Table) else (None, None)
    X = check_rows(estimator, rows, fitting=True)
    Y = check_targets(y, classification=classification, tasks_given=tasks is not None)
    check_lengths(X, y=Y, tasks=tasks)
    weights = check_weights(sample_weight, X)
    data = _wide(X, Y, weights, _task_names(y, Y.shape[1])) if Y.ndim == 2 else _long(X, Y, weights, tasks)
    return replace(data, feature_names=names, feature_origins=origins)


def read_queries(
    estimator: Any,
    X: Any,
    tasks: Any,
    allow_unknown: bool = False,
    new_tasks: np.ndarray | None = None,
    encode: Callable[[Table], Table] | None = None,
) -> Queries:
    """Validate what `predict` was given against what `fit` has seen; unknown tasks, where allowed, have code -1.

    `new_tasks` (E,) were not in training, and are known by their features. `encode` turns the columns of a table into
    numbers.
    """
    if estimator.__sklearn_tags__().input_tags.pairwise:
        check_precomputed_queries(estimator, X)
    rows, tasks = _split_tasks(estimator, X, tasks, reset=False)
    if encode is not None and isinstance(rows, Table):
        rows = encode(rows)
    X = check_rows(estimator, rows, fitting=False)
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
    return Queries(X, encode_tasks(tasks, known, allow_unknown, new_tasks), tasks)


def _split_tasks(estimator: Any, X: Any, tasks: Any, *, reset: bool) -> tuple[Any, np.ndarray | None]:
    """X as a table or an array, and the task of each row, from `tasks` or the column of X that `task_column` names.

    Sets, or with reset=False compares, the number and the names of the columns that the estimator has seen.
    """
    rows = read_rows(X)
    validate_data(estimator, _countable(X, rows), skip_check_array=True, reset=reset)
    column = estimator.task_column
    if column is None:
        return rows, None if tasks is None else check_labels(tasks)
    if tasks is not None:
        raise ValueError(f"the task of each row is given twice: by tasks= and by task_column={column!r}")
    return split_task_column(rows, column)


def _countable(X: Any, rows: Any) -> Any:
    """What scikit-learn can count the columns of, and read their names from."""
    if isinstance(X, Table):
        return np.broadcast_to(0.0, (X.n_rows, len(X.names)))
    return X if isinstance(rows, Table) else rows


def _task_names(y: Any, n_tasks: int) -> np.ndarray:
    """The names of the columns of y, or their numbers where they have none."""
    table = as_table(y, "y")
    return np.arange(n_tasks) if table is None else check_task_names(table.names)


def _wide(X: np.ndarray, Y: np.ndarray, weights: np.ndarray, names: np.ndarray) -> TaskData:
    every = np.flatnonzero(weights > 0)
    if Y.dtype.kind == "f" and len(every) == len(Y) and not np.isnan(Y).any():
        return TaskData(X, (every,) * Y.shape[1], Columns.of(Y), weights, names, "wide")
    # Tasks with all labels share one array of positions: they may be many.
    present = [~missing(column) for column in Y.T]
    rows = tuple(every if kept.all() else np.flatnonzero(kept & (weights > 0)) for kept in present)
    return TaskData(
        X=X,
        rows=rows,
        y=tuple(plain(column[kept]) for column, kept in zip(Y.T, rows, strict=True)),
        sample_weight=weights,
        labels=names,
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


def _check_class_types(data: TaskData) -> None:
    labels = data.labels.tolist()
    kinds = {"text" if y.dtype.kind in "US" else "numbers": label for label, y in zip(labels, data.y, strict=True)}
    if len(kinds) > 1:
        raise ValueError(f"the classes of task {kinds['text']!r} are text, those of task {kinds['numbers']!r} numbers")
