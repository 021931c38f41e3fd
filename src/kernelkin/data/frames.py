"""Dask collections as training data: rows are brought together by task once, and stay on the workers."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..engines import Dask, Engine
from .forms import TaskData, read_training
from .row_blocks import RowBlocks

# Columns that are added to a frame of rows.
TARGET, TASK, WEIGHT = "__target__", "__task__", "__sample_weight__"
_ADDED = (TARGET, TASK, WEIGHT)


def is_dask(X: Any) -> bool:
    """Whether X is a Dask collection."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "dask")


@dataclass(frozen=True)
class PartReader:
    """Reads a partition of a frame on a worker, as `fit` reads arrays.

    Attributes
    ----------
    estimator : one with the parameters that say how, and without an engine.
    classification : whether the targets are classes.
    """

    estimator: Any
    classification: bool

    def read(self, part: Any) -> tuple[Any, TaskData]:
        """Return a copy of the estimator that has seen the columns, and the rows."""
        X, y, tasks, weight = split_part(part)
        model = copy(self.estimator)
        return model, read_training(model, X, y, tasks, weight, classification=self.classification)


def read_part(part: Any, reader: PartReader) -> TaskData:
    """Return the rows of a partition."""
    return reader.read(part)[1]


def column_facts(part: Any, reader: PartReader) -> dict[str, Any]:
    """Return what `fit` says about the columns of a partition, as attributes of an estimator."""
    model = reader.read(part)[0]
    return {name: getattr(model, name) for name in ("n_features_in_", "feature_names_in_") if hasattr(model, name)}


def read_frames(
    estimator: Any, X: Any, y: Any, tasks: Any, sample_weight: Any, engine: Engine, *, classification: bool
) -> RowBlocks:
    """Read Dask collections: every partition has whole tasks, or all rows are shuffled by task once.

    Sets `n_features_in_` and `feature_names_in_` on the estimator.
    """
    cluster = check_engine(engine)
    frame, key = join_frame(estimator, X, y, tasks, sample_weight)
    if _is_split(cluster.client, frame, key):
        frame = frame.shuffle(on=key)
    parts = cluster.hold_futures(cluster.client.compute(frame.to_delayed()))
    filled = [i for i, n in enumerate(parts.call(len, [()] * len(parts))) if n]
    if not filled:
        raise ValueError("X has no rows")
    reader = PartReader(bare(estimator), classification)
    parts = parts.pick(filled)
    for name, value in parts.pick([0]).call(column_facts, [(reader,)])[0].items():
        setattr(estimator, name, value)
    return RowBlocks.of(engine, parts.derive(read_part, [(reader,)] * len(parts)))


def check_engine(engine: Engine) -> Dask:
    """Return the engine; raises ValueError for engines that do not work on Dask collections."""
    if not isinstance(engine, Dask):
        raise ValueError("X is a Dask collection: pass the Dask client as engine=, or X.compute()")
    return engine


def bare(estimator: Any) -> Any:
    """Return a copy of an estimator that can be sent: without engine, callback and large parts of a fit."""
    model = copy(estimator)
    for name in ("functions_", "uncertainty_", "relation_", "kernel_weights_", "intercept_", "history_"):
        vars(model).pop(name, None)
    model.engine = "threads"
    if hasattr(model, "callback"):
        model.callback = None
    return model


def join_frame(estimator: Any, X: Any, y: Any, tasks: Any, sample_weight: Any = None) -> tuple[Any, Any]:
    """Return one frame of rows, targets (if any), tasks and weights, and the column of the tasks."""
    if not hasattr(X, "columns") or not hasattr(X, "assign"):
        raise TypeError(f"X must be a Dask DataFrame, not a {type(X).__name__}")
    taken = [name for name in _ADDED if name in X.columns]
    if taken:
        raise ValueError(f"X has a column named {taken[0]!r}, a name that is used here: rename it")
    given = {TARGET: y, TASK: tasks, WEIGHT: sample_weight}
    given = {name: values for name, values in given.items() if values is not None}
    for name, values in given.items():
        if not is_dask(values):
            words = name.strip("_").replace("_", " ")
            raise TypeError(f"X is a Dask DataFrame and the {words} of its rows are not a Dask Series of the same rows")
    column = estimator.task_column
    if (column is None) == (tasks is None):
        raise ValueError(
            "Dask collections need the task of each row, once: pass tasks=, or give the estimator a task_column"
        )
    frame = X.assign(**given)
    return frame, TASK if column is None else _column(X, column)


def split_part(part: Any) -> tuple[Any, Any, Any, Any]:
    """A pandas partition of a joined frame -> X, y, tasks and weights; None for what it does not have."""
    X = part.drop(columns=[name for name in _ADDED if name in part.columns])
    found = [part[name].to_numpy() if name in part.columns else None for name in (TARGET, TASK, WEIGHT)]
    return X, found[0], found[1], found[2]


def _column(X: Any, column: Any) -> Any:
    if column in list(X.columns):
        return column
    if isinstance(column, int) and -len(X.columns) <= column < len(X.columns):
        return X.columns[column]
    raise ValueError(f"task_column={column!r} is not a column of X, which has {list(X.columns)}")


def _is_split(client: Any, frame: Any, key: Any) -> bool:
    """Whether rows of some task are in several partitions."""
    from dask import delayed

    found = client.gather(client.compute([delayed(_labels)(part, key) for part in frame[[key]].to_delayed()]))
    every = np.concatenate(found)
    return len(np.unique(every)) < len(every)


def _labels(part: Any, key: Any) -> np.ndarray:
    return np.asarray(part[key].unique())
