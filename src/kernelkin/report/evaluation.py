"""How well held-out rows are predicted: scores with intervals, and the rows that the page draws."""

from __future__ import annotations

from typing import Any

import numpy as np

from .held_out import COVERAGE, HeldOutRows
from .scores import score_content
from .values import number, numbers

SCORES = {"r2": "R²", "accuracy": "accuracy", "roc_auc": "AUC"}
# Below this share of the rarer of two classes, accuracy says little.
RARE = 0.2
N_BINS = 10
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
