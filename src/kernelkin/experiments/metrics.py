"""The metrics of the paper's tables, for one task at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from .protocol import Metric, Split


def _auc(y: np.ndarray, value: np.ndarray) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(y, value)) if len(np.unique(y)) == 2 else float("nan")


def _mse(y: np.ndarray, guess: np.ndarray) -> float:
    return float(np.mean((y - guess) ** 2))


def _nmse(y: np.ndarray, guess: np.ndarray) -> float:
    """The mean squared error over the variance of the targets; undefined where these are all the same."""
    variance = float(np.var(y))
    return _mse(y, guess) / variance if variance > 0 else float("nan")


AUC = Metric("AUC", _auc, "roc_auc", larger_is_better=True, decisions=True)
MSE1000 = Metric("MSE x 1000", lambda y, guess: 1000 * _mse(y, guess), "neg_mean_squared_error", larger_is_better=False)
NMSE = Metric("nMSE", _nmse, "r2", larger_is_better=False)
EXPLAINED = Metric("explained variance", lambda y, guess: 1 - _nmse(y, guess), "r2", larger_is_better=True)


def predict(estimator: Any, metric: Metric, X: np.ndarray, tasks: np.ndarray | None) -> np.ndarray:
    """Decision values or predictions: (q,) for rows with a task, (q, T) for wide data."""
    method = estimator.decision_function if metric.decisions else estimator.predict
    return np.asarray(method(X) if tasks is None else method(X, tasks=tasks))


def score_by_task(
    metric: Metric, y: np.ndarray, guess: np.ndarray, tasks: np.ndarray | None, names: Split | list[str]
) -> dict[str, float]:
    """The score of each named task; tasks whose score is not defined are left out."""
    names = list(names.task_names) if isinstance(names, Split) else names
    if tasks is None:
        scores = {name: metric.function(y[:, t], guess[:, t]) for t, name in enumerate(names)}
    else:
        rows = {name: tasks == name for name in names}
        scores = {name: metric.function(y[mine], guess[mine]) for name, mine in rows.items() if mine.any()}
    return {name: score for name, score in scores.items() if np.isfinite(score)}
