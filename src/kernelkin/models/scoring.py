"""Scores of each task, whatever form the data came in."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import _check_sample_weight, column_or_1d

from ..data import Queries, as_array, check_lengths, missing, plain


def score_each_task(
    estimator: Any, queries: Queries, y: Any, prediction: np.ndarray, sample_weight: Any = None
) -> dict[Any, float]:
    """Return the score of each task that has rows with a label: accuracy, or R^2."""
    y = as_array(y, "y")
    check_lengths(queries.X, y=y)
    weight = _check_sample_weight(sample_weight, queries.X, dtype=np.float64, ensure_non_negative=True)
    scores = {}
    for t, label in enumerate(estimator.tasks_.tolist()):
        true, predicted, belongs = _of_task(t, queries, y, prediction)
        rows = np.flatnonzero(belongs & (weight > 0))
        if len(rows):
            scores[label] = task_score(estimator, plain(true[rows]), predicted[rows], weight[rows])
    return scores


def _of_task(
    t: int, queries: Queries, y: np.ndarray, prediction: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The targets and predictions of one task, and which rows have both."""
    if queries.codes is not None:
        return column_or_1d(y), prediction, queries.codes == t
    y = y[:, np.newaxis] if y.ndim == 1 else y
    if y.shape != prediction.shape:
        raise ValueError(f"y has shape {y.shape}, but the predictions of all tasks have shape {prediction.shape}")
    return y[:, t], prediction[:, t], ~missing(y[:, t])


def task_score(estimator: Any, y: np.ndarray, prediction: np.ndarray, weight: np.ndarray) -> float:
    """Accuracy or R^2 of one task; R^2 of a single row is NaN."""
    if is_classifier(estimator):
        return float(accuracy_score(y, prediction, sample_weight=weight))
    return float(r2_score(y, prediction, sample_weight=weight)) if len(y) > 1 else float("nan")
