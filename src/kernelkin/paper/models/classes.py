"""From the values of fitted functions to decision values and class labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...data import Queries
from ..functions import function_values


def decision_values(model: Any, queries: Queries) -> np.ndarray:
    """Return decision values: (q,) or (q, T) where two classes are all there are, else with an axis of classes."""
    values = function_values(model, queries)
    binary = all(len(classes) == 2 for classes in model.task_classes_)
    if binary and (queries.codes is None or len(model.classes_) == 2):
        return values[..., 0]
    spread = np.full((*values.shape[:-1], len(model.classes_)), -np.inf)
    for t, classes in enumerate(model.task_classes_):
        columns = np.searchsorted(model.classes_, classes)
        rows = (
            np.index_exp[:, t] if queries.codes is None else np.nonzero(_rows_of(t, len(model.tasks_), queries.codes))
        )
        own = values[rows]
        own = np.stack([-own[..., 0], own[..., 0]], axis=-1) if len(classes) == 2 else own[..., : len(classes)]
        block = spread[rows]
        block[:, columns] = own
        spread[rows] = block
    return spread


def _rows_of(task: int, n_tasks: int, codes: np.ndarray) -> np.ndarray:
    """Return the rows with the classes of a task: its own, and for the first task those of tasks not in training."""
    return (codes == task) | (((codes < 0) | (codes >= n_tasks)) & (task == 0))


def predicted_classes(model: Any, queries: Queries) -> np.ndarray:
    """Return class labels (q,), or (q, T) on wide data."""
    values = decision_values(model, queries)
    if values.ndim == (2 if queries.codes is None else 1):
        positive = (values > 0).astype(np.intp)
        if queries.codes is not None or len(model.classes_) == 2:
            return model.classes_[positive]
        return np.stack([c[p] for c, p in zip(model.task_classes_, positive.T, strict=True)], axis=1)
    return model.classes_[values.argmax(axis=-1)]
