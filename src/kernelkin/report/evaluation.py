"""Evaluation on held-out rows: scores with intervals, and the rows that the page draws."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .held_out import COVERAGE, HeldOutRows

SCORES = {"r2": "R²", "accuracy": "accuracy", "roc_auc": "AUC"}
# If the rarer of two classes has less than this share, accuracy is not informative.
RARE = 0.2
N_BINS = 10
# Number of rows that the page draws: maximum in total, and minimum per task.
MAX_ROWS, LEAST_ROWS = 4000, 8
LEVEL, BOOTSTRAP = 0.95, 300
TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
# Minimum number of test rows for a task score to be shown; scores of fewer rows are mostly noise.
MIN_ROWS = 5


def evaluation_content(rows: HeldOutRows, metric: str | None = None) -> dict[str, Any]:
    """Return the scores of all tasks, and the data for the plots of predictions."""
    metric = metric if metric in SCORES else _default_metric(rows)
    found = {
        "metric": metric,
        "score": SCORES[metric],
        "source": rows.source,
        "tasks": [str(task) for task in rows.tasks.tolist()],
        "n_rows": len(rows.y),
        **score_content(rows, metric),
        "sample": _sample(rows),
    }
    return found | (_regression(rows) if rows.classes is None else _classification(rows))


def _default_metric(rows: HeldOutRows) -> str:
    if rows.classes is None:
        return "r2"
    shares = np.unique(rows.y, return_counts=True)[1] / len(rows.y)
    return "roc_auc" if rows.values is not None and len(shares) == 2 and shares.min() < RARE else "accuracy"


def _sample(rows: HeldOutRows) -> dict[str, Any]:
    """Return a sample of rows of every task, or all rows if there are few."""
    parts = _of_tasks(rows)
    quota = max(LEAST_ROWS, MAX_ROWS // max(len(parts), 1)) if len(rows.y) > MAX_ROWS else len(rows.y)
    rng = np.random.default_rng(0)
    kept = np.concatenate([part[np.sort(rng.permutation(len(part))[:quota])] for part in parts])
    found: dict[str, Any] = {"task": rows.codes[kept].tolist()}
    if rows.classes is not None and rows.probabilities is not None:
        for name, labels in (("actual", rows.y), ("predicted", rows.predicted)):
            found[name] = np.searchsorted(rows.classes, labels[kept]).tolist()
        p = rows.probabilities[kept]
        return found | {"probability": numbers(p[:, 1] if p.shape[1] == 2 else p.max(axis=1))}
    assert rows.ends is not None
    columns = {"actual": rows.y, "predicted": rows.predicted, "low": rows.ends[:, 0], "high": rows.ends[:, 1]}
    return found | {name: numbers(column[kept]) for name, column in columns.items()}


def _of_tasks(rows: HeldOutRows) -> list[np.ndarray]:
    """Return the positions of the rows of each task; rows are sorted by task."""
    counts = np.bincount(rows.codes, minlength=len(rows.tasks))
    return np.split(np.arange(len(rows.y)), np.cumsum(counts)[:-1])


def _task_means(rows: HeldOutRows, values: np.ndarray) -> list[float | None]:
    return [number(values[part].mean()) if len(part) else None for part in _of_tasks(rows)]


def _regression(rows: HeldOutRows) -> dict[str, Any]:
    """Return errors in the units of the target, and the coverage of intervals."""
    assert rows.ends is not None
    errors, inside = np.abs(rows.y - rows.predicted), (rows.ends[:, 0] <= rows.y) & (rows.y <= rows.ends[:, 1])
    return {
        "kind": "regression",
        "coverage": COVERAGE,
        "covered": number(inside.mean()),
        "task_covered": _task_means(rows, inside),
        "error": number(errors.mean()),
        "task_error": _task_means(rows, errors),
    }


def _classification(rows: HeldOutRows) -> dict[str, Any]:
    assert rows.classes is not None and rows.probabilities is not None
    actual, predicted = (np.searchsorted(rows.classes, part) for part in (rows.y, rows.predicted))
    confusion = np.zeros((len(rows.classes),) * 2, dtype=np.intp)
    np.add.at(confusion, (actual, predicted), 1)
    # For two classes, the bins are for the second class.
    used = slice(1, None) if len(rows.classes) == 2 else slice(None)
    happened = (actual[:, np.newaxis] == np.arange(len(rows.classes)))[:, used].ravel()
    stated = rows.probabilities[:, used].ravel()
    bins = [b for b in np.array_split(np.argsort(stated, kind="stable"), N_BINS) if len(b)]
    return {
        "kind": "classification",
        "classes": [str(label) for label in rows.classes.tolist()],
        "confusion": confusion.tolist(),
        "reliability": [[float(stated[b].mean()), float(happened[b].mean()), len(b)] for b in bins],
    }


def score_content(rows: HeldOutRows, metric: str) -> dict[str, Any]:
    """Return the score of each task, their mean, and the score of all rows, with bootstrap intervals."""
    T, rng = len(rows.tasks), np.random.default_rng(0)
    score, drawn = np.full(T, np.nan), np.full((BOOTSTRAP, T), np.nan)
    values = rows.values if metric == "roc_auc" else rows.predicted
    assert values is not None
    for t, part in enumerate(_of_tasks(rows)):
        if is_usable(rows.y[part], metric):
            draw = _auc if metric == "roc_auc" else _share
            score[t], drawn[:, t] = draw(rows.y[part], values[part], metric, rng)
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
        "test_rows": np.bincount(rows.codes, minlength=T).tolist(),
        "task_score": numbers(score),
        "task_low": numbers(low),
        "task_high": numbers(high),
    }


def is_usable(y: np.ndarray, metric: str) -> bool:
    """Return whether the score of a task with these targets is meaningful."""
    if len(y) < MIN_ROWS:
        return False
    if metric == "roc_auc":
        counts = np.unique(y, return_counts=True)[1]
        return len(counts) == 2 and bool(counts.min() >= 2)
    return metric == "accuracy" or float(np.ptp(y)) > 0


def _losses(y: np.ndarray, predicted: np.ndarray, metric: str) -> tuple[np.ndarray, float]:
    """Return the loss of each row (n,), and the mean loss that corresponds to a score of zero."""
    if metric == "accuracy":
        return (y != predicted).astype(np.float64), 1.0
    return (y - predicted) ** 2, float(y.var())


def _share(y: np.ndarray, predicted: np.ndarray, metric: str, rng: np.random.Generator) -> tuple[float, np.ndarray]:
    """Return R^2 or accuracy, and bootstrap draws (BOOTSTRAP,); R^2 always uses the variance of all rows."""
    lost, unit = _losses(y, predicted, metric)
    draws = rng.integers(len(lost), size=(BOOTSTRAP, len(lost)))
    return 1.0 - float(lost.mean()) / unit, 1.0 - lost[draws].mean(axis=1) / unit


def _auc(y: np.ndarray, values: np.ndarray, metric: str, rng: np.random.Generator) -> tuple[float, np.ndarray]:
    """Return the area under the ROC curve, and bootstrap draws within each class."""
    second = y == np.unique(y)[-1]
    above, below = values[second], values[~second]
    wins = (above[:, np.newaxis] > below) + 0.5 * (above[:, np.newaxis] == below)
    counts = [rng.multinomial(n, np.full(n, 1 / n), size=BOOTSTRAP) for n in wins.shape]
    return float(wins.mean()), ((counts[0] @ wins) * counts[1]).sum(axis=1) / wins.size


def _pooled(rows: HeldOutRows, metric: str, rng: np.random.Generator) -> list[float | None] | None:
    """Return the accuracy, or the predicted share of the variance within tasks, over the rows of all tasks."""
    parts = [(*_losses(rows.y[part], rows.predicted[part], metric), len(part)) for part in _of_tasks(rows) if len(part)]
    lost = np.concatenate([part for part, _, _ in parts])
    unit = sum(unit * n for _, unit, n in parts) / len(lost)
    if not unit > 0:
        return None
    found = [lost[rng.integers(len(lost), size=len(lost))].mean() for _ in range(BOOTSTRAP)]
    return numbers([1.0 - lost.mean() / unit, *(1.0 - np.quantile(found, TAILS[::-1]) / unit)])


def number(value: Any) -> float | None:
    """Return a number rounded to six digits, or None if it is not finite.

    >>> number(1 / 3), number(float("nan"))
    (0.333333, None)
    """
    return None if value is None or not np.isfinite(value) else float(f"{value:.6g}")


def numbers(values: Iterable[Any]) -> list[float | None]:
    """Return numbers rounded to six digits, None for those that are not finite."""
    return [number(value) for value in values]


def table(values: np.ndarray) -> list[list[float]]:
    """Return values (n, m) rounded to three decimals."""
    return [[float(value) for value in row] for row in np.round(values, 3) + 0.0]
