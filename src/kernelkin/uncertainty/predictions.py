"""Probabilities of classes, and intervals of targets, from the values of fitted functions."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from ..data import Queries
from ..paper.functions import function_values
from .estimate import PredictedRows, Uncertainty
from .link import TaskLink


def class_probabilities(model: Any, queries: Queries) -> np.ndarray:
    """Return probabilities (q, n_classes), or (q, T, n_classes) on wide data; zero for classes a task does not have."""
    link: TaskLink = _known_errors(model).link
    values = function_values(model, queries)
    out = np.zeros((*values.shape[:-1], len(model.classes_)))
    kinds = None if queries.codes is None else PredictedRows.of(model, queries).kinds(len(model.tasks_))
    for t, classes in enumerate(model.task_classes_):
        if kinds is None:
            out[:, t] = _of_task(model, link, values[:, t], t, classes)
            continue
        rows = np.flatnonzero((queries.codes == t) & (kinds == ""))
        out[rows] = _of_task(model, link, values[rows], t, classes)
    for kind in [] if kinds is None else np.unique(kinds[kinds != ""]).tolist():
        rows = np.flatnonzero(kinds == kind)
        known, task = (link.new_tasks[kind], 0) if kind in link.new_tasks else (link, -1)
        out[rows] = _of_task(model, known, values[rows], task, model.task_classes_[0])
    return out


def prediction_deviations(model: Any, queries: Queries) -> np.ndarray:
    """Return standard deviations of targets around predictions (q,), or (q, T) on wide data."""
    return _known_errors(model).intervals.deviations(PredictedRows.of(model, queries))


def prediction_intervals(model: Any, queries: Queries, coverage: float) -> np.ndarray:
    """Return lower and upper ends (q, 2), or (q, T, 2) on wide data."""
    if not isinstance(coverage, Real) or not 0.0 < coverage < 1.0:
        raise ValueError(f"coverage must be a number between 0 and 1, got {coverage!r}")
    values = function_values(model, queries)[..., 0]
    half = _known_errors(model).intervals.half_widths(PredictedRows.of(model, queries), float(coverage))
    return np.stack([values - half, values + half], axis=-1)


def _known_errors(model: Any) -> Uncertainty:
    """What a model knows about its own errors; raises ValueError where it knows nothing."""
    if not hasattr(model, "uncertainty_"):
        raise ValueError(
            "deviations, intervals and probabilities need held-out values of all training rows in this process; a fit "
            "on Dask collections has them on the workers. Fit on arrays for them"
        )
    return model.uncertainty_


def _of_task(model: Any, link: TaskLink, values: np.ndarray, task: int, classes: np.ndarray) -> np.ndarray:
    """Values (q, M) of a task -> (q, n_classes)."""
    out = np.zeros((len(values), len(model.classes_)))
    width = 1 if len(classes) == 2 else len(classes)
    out[:, np.searchsorted(model.classes_, classes)] = link.probabilities(values[:, :width], task)
    return out
