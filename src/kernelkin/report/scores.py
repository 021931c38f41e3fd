"""Scores of tasks on held-out rows, with intervals by drawing the rows of every task again."""

from __future__ import annotations

from typing import Any

import numpy as np

from .held_out import HeldOutRows
from .values import number, numbers

LEVEL = 0.95
TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
BOOTSTRAP = 300
# Test rows of a task whose score is shown: those of fewer rows are noise.
MIN_ROWS = 5


def score_content(rows: HeldOutRows, metric: str) -> dict[str, Any]:
    """The score of each task, of their mean, and of all rows together, each with its interval."""
    T, rng = len(rows.tasks), np.random.default_rng(0)
    score, drawn = np.full(T, np.nan), np.full((BOOTSTRAP, T), np.nan)
    values = rows.values if metric == "roc_auc" else rows.predicted
    assert values is not None
    for t, (y, own) in enumerate(zip(rows.y, values, strict=True)):
        if is_usable(y, metric):
            score[t], drawn[:, t] = (_auc if metric == "roc_auc" else _share)(y, own, metric, rng)
    used = np.isfinite(score)
    low, high = np.full(T, np.nan), np.full(T, np.nan)
    mean = None
    if used.any():
        low[used], high[used] = np.quantile(drawn[:, used], TAILS, axis=0)
        mean = numbers([score[used].mean(), *np.quantile(drawn[:, used].mean(axis=1), TAILS)])
    return {
        "level": LEVEL,
        "mean": mean,
        "median": number(np.median(score[used])) if used.any() else None,
        "pooled": None if metric == "roc_auc" else _pooled(rows, metric, rng),
        "n_scored": int(used.sum()),
        "min_rows": MIN_ROWS,
        "test_rows": [len(y) for y in rows.y],
        "task_score": numbers(score),
        "task_low": numbers(low),
        "task_high": numbers(high),
    }


def is_usable(y: np.ndarray, metric: str) -> bool:
    """Whether the score of a task with these targets says anything."""
    if len(y) < MIN_ROWS:
        return False
    if metric == "roc_auc":
        counts = np.unique(y, return_counts=True)[1]
        return len(counts) == 2 and bool(counts.min() >= 2)
    return metric == "accuracy" or float(np.ptp(y)) > 0


def _losses(y: np.ndarray, predicted: np.ndarray, metric: str) -> tuple[np.ndarray, float]:
    """What each row lacks (n,), and the mean that it would lack with a score of zero."""
    if metric == "accuracy":
        return (y != predicted).astype(np.float64), 1.0
    return (y - predicted) ** 2, float(y.var())


def _share(y: np.ndarray, predicted: np.ndarray, metric: str, rng: np.random.Generator) -> tuple[float, np.ndarray]:
    """R^2 or accuracy, and draws of it (BOOTSTRAP,); the variance that R^2 is relative to stays that of all rows."""
    lost, unit = _losses(y, predicted, metric)
    draws = rng.integers(len(lost), size=(BOOTSTRAP, len(lost)))
    return 1.0 - float(lost.mean()) / unit, 1.0 - lost[draws].mean(axis=1) / unit


def _auc(y: np.ndarray, values: np.ndarray, metric: str, rng: np.random.Generator) -> tuple[float, np.ndarray]:
    """The area under the ROC curve, and draws of it with the rows of each class drawn again."""
    second = y == np.unique(y)[-1]
    above, below = values[second], values[~second]
    wins = (above[:, np.newaxis] > below) + 0.5 * (above[:, np.newaxis] == below)
    counts = [rng.multinomial(n, np.full(n, 1 / n), size=BOOTSTRAP) for n in wins.shape]
    return float(wins.mean()), ((counts[0] @ wins) * counts[1]).sum(axis=1) / wins.size


def _pooled(rows: HeldOutRows, metric: str, rng: np.random.Generator) -> list[float | None] | None:
    """Accuracy, or the share of the variance within tasks that is predicted, of the rows of all tasks together."""
    parts = [(*_losses(y, p, metric), len(y)) for y, p in zip(rows.y, rows.predicted, strict=True) if len(y)]
    lost = np.concatenate([part for part, _, _ in parts])
    unit = sum(unit * n for _, unit, n in parts) / len(lost)
    if not unit > 0:
        return None
    found = [lost[rng.integers(len(lost), size=len(lost))].mean() for _ in range(BOOTSTRAP)]
    return numbers([1.0 - lost.mean() / unit, *(1.0 - np.quantile(found, TAILS[::-1]) / unit)])
