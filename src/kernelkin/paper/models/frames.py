"""Fitting, predicting and scoring Dask collections: rows stay on the workers."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from ...data import RowBlocks, TaskData, encode_tasks
from ...engines import Dask, DaskHeld, Engine, SingleThreadedBLAS, read_engine
from ..fitting import Fit, Fitted, RunOptions, TwoStageFit
from ..functions import BlockFunctions, RemoteFunctions, TaskFunctions

# Columns that are added to a frame of rows.
TARGET, TASK, WEIGHT = "__target__", "__task__", "__sample_weight__"
_ADDED = (TARGET, TASK, WEIGHT)
# Columns of a frame: the block of each row, and what was its index.
_BLOCK, _INDEX = "__block__", "__index__"


def is_dask(X: Any) -> bool:
    """Whether X is a Dask collection."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "dask")


def fit_frames(model: Any, X: Any, y: Any, tasks: Any, sample_weight: Any, options: RunOptions) -> Fitted:
    """Fit an estimator on Dask collections."""
    specification = model.specification()
    if not isinstance(specification, Fit | TwoStageFit):
        raise ValueError(f"{type(model).__name__} cannot be fitted on Dask collections: pass arrays (X.compute())")
    # Blocks of these rows are copies: nothing here may keep the rows themselves on the workers.
    return specification.plan_remote(read_frames(model, X, y, tasks, sample_weight, options.engine)).run(options)


def read_frames(model: Any, X: Any, y: Any, tasks: Any, sample_weight: Any, engine: Engine) -> RowBlocks:
    """Read Dask collections: every partition has whole tasks, or all rows are shuffled by task once.

    Sets `n_features_in_` and `feature_names_in_` of the model.
    """
    cluster = check_engine(engine)
    frame, key = join_frame(model, X, y, tasks, sample_weight)
    if _is_split(cluster.client, frame, key):
        frame = frame.shuffle(on=key)
    parts = cluster.hold_futures(cluster.client.compute(frame.to_delayed()))
    filled = [i for i, n in enumerate(parts.call(len, [()] * len(parts))) if n]
    if not filled:
        raise ValueError("X has no rows")
    reader, parts = bare(model), parts.pick(filled)
    for name, value in parts.pick([0]).call(column_facts, [(reader,)])[0].items():
        setattr(model, name, value)
    return RowBlocks.of(engine, parts.derive(read_part, [(reader,)] * len(parts)))


def read_part(part: Any, reader: Any) -> TaskData:
    """Return the rows of a partition, as an estimator reads arrays."""
    return copy(reader).training_data(*split_part(part))


def column_facts(part: Any, reader: Any) -> dict[str, Any]:
    """Return what an estimator says about the columns of a partition, as attributes."""
    model = copy(reader)
    model.training_data(*split_part(part))
    return {name: getattr(model, name) for name in ("n_features_in_", "feature_names_in_") if hasattr(model, name)}


def predict_frame(model: Any, X: Any, tasks: Any, *, split: bool = False, return_std: bool = False) -> Any:
    """Return predictions as a Dask Series with the index of X.

    A model that was fitted on Dask collections has its functions on the workers: rows are brought to them, and the
    partitions are those of its blocks of tasks. Otherwise partitions are those of X.
    """
    import dask.dataframe as dd
    import pandas as pd

    check_is_fitted(model)
    if split or return_std:
        raise ValueError("split and return_std are for arrays; Dask collections are predicted without them")
    frame, key = join_frame(model, X, None, tasks)
    dtype = model.classes_.dtype if is_classifier(model) else np.dtype(np.float64)
    empty = np.empty(0, dtype=object if dtype.kind in "US" else dtype)
    meta = pd.Series(empty, index=pd.Index([], dtype=frame.index.dtype), name="prediction")
    return dd.from_delayed(_with_models(model, frame, key, predict_part), meta=meta, verify_meta=False)


def score_frame(model: Any, X: Any, y: Any, tasks: Any, sample_weight: Any) -> dict[Any, float]:
    """Return the score of each task; rows are scored on the workers."""
    check_is_fitted(model)
    client = check_engine(read_engine(getattr(model, "engine", None))).client
    frame, key = join_frame(model, X, y, tasks, sample_weight)
    if not isinstance(model.functions_, RemoteFunctions):
        frame = frame.shuffle(on=key)
    found = client.gather(client.compute(_with_models(model, frame, key, score_part)))
    return {label: score for scores in found for label, score in scores.items()}


def _with_models(model: Any, frame: Any, key: Any, function: Callable[..., Any]) -> list[Any]:
    """Delayed calls of a function with each partition, the estimator, and the functions of the tasks of its rows."""
    import dask.dataframe as dd
    import pandas as pd
    from dask import delayed

    shell, functions = delayed(bare(model)), model.functions_
    if not isinstance(functions, RemoteFunctions):
        whole = delayed(functions)
        return [delayed(function)(part, shell, whole) for part in frame.to_delayed()]
    held = functions.held
    assert isinstance(held, DaskHeld)
    blocks = held.futures
    known = delayed((model.tasks_, functions.block_of))
    columns = {**dict(frame.dtypes), _INDEX: frame.index.dtype, _BLOCK: np.dtype(np.intp)}
    meta = pd.DataFrame({name: pd.Series(dtype=dtype) for name, dtype in columns.items()})
    # Not by map_partitions, which takes delayed arguments in later versions of Dask alone.
    parts = [delayed(route_part)(part, key, known) for part in frame.to_delayed()]
    routed = dd.from_delayed(parts, meta=meta, verify_meta=False)
    routed = routed.set_index(_BLOCK, divisions=list(range(len(blocks) + 1)))
    pairs = zip(routed.to_delayed(), blocks, strict=True)
    return [delayed(function)(part, shell, block) for part, block in pairs]


def route_part(part: Any, key: Any, known: tuple[np.ndarray, np.ndarray]) -> Any:
    """Add the block of each row's task to a partition, and its index as a column."""
    labels, block_of = known
    codes = encode_tasks(part[key].to_numpy(), labels)
    return part.assign(**{_INDEX: part.index, _BLOCK: block_of[codes]})


def predict_part(part: Any, shell: Any, functions: TaskFunctions | BlockFunctions) -> Any:
    """Predict the rows of a partition -> a pandas Series."""
    import pandas as pd

    model, X, tasks, _, _ = _open(part, shell, functions)
    index = pd.Index(part[_INDEX]) if _INDEX in part.columns else part.index
    with SingleThreadedBLAS():
        values = model.predict(X, tasks) if len(X) else np.empty(0)
    return pd.Series(values, index=index.rename(None), name="prediction")


def score_part(part: Any, shell: Any, functions: TaskFunctions | BlockFunctions) -> dict[Any, float]:
    """Score the tasks of a partition."""
    model, X, tasks, y, weight = _open(part, shell, functions)
    with SingleThreadedBLAS():
        return model.score_tasks(X, y, tasks, weight) if len(X) else {}


def _open(part: Any, shell: Any, functions: TaskFunctions | BlockFunctions) -> tuple[Any, Any, Any, Any, Any]:
    """The model of a partition's tasks, and its rows, tasks, targets and weights."""
    model = copy(shell)
    if isinstance(functions, BlockFunctions):
        model.tasks_, model.functions_ = functions.labels, functions.functions
        if functions.classes:
            model.task_classes_ = list(functions.classes)
    else:
        model.functions_ = functions
    rows = part.drop(columns=[name for name in (_INDEX, _BLOCK) if name in part.columns])
    X, y, tasks, weight = split_part(rows)
    return model, X, tasks, y, weight


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


def join_frame(model: Any, X: Any, y: Any, tasks: Any, sample_weight: Any = None) -> tuple[Any, Any]:
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
    column = model.task_column
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
