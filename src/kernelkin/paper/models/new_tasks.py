"""Tasks that were not in training: known by their features, or predicted as the most similar task."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ...data import Queries, TaskData, check_precomputed_queries, listing, read_queries
from ..couplings import TaskTable, connected_tasks, read_couplings, read_task_features
from .array_api import where_rows_are


def functions_with_tasks(model: Any, task_features: Any) -> Any:
    """Return the functions of a fitted model and of new tasks that have features."""
    if not any(coupling.kernel is not None for coupling in getattr(model, "couplings_", ())):
        raise ValueError(f"this {type(model).__name__} was fitted without task_features: it cannot predict from them")
    given = read_task_features(task_features, None)
    for name, table in given.items():
        if not isinstance(table, TaskTable):
            raise ValueError(
                f"task_features {name!r} is a kernel between tasks: give the kernel of all tasks, new ones included, "
                "to the estimator before the fit"
            )
    return model.functions_.with_tasks(given, model.tasks_)


def coupled_tasks(model: Any, data: TaskData) -> set[int]:
    """Return the tasks, by position, that share parts of their functions with others by an estimator's parameters."""
    given = (getattr(model, name, None) for name in ("couplings", "task_features"))
    linked = connected_tasks(read_couplings(next(given), data, task_features=next(given)), data.n_tasks)
    return {t for members in linked if len(members) > 1 for t in members.tolist()}


def read_model_queries(model: Any, X: Any, tasks: Any) -> Queries:
    """Return what `predict` of a fitted model is given, read and checked; new tasks as its `unknown_tasks` says."""
    check_is_fitted(model)
    new = getattr(model.functions_, "new_tasks", None)
    mode = getattr(model, "unknown_tasks", "error")
    encoder = getattr(model, "encoder_", None)
    precomputed = model.__sklearn_tags__().input_tags.pairwise
    if precomputed:
        names = model.kernel_names_ if hasattr(model, "kernel_names_") else model.functions_.kernels.names
        check_precomputed_queries(X, model.n_features_in_, len(names))
    queries = read_queries(
        model.read_columns(X, reset=False),
        tasks,
        known=model.tasks_,
        form=model.data_form_,
        task_column=model.task_column,
        precomputed=precomputed,
        encode=None if encoder is None else encoder.encode,
        allow_unknown=mode != "error",
        new_tasks=new,
        groupings=getattr(model, "groupings_", ()),
    )
    return where_rows_are(as_nearest(model, queries) if mode == "nearest" else queries, X)


def as_nearest(model: Any, queries: Queries) -> Queries:
    """Return queries in which every new task has the position of the training task that is most like it.

    By features where there are any; otherwise by the inputs of the rows to predict.
    """
    n_tasks = len(model.tasks_)
    if queries.codes is None or queries.labels is None:
        return queries
    codes = queries.codes.copy()
    for label in np.unique(queries.labels[(codes < 0) | (codes >= n_tasks)]).tolist():
        rows = np.flatnonzero(queries.labels == label)
        codes[rows] = _nearest(model, label, int(queries.codes[rows[0]]), queries.X[rows])
    return replace(queries, codes=codes, is_nearest=codes != queries.codes)


def _nearest(model: Any, label: Any, code: int, X: np.ndarray) -> int:
    n_tasks = len(model.tasks_)
    if code >= n_tasks:
        return int(np.argmax(model.functions_.new_similarities[code - n_tasks]))
    index = getattr(model, "input_index_", None)
    if index is None:
        raise ValueError(
            f"task {listing([label])} was not in training and has no features, and this model was not fitted with "
            "unknown_tasks='nearest' on tasks that have rows of their own"
        )
    return index.nearest(X)
