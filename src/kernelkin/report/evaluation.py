"""How well held-out rows are predicted: scores with intervals, and the rows that the page draws."""

from __future__ import annotations

from typing import Any

import numpy as np

from .held_out import COVERAGE, HeldOutRows
from .values import number, numbers

SCORES = {"r2": "R²", "accuracy": "accuracy", "roc_auc": "AUC"}
# Below this share of the rarer of two classes, accuracy says little.
RARE = 0.2
N_BINS = 10
LEVEL = 0.95
TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
BOOTSTRAP = 300
# Test rows of a task whose score is shown: those of fewer rows are noise.
MIN_ROWS = 5
# Rows that the page draws, of all tasks at most and of one at least.
MAX_ROWS, LEAST_ROWS = 4000, 8


def evaluation_content(rows: HeldOutRows, metric: str | None = None) -> dict[str, Any]:
    """Scores of all tasks, and what the pictures of predictions are drawn from."""
    metric = metric if metric in SCORES else _default_metric(rows)
    found = {
        "metric": metric,
        "score": SCORES[metric],
        "source": rows.source,
        "tasks": [str(task) for task in rows.tasks.tolist()],
        "n_rows": int(sum(map(len, rows.y))),
        **score_content(rows, metric),
        "sample": _sample(rows),
    }
    return found | (_classification(rows) if rows.classification else _regression(rows))


def _default_metric(rows: HeldOutRows) -> str:
    if not rows.classification:
        return "r2"
    shares = np.unique(np.concatenate([y for y in rows.y if len(y)]), return_counts=True)[1] / sum(map(len, rows.y))
    return "roc_auc" if rows.values is not None and len(shares) == 2 and shares.min() < RARE else "accuracy"


def _sample(rows: HeldOutRows) -> dict[str, Any]:
    """Some rows of every task; where there are few, all."""
    counts = np.array([len(y) for y in rows.y])
    quota = max(LEAST_ROWS, MAX_ROWS // max(len(counts), 1))
    quota = quota if counts.sum() > MAX_ROWS else int(counts.max())
    rng = np.random.default_rng(0)
    kept = [np.sort(rng.permutation(n)[:quota]) for n in counts]
    found: dict[str, Any] = {"task": [t for t, part in enumerate(kept) for _ in part]}
    if rows.classes is not None and rows.probabilities is not None:
        for name, labels in (("actual", rows.y), ("predicted", rows.predicted)):
            found[name] = [
                int(np.searchsorted(rows.classes, v)) for y, k in zip(labels, kept, strict=True) for v in y[k]
            ]
        last = [p[k, 1] if len(rows.classes) == 2 else p[k].max(axis=1) for p, k in _pairs(rows.probabilities, kept)]
        return found | {"probability": numbers(np.concatenate(last))}
    found |= {name: numbers(np.concatenate([v[k] for v, k in _pairs(part, kept)])) for name, part in _columns(rows)}
    return found


def _pairs(parts: Any, kept: list[np.ndarray]) -> Any:
    return zip(parts, kept, strict=True)


def _columns(rows: HeldOutRows) -> list[tuple[str, Any]]:
    assert rows.ends is not None
    ends = [[part[:, end] for part in rows.ends] for end in (0, 1)]
    return [("actual", rows.y), ("predicted", rows.predicted), ("low", ends[0]), ("high", ends[1])]


def _regression(rows: HeldOutRows) -> dict[str, Any]:
    """Errors in the units of the target, and how often intervals contain it."""
    assert rows.ends is not None
    triples = list(zip(rows.y, rows.predicted, rows.ends, strict=True))
    errors = [np.abs(y - p) for y, p, _ in triples]
    inside = [(e[:, 0] <= y) & (y <= e[:, 1]) for y, _, e in triples]
    return {
        "kind": "regression",
        "coverage": COVERAGE,
        "covered": number(np.concatenate(inside).mean()),
        "task_covered": [number(part.mean()) if len(part) else None for part in inside],
        "error": number(np.concatenate(errors).mean()),
        "task_error": [number(part.mean()) if len(part) else None for part in errors],
    }


def _classification(rows: HeldOutRows) -> dict[str, Any]:
    assert rows.classes is not None and rows.probabilities is not None
    C = len(rows.classes)
    actual, predicted = (np.searchsorted(rows.classes, np.concatenate(part)) for part in (rows.y, rows.predicted))
    confusion = np.zeros((C, C), dtype=np.intp)
    np.add.at(confusion, (actual, predicted), 1)
    return {
        "kind": "classification",
        "classes": [str(label) for label in rows.classes.tolist()],
        "confusion": confusion.tolist(),
        "reliability": reliability_bins(np.concatenate(rows.probabilities), actual),
    }


def reliability_bins(probabilities: np.ndarray, actual: np.ndarray) -> list[list[float]]:
    """Mean probability, frequency and number of rows, in bins of equal numbers of rows; of two classes the second.

    Probabilities (n, C), the class of each row (n,).
    """
    used = slice(1, None) if probabilities.shape[1] == 2 else slice(None)
    happened = (actual[:, np.newaxis] == np.arange(probabilities.shape[1]))[:, used].ravel()
    stated = probabilities[:, used].ravel()
    bins = [b for b in np.array_split(np.argsort(stated, kind="stable"), N_BINS) if len(b)]
    return [[float(stated[b].mean()), float(happened[b].mean()), len(b)] for b in bins]


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
