"""Scores of each task, whatever form the data came in."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import _check_sample_weight, check_consistent_length

from ..data import Queries, missing


def score_each_task(
    estimator: Any, queries: Queries, y: Any, prediction: np.ndarray, sample_weight: Any = None
) -> dict[Any, float]:
    """The score of each task that has rows with a label: accuracy, or R^2."""
    y = np.asarray(y)
    check_consistent_length(queries.X, y)
    weight = _check_sample_weight(sample_weight, queries.X, dtype=np.float64)
    if queries.codes is None:
        if y.ndim == 1:
            y = y[:, np.newaxis]
        if y.shape != prediction.shape:
            raise ValueError(f"y has shape {y.shape}, and {len(estimator.tasks_)} tasks predict {prediction.shape}")
        columns = [(np.flatnonzero(~missing(column)), column) for column in y.T]
        parts = [(column[rows], prediction[rows, t], weight[rows]) for t, (rows, column) in enumerate(columns)]
    else:
        y = y.ravel()
        rows_of = [np.flatnonzero(queries.codes == t) for t in range(len(estimator.tasks_))]
        parts = [(y[rows], prediction[rows], weight[rows]) for rows in rows_of]
    return {
        label: task_score(estimator, true, guess, w)
        for label, (true, guess, w) in zip(estimator.tasks_.tolist(), parts, strict=True)
        if len(true)
    }


def task_score(estimator: Any, y: np.ndarray, prediction: np.ndarray, weight: np.ndarray) -> float:
    """Accuracy or R^2 of one task; R^2 of a single row is NaN."""
    if is_classifier(estimator):
        return float(accuracy_score(y, prediction, sample_weight=weight))
    return float(r2_score(y, prediction, sample_weight=weight)) if len(y) > 1 else float("nan")
