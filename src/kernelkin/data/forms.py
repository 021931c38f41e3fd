"""The three forms of multi-task data: long, wide and single.

All three become a `TaskData`: the rows of X that each task uses, and its targets. No other module distinguishes them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from .arrays import Table, as_table, check_lengths, listing, missing, plain
from .checks import (
    check_rows,
    check_targets,
    check_task_names,
    check_weights,
    encode_tasks,
    order_groupings,
    read_groups,
)

Form = Literal["long", "wide", "single"]
SHARING = "Kin, and models with couplings='common', learn it together with other tasks; or leave out its rows"


class Grouping(NamedTuple):
    """A further grouping of the rows: its name, the groups (G,), and the group of each row of X (n,)."""

    name: Any
    labels: np.ndarray
    codes: np.ndarray


@dataclass(frozen=True)
class TaskData:
    """Tasks over the rows of one array."""

    X: np.ndarray  # (n, d) rows, or (n, n, K) precomputed Gram matrices
    rows: tuple[np.ndarray, ...]  # for each task, the rows of X it has a label for
    y: tuple[np.ndarray, ...]  # for each task, its targets, in the order of `rows`
    sample_weight: np.ndarray  # (n,) the weight of each row of X; zero for rows that belong to no task, and only these
    labels: np.ndarray  # (T,) the names of the tasks
    form: Form  # the form of the data, which determines the shape of predictions
    feature_names: tuple[str, ...] | None = None  # (d,) the names of the columns of X, if it has names
    # (d,) if X is an encoded table, the column of the table and the part of it that each column of X was made from;
    # columns of the same origin belong together.
    feature_origins: tuple[tuple[str, str], ...] | None = None
    groupings: tuple[Grouping, ...] = ()  # further groupings of the rows of X, if `tasks` has several columns
    offset: np.ndarray | None = None  # (n,) added to the logarithm of expected counts
    task_name: Any = None  # the name of the grouping of the tasks, if it has one

    @property
    def n_tasks(self) -> int:
        return len(self.rows)

    def select(self, tasks: np.ndarray) -> TaskData:
        """Return the data of the tasks at these positions; rows of other tasks get weight zero."""
        rows = tuple(self.rows[t] for t in tasks)
        weight = np.zeros_like(self.sample_weight)
        used = np.concatenate(rows)
        weight[used] = self.sample_weight[used]
        y = tuple(self.y[t] for t in tasks)
        return replace(self, rows=rows, y=y, labels=self.labels[tasks], sample_weight=weight)

    def take(self, kept: Sequence[np.ndarray]) -> TaskData:
        """Return the data with some of the rows; `kept` are positions within the rows of each task.

        On wide data the other rows are removed from X; on long data they stay, with weight zero.
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


class Queries(NamedTuple):
    """Rows to predict."""

    X: np.ndarray  # (q, d) rows, or (q, n, K) precomputed Gram matrices
    # (q,) the position of each row's task in `tasks_` followed by the new tasks whose features the model has; -1 for
    # other tasks that were not in training. None if every task predicts every row.
    codes: np.ndarray | None
    labels: np.ndarray | None = None  # (q,) the task label of each row, if given
    device: str | None = None  # the torch device of the rows; None for main memory
    # For each further grouping of the training data, the position of each row's group (q,); -1 if new.
    groupings: tuple[np.ndarray, ...] = ()


def read_training(
    X: Any,
    y: Any,
    tasks: Any = None,
    sample_weight: Any = None,
    *,
    classification: bool,
    task_column: Any = None,
    precomputed: bool = False,
    encode: Callable[[Table], Table] | None = None,
) -> TaskData:
    """Validate the arguments of `fit`; X may be the result of `read_rows`, and holds Gram matrices if `precomputed`.

    If `tasks` or `task_column` has several columns, the first holds the tasks and the others are further groupings.
    `encode` converts the columns of a table, without the tasks, to numbers.
    """
    if y is None:
        raise ValueError(
            "This estimator requires y to be passed, but the target y is None: pass the target of each row, "
            "as in fit(X, y, tasks=...)"
        )
    rows, groups = read_groups(X, tasks, task_column)
    rows = encode(rows) if encode is not None and isinstance(rows, Table) else rows
    (task_name, tasks), *further = groups.items() or [(None, tasks)]
    X = check_rows(rows, fitting=True, precomputed=precomputed, task_column=task_column)
    Y = check_targets(y, classification=classification, tasks_given=tasks is not None)
    check_lengths(X, y=Y, tasks=tasks, **{f"tasks, column {name!r}": values for name, values in further})
    weights = np.ones(len(X)) if sample_weight is None else check_weights(sample_weight, X)
    names, origins = (tuple(map(str, rows.names)), rows.origins) if isinstance(rows, Table) else (None, None)
    groupings = tuple(Grouping(name, *np.unique(values, return_inverse=True)) for name, values in further)
    if Y.ndim == 2:
        return _wide(X, Y, y, weights, names, origins, groupings)
    labels, codes = np.array([0]), np.zeros(len(X), dtype=np.intp)
    if tasks is not None:
        labels, codes = np.unique(tasks, return_inverse=True)
    kept = np.flatnonzero(weights > 0)
    order = kept[np.argsort(codes[kept], kind="stable")]
    parts = tuple(np.split(order, np.cumsum(np.bincount(codes[kept], minlength=len(labels)))[:-1]))
    form: Form = "single" if tasks is None else "long"
    targets = tuple(Y[part] for part in parts)
    return TaskData(X, parts, targets, weights, labels, form, names, origins, groupings, task_name=task_name)


def read_queries(
    X: Any,
    tasks: Any,
    *,
    known: np.ndarray,
    form: Form,
    task_column: Any = None,
    precomputed: bool = False,
    encode: Callable[[Table], Table] | None = None,
    allow_unknown: bool = False,
    new_tasks: np.ndarray | None = None,
    task_name: Any = None,
    groupings: Sequence[Grouping] = (),
) -> Queries:
    """Validate the arguments of `predict`; other arguments are as for `read_training`.

    `known`, `form`, `task_name` and `groupings` are the tasks (T,) and the rest of the training data. Tasks that were
    not in training get code -1 or, without `allow_unknown`, raise an error; `new_tasks` (E,) have features.
    """
    rows, groups = read_groups(X, tasks, task_column)
    rows = encode(rows) if encode is not None and isinstance(rows, Table) else rows
    X = check_rows(rows, fitting=False, precomputed=precomputed, task_column=task_column)
    if not groups:
        if form == "long" and (len(known) > 1 or groupings):
            raise ValueError(
                f"this model was fitted on {len(known)} tasks ({listing(known)}) and needs the task of each row: "
                "pass tasks=, or give the estimator a task_column (scikit-learn's cross_val_predict passes tasks to "
                "fit alone, as all of its cross-validation does unless metadata routing is enabled)"
            )
        return Queries(X, None if form == "wide" else np.zeros(len(X), dtype=np.intp))
    if form == "single":
        raise ValueError("this model was fitted on one task, without tasks: leave them out here too")
    tasks, *further = order_groupings(groups, [task_name, *(grouping.name for grouping in groupings)])
    pairs = list(zip(further, groupings, strict=True))
    check_lengths(X, tasks=tasks, **{f"tasks, column {grouping.name!r}": values for values, grouping in pairs})
    every = [set(labels.tolist()) for labels in (known, *(grouping.labels for grouping in groupings))]
    for k, found in enumerate(set(values.tolist()) for values in (tasks, *further)):
        if found.isdisjoint(every[k]) and any(found <= other and other.isdisjoint(every[k]) for other in every):
            raise ValueError(f"column {k} of tasks has labels of another grouping: is the order that of the fit?")
    codes = tuple(encode_tasks(values, grouping.labels, allow_unknown=True) for values, grouping in pairs)
    return Queries(X, encode_tasks(tasks, known, allow_unknown, new_tasks), tasks, groupings=codes)


def _wide(X: np.ndarray, Y: np.ndarray, y: Any, weights: np.ndarray, *context: Any) -> TaskData:
    """Return data whose tasks are the columns of Y (n, T), with the column names of y or their numbers as labels."""
    table = as_table(y, "y")
    names = np.arange(Y.shape[1]) if table is None else check_task_names(table.names)
    every = np.flatnonzero(weights > 0)
    if Y.dtype.kind == "f" and len(every) == len(Y) and not np.isnan(Y).any():
        return TaskData(X, (every,) * Y.shape[1], tuple(np.array(Y, order="C").T), weights, names, "wide", *context)
    # Tasks without missing labels share one array of positions, to save memory.
    present = [~missing(column) for column in Y.T]
    weights = np.where(np.any(present, axis=0), weights, 0.0)
    rows = tuple(every if kept.all() else np.flatnonzero(kept & (weights > 0)) for kept in present)
    targets = tuple(plain(column[kept]) for column, kept in zip(Y.T, rows, strict=True))
    kinds = {"text" if y.dtype.kind in "US" else "numbers": t for t, y in zip(names.tolist(), targets, strict=True)}
    if len(kinds) > 1:
        raise ValueError(f"the classes of task {kinds['text']!r} are text, those of task {kinds['numbers']!r} numbers")
    return TaskData(X, rows, targets, weights, names, "wide", *context)


def tiny_tasks(data: TaskData, *, classification: bool) -> dict[int, str]:
    """Return the tasks that cannot be learned alone, by position, each with the reason."""
    found = {}
    for t, (label, y) in enumerate(zip(data.labels.tolist(), data.y, strict=True)):
        name = "the data" if data.form == "single" else f"task {label!r}"
        if len(y) < 2:
            amount = "one sample only (n_samples=1)" if len(y) else "no samples (n_samples=0)"
            fault = f"{name} has {amount} with a label and a positive weight; a task needs two or more"
        elif classification and (y == y[0]).all():
            fault = f"{name} has one class only ({y[0].item()!r}); a classifier needs two or more"
        else:
            continue
        found[t] = f"{fault}; {SHARING}" if len(y) and data.form != "single" else fault
    return found


def refuse_tiny_tasks(
    data: TaskData, faults: dict[int, str], sharing: Collection[int], *, classification: bool
) -> None:
    """Raise if a task cannot be learned; `faults` are from `tiny_tasks`.

    The tasks at the positions `sharing` share parts of their functions; for these, one row or one class is enough.
    """
    if all(len(data.y[t]) for t in faults):
        if classification and sharing and all((y == y[0]).all() for y in data.y):
            raise ValueError("every task has one class only; at least one task needs two or more classes")
        faults = {t: fault for t, fault in faults.items() if t not in sharing}
    for fault in faults.values():
        raise ValueError(fault)
