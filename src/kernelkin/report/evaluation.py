"""How well held-out rows are predicted: scores with intervals, and the rows that the page draws."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data import TaskData
from ..relations import SharingReport
from ..relations.ablations import ABLATIONS, OURS
from ..relations.gains import BOOTSTRAP, HeldOutScores
from .held_out import COVERAGE, HeldOutRows
from .values import number, numbers

SCORES = {"r2": "R²", "accuracy": "accuracy", "roc_auc": "AUC"}
TITLES = {
    "independent": "Independent kernel learning",
    "average": "Average kernel, each task alone",
    "single": "One kernel, each task alone",
    "pooled": "Pooled model",
    "boosting": "Gradient boosting",
}
# Below this share of the rarer of two classes, accuracy says little.
RARE = 0.2
LEVEL = 0.95
TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
N_BINS = 10
# Rows that the page draws, of all tasks and of one at least; test rows of a task whose score is shown.
MAX_ROWS, LEAST_ROWS, MIN_ROWS = 4000, 8, 5


def evaluation_content(rows: HeldOutRows, metric: str | None = None) -> dict[str, Any]:
    """Scores of all tasks, and what the pictures of predictions are drawn from."""
    metric = metric if metric in SCORES else _default_metric(rows)
    found = {
        "metric": metric,
        "score": SCORES[metric],
        "level": LEVEL,
        "source": rows.source,
        "tasks": [str(task) for task in rows.tasks.tolist()],
        "n_rows": int(sum(map(len, rows.y))),
        **_scores(rows, metric),
        "sample": _sample(rows),
    }
    return found | (_classification(rows) if rows.classification else _regression(rows))


def _default_metric(rows: HeldOutRows) -> str:
    if not rows.classification:
        return "r2"
    shares = np.unique(np.concatenate([y for y in rows.y if len(y)]), return_counts=True)[1] / sum(map(len, rows.y))
    return "roc_auc" if rows.values is not None and len(shares) == 2 and shares.min() < RARE else "accuracy"


def _scores(rows: HeldOutRows, metric: str) -> dict[str, Any]:
    """The score of each task and their mean, with intervals by resampling the rows of every task."""
    T, there = len(rows.tasks), [t for t, y in enumerate(rows.y) if len(y)]
    values = rows.values if metric == "roc_auc" else rows.predicted
    assert values is not None
    score, low, high = (np.full(T, np.nan) for _ in range(3))
    scored = HeldOutScores(
        _task_data(rows, there), *_tested(rows, values, there), metric, MIN_ROWS, np.random.RandomState(0)
    )
    used = np.array(there)[scored.used]
    drawn = scored.drawn[:, 0, scored.used]
    mean = None
    if len(used):
        score[used] = scored.scores[0][scored.used]
        low[used], high[used] = np.quantile(drawn, TAILS, axis=0)
        mean = numbers([score[used].mean(), *np.quantile(drawn.mean(axis=1), TAILS)])
    return {
        "mean": mean,
        "median": number(np.median(score[used])) if len(used) else None,
        "pooled": None if metric == "roc_auc" else _pooled(rows),
        "n_scored": len(used),
        "min_rows": MIN_ROWS,
        "test_rows": [len(y) for y in rows.y],
        "task_score": numbers(score),
        "task_low": numbers(low),
        "task_high": numbers(high),
    }


def _pooled(rows: HeldOutRows) -> list[float | None] | None:
    """The score of the rows of all tasks together, with its interval.

    Accuracy, or the share of the variance within tasks that is predicted.
    """
    pairs = [(y, p) for y, p in zip(rows.y, rows.predicted, strict=True) if len(y)]
    if rows.classification:
        lost, total = np.concatenate([(y != p).astype(float) for y, p in pairs]), np.ones(sum(len(y) for y, _ in pairs))
    else:
        lost = np.concatenate([(y - p) ** 2 for y, p in pairs])
        total = np.concatenate([(y - y.mean()) ** 2 for y, _ in pairs])
    if not total.sum() > 0:
        return None
    draws = np.random.default_rng(0).integers(len(lost), size=(BOOTSTRAP, len(lost)))
    found = 1.0 - lost[draws].mean(axis=1) / total.mean()
    return numbers([1.0 - lost.mean() / total.mean(), *np.quantile(found, TAILS)])


def _task_data(rows: HeldOutRows, tasks: list[int]) -> TaskData:
    """The targets of some of the tasks; there are no features."""
    y = tuple(rows.y[t] for t in tasks)
    ends = np.cumsum([len(part) for part in y])
    places = tuple(np.arange(end - len(part), end) for part, end in zip(y, ends, strict=True))
    return TaskData(np.empty((ends[-1], 0)), places, y, np.ones(ends[-1]), rows.tasks[tasks], "long")


def _tested(rows: HeldOutRows, values: tuple[np.ndarray, ...], tasks: list[int]) -> tuple[list[np.ndarray], dict]:
    return [np.ones(len(rows.y[t]), dtype=bool) for t in tasks], {OURS: [[values[t] for t in tasks]]}


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


def comparison_content(report: SharingReport) -> dict[str, Any]:
    """The models of a sharing report with their scores, and what the model gains on each."""
    models = []
    for name, summary in report.summaries.items():
        gain = report.gains.get(name)
        models.append(
            {
                "name": name,
                "title": report.name if name == OURS else TITLES.get(name, name),
                "about": "" if name == OURS else ABLATIONS.get(name, ""),
                "ours": name == OURS,
                "mean": number(summary.tasks),
                "rows": number(summary.rows),
                "median": number(summary.median),
                "gain": gain and [number(gain.mean.tasks), number(gain.low.tasks), number(gain.high.tasks)],
                "sign": gain and gain.sign,
                "ahead": gain and gain.ahead,
                "behind": gain and gain.behind,
                "task_score": numbers(report.scores[name]),
            }
        )
    return {
        "score": SCORES[report.score],
        "level": report.level,
        "n_tasks": int(report.used.sum()),
        "n_rows": int(report.test_rows[report.used].sum()),
        "tasks": [str(task) for task in report.tasks.tolist()],
        "models": models,
        "verdict": report.verdict.removeprefix("Recommendation: "),
    }
