"""Scores of each task, whatever form the data came in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import _check_sample_weight, column_or_1d

from ...data import Queries, as_array, check_lengths, missing, plain


def score_each_task(
    estimator: Any, queries: Queries, y: Any, prediction: np.ndarray, sample_weight: Any = None
) -> dict[Any, float]:
    """Return the score (accuracy, or R^2) of each task that has rows with a label, unknown tasks included."""
    y = as_array(y, "y")
    check_lengths(queries.X, y=y)
    weight = _check_sample_weight(sample_weight, queries.X, dtype=np.float64, ensure_non_negative=True)
    return {
        label: task_score(estimator, plain(true), predicted, weights)
        for label, true, predicted, weights in _by_task(estimator, queries, y, prediction, weight)
    }


def _by_task(
    estimator: Any, queries: Queries, y: np.ndarray, prediction: np.ndarray, weight: np.ndarray
) -> Iterator[tuple[Any, np.ndarray, np.ndarray, np.ndarray]]:
    """The name, targets, predictions and weights of each task that has rows with a label and a positive weight."""
    if queries.codes is None:
        y = y[:, np.newaxis] if y.ndim == 1 else y
        if y.shape != prediction.shape:
            raise ValueError(f"y has shape {y.shape}, but the predictions of all tasks have shape {prediction.shape}")
        for t, label in enumerate(estimator.tasks_.tolist()):
            rows = np.flatnonzero(~missing(y[:, t]) & (weight > 0))
            if len(rows):
                yield label, y[rows, t], prediction[rows, t], weight[rows]
        return
    y = column_or_1d(y)
    # Rows of tasks that were not in training are scored under their own names.
    labels = estimator.tasks_[queries.codes] if queries.labels is None else queries.labels
    order = np.flatnonzero(weight > 0)
    order = order[np.argsort(labels[order], kind="stable")]
    names, starts = np.unique(labels[order], return_index=True)
    for label, rows in zip(names.tolist(), np.split(order, starts[1:]), strict=False):
        yield label, y[rows], prediction[rows], weight[rows]


def task_score(estimator: Any, y: np.ndarray, prediction: np.ndarray, weight: np.ndarray) -> float:
    """Accuracy or R^2 of one task; R^2 of a single row is NaN."""
    if is_classifier(estimator):
        return float(accuracy_score(y, prediction, sample_weight=weight))
    return float(r2_score(y, prediction, sample_weight=weight)) if len(y) > 1 else float("nan")
