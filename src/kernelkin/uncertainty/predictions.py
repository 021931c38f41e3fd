"""Probabilities of classes, and intervals of targets, from the values of fitted functions."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from ..data import Queries
from .link import TaskLink


def class_probabilities(model: Any, queries: Queries) -> np.ndarray:
    """Return probabilities (q, n_classes), or (q, T, n_classes) on wide data; zero for classes a task does not have."""
    link: TaskLink = model.uncertainty_.link
    values = model.functions_.values(queries.X, queries.codes)
    codes = queries.trained_codes(len(model.tasks_))
    out = np.zeros((*values.shape[:-1], len(model.classes_)))
    for t, classes in enumerate(model.task_classes_):
        if codes is None:
            out[:, t] = _of_task(model, link, values[:, t], t, classes)
            continue
        rows = np.flatnonzero(codes == t)
        out[rows] = _of_task(model, link, values[rows], t, classes)
    if codes is not None and (unknown := np.flatnonzero(codes < 0)).size:
        out[unknown] = _of_task(model, link, values[unknown], -1, model.task_classes_[0])
    return out


def prediction_intervals(model: Any, queries: Queries, coverage: float) -> np.ndarray:
    """Return lower and upper ends (q, 2), or (q, T, 2) on wide data."""
    if not isinstance(coverage, Real) or not 0.0 < coverage < 1.0:
        raise ValueError(f"coverage must be a number between 0 and 1, got {coverage!r}")
    values = model.functions_.values(queries.X, queries.codes)[..., 0]
    half = model.uncertainty_.intervals.half_widths(
        queries.X, queries.trained_codes(len(model.tasks_)), float(coverage)
    )
    return np.stack([values - half, values + half], axis=-1)


def _of_task(model: Any, link: TaskLink, values: np.ndarray, task: int, classes: np.ndarray) -> np.ndarray:
    """Values (q, M) of a task -> (q, n_classes)."""
    out = np.zeros((len(values), len(model.classes_)))
    width = 1 if len(classes) == 2 else len(classes)
    out[:, np.searchsorted(model.classes_, classes)] = link.probabilities(values[:, :width], task)
    return out
