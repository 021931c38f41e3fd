"""Evaluation on held-out rows: scores with intervals, and the rows that the page plots."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..relations.scores import LEAST_ROWS, LEVEL, WITHIN_MEANS
from ..relations.sharing import COVERAGE, NEW_ROWS
from .held_out import HeldOutRows

N_BINS = 10
# Rows that the page plots: if there are more than `MAX_ROWS`, a sample with at least `MIN_ROWS` rows of each task.
MAX_ROWS, MIN_ROWS = 4000, 8
BOOTSTRAP = 200
TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)


def evaluation_content(question: str, rows: HeldOutRows) -> dict[str, Any]:
    """Return the scores of all rows and of each task, and the data for the plots of predictions."""
    T = len(rows.tasks)
    found = {
        "question": question,
        "source": rows.source,
        "kind": "regression" if rows.classes is None else "classification",
        "tasks": [str(task) for task in rows.tasks.tolist()],
        "n_rows": len(rows.y),
        "level": LEVEL,
        "overall": _overall(rows, question == NEW_ROWS),
        "within_means": WITHIN_MEANS,
        "score": rows.group_score,
        "min_rows": LEAST_ROWS,
        "test_rows": np.bincount(rows.codes, minlength=T).tolist(),
        "task_score": numbers(rows.group_scores()),
        "sample": _sample(rows),
    }
    return found | (_regression(rows) if rows.classes is None else _classification(rows))


def _overall(rows: HeldOutRows, within: bool) -> list[list[Any]]:
    """Return name, value and the ends of a bootstrap interval of each score over all rows."""
    rng, n = np.random.default_rng(0), len(rows.y)
    drawn = [rows.scores(within=within, draw=rng.integers(n, size=n)) for _ in range(BOOTSTRAP)]
    found = []
    for name, value in rows.scores(within=within).items():
        known = [draw[name] for draw in drawn if np.isfinite(draw[name])]
        found.append([name, number(value), *(numbers(np.quantile(known, TAILS)) if known else (None, None))])
    return found


def _sample(rows: HeldOutRows) -> dict[str, Any]:
    """Return a sample of the rows of each task, or all rows if there are few."""
    parts = _of_tasks(rows)
    quota = max(MIN_ROWS, MAX_ROWS // max(len(parts), 1)) if len(rows.y) > MAX_ROWS else len(rows.y)
    rng = np.random.default_rng(0)
    kept = np.concatenate([part[np.sort(rng.permutation(len(part))[:quota])] for part in parts])
    found: dict[str, Any] = {"task": rows.codes[kept].tolist()}
    if rows.classes is not None:
        for name, labels in (("actual", rows.y), ("predicted", rows.predicted)):
            found[name] = np.searchsorted(rows.classes, labels[kept]).tolist()
        p = rows.values[kept]
        return found | {"probability": numbers(p[:, 1] if p.shape[1] == 2 else p.max(axis=1))}
    assert rows.ends is not None
    columns = {"actual": rows.y, "predicted": rows.values, "low": rows.ends[:, 0], "high": rows.ends[:, 1]}
    return found | {name: numbers(column[kept]) for name, column in columns.items()}


def _of_tasks(rows: HeldOutRows) -> list[np.ndarray]:
    """Return the positions of the rows of each task; rows are sorted by task."""
    counts = np.bincount(rows.codes, minlength=len(rows.tasks))
    return np.split(np.arange(len(rows.y)), np.cumsum(counts)[:-1])


def _regression(rows: HeldOutRows) -> dict[str, Any]:
    """Return errors in the units of the target, and the coverage of intervals."""
    errors = np.abs(rows.y - rows.values)
    return {
        "coverage": COVERAGE,
        "covered": number(rows.covered),
        "error": number(errors.mean()),
        "task_error": [number(errors[part].mean()) if len(part) else None for part in _of_tasks(rows)],
    }


def _classification(rows: HeldOutRows) -> dict[str, Any]:
    assert rows.classes is not None
    actual, predicted = (np.searchsorted(rows.classes, part) for part in (rows.y, rows.predicted))
    confusion = np.zeros((len(rows.classes),) * 2, dtype=np.intp)
    np.add.at(confusion, (actual, predicted), 1)
    # For two classes, the bins are for the second class.
    used = slice(1, None) if len(rows.classes) == 2 else slice(None)
    happened = (actual[:, np.newaxis] == np.arange(len(rows.classes)))[:, used].ravel()
    stated = rows.values[:, used].ravel()
    bins = [b for b in np.array_split(np.argsort(stated, kind="stable"), N_BINS) if len(b)]
    # The error of a task is the mean predicted probability of the wrong classes.
    errors = 1.0 - rows.values[np.arange(len(actual)), actual]
    return {
        "classes": [str(label) for label in rows.classes.tolist()],
        "confusion": confusion.tolist(),
        "reliability": [[float(stated[b].mean()), float(happened[b].mean()), len(b)] for b in bins],
        "task_error": [number(errors[part].mean()) if len(part) else None for part in _of_tasks(rows)],
    }


def number(value: Any) -> float | None:
    """Return a number rounded to six significant digits, or None if it is not finite.

    >>> number(1 / 3), number(float("nan"))
    (0.333333, None)
    """
    return None if value is None or not np.isfinite(value) else float(f"{value:.6g}")


def numbers(values: Iterable[Any]) -> list[float | None]:
    """Return numbers rounded to six significant digits; None for those that are not finite."""
    return [number(value) for value in values]


def table(values: np.ndarray) -> list[list[float]]:
    """Return values (n, m) rounded to three decimals."""
    return [[float(value) for value in row] for row in np.round(values, 3) + 0.0]
