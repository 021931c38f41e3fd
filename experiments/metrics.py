"""The metrics of the paper's tables, one task at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.metrics import mean_squared_error, r2_score, roc_auc_score

from .protocol import Metric


def _auc(y: np.ndarray, values: np.ndarray) -> float:
    return float(roc_auc_score(y, values)) if len(np.unique(y)) == 2 else float("nan")


def _r2(y: np.ndarray, prediction: np.ndarray) -> float:
    """NaN where the targets are all the same, for which scikit-learn returns 0 or 1."""
    return float(r2_score(y, prediction)) if np.ptp(y) > 0 else float("nan")


AUC = Metric("AUC", _auc, "roc_auc", larger_is_better=True, decisions=True)
MSE1000 = Metric(
    "MSE x 1000",
    lambda y, prediction: 1000 * float(mean_squared_error(y, prediction)),
    "neg_mean_squared_error",
    larger_is_better=False,
)
NMSE = Metric("nMSE", lambda y, prediction: 1 - _r2(y, prediction), "r2", larger_is_better=False)
EXPLAINED = Metric("explained variance", _r2, "r2", larger_is_better=True)


def predict(estimator: Any, metric: Metric, X: np.ndarray, tasks: np.ndarray | None) -> np.ndarray:
    """What the metric is of: (q,) for rows with a task, (q, T) for wide data."""
    method = getattr(estimator, metric.method)
    return np.asarray(method(X) if tasks is None else method(X, tasks=tasks))


def score_by_task(
    metric: Metric, y: np.ndarray, predicted: np.ndarray, tasks: np.ndarray | None, names: Sequence[str]
) -> dict[str, float]:
    """The score of each named task; tasks whose score is not defined are left out. Wide y may have NaN: not asked for.

    Wide predictions may have columns of NaN: tasks that a model leaves out. A pooled metric has one score.
    """
    if tasks is None:
        asked = np.isfinite(y) & np.isfinite(predicted)
        if metric.columns:
            asked[:, np.setdiff1d(np.arange(y.shape[1]), metric.columns)] = False
        if metric.pooled:
            return {"all": metric.function(y[asked], predicted[asked])}
        columns = zip(names, y.T, predicted.T, asked.T, strict=True)
        scores = {name: metric.function(part[of], values[of]) for name, part, values, of in columns if of.any()}
    else:
        rows = {name: tasks == name for name in names}
        scores = {name: metric.function(y[of], predicted[of]) for name, of in rows.items() if of.any()}
    return {name: score for name, score in scores.items() if np.isfinite(score)}
