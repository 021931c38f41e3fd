"""Probabilities and intervals of a model on rows that were held out, in the numbers that a report draws."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...data import Fold, TaskData

COVERAGE = 0.9
N_BINS = 10
# Points of the picture of predictions, at most.
MAX_POINTS = 300


def held_uncertainty(
    model: Any, X: np.ndarray, tasks: Any, data: TaskData, fold: Fold, schema: Any, known: Any
) -> dict[str, Any]:
    """Judge a fitted model on the held-out rows of a fold.

    Parameters
    ----------
    model : fitted on the other rows
    X, tasks : the held-out rows, encoded, and their tasks; None on wide data
    data, fold : all rows with their targets, and which of them are held out
    schema, known : from units of the model, and of the targets, to those of the table
    """
    if hasattr(model, "predict_proba"):
        return _reliability(model.predict_proba(X, tasks), model.classes_, data, fold)
    ends, predicted = model.predict_interval(X, tasks, COVERAGE), model.predict(X, tasks)
    columns = [schema.restore(values) for values in (predicted, ends[..., 0], ends[..., 1])]
    parts = [
        np.column_stack([values, known.restore(y)]) for values, y in _by_task(np.stack(columns, axis=-1), data, fold)
    ]
    inside = [(part[:, 1] <= part[:, 3]) & (part[:, 3] <= part[:, 2]) for part in parts]
    points = np.vstack(parts)
    kept = np.random.default_rng(0).permutation(len(points))[:MAX_POINTS]
    return {
        "coverage": COVERAGE,
        "covered": [int(part.sum()) for part in inside],
        "rows": [len(part) for part in inside],
        "points": points[kept].tolist(),
    }


def _reliability(p: np.ndarray, classes: np.ndarray, data: TaskData, fold: Fold) -> dict[str, Any]:
    """Mean probability, frequency and number of rows, in bins of equal numbers of rows; of two classes the second."""
    used = slice(1, None) if len(classes) == 2 else slice(None)
    pairs = [(part[:, used], (y[:, None] == classes)[:, used]) for part, y in _by_task(p, data, fold)]
    predicted, happened = (np.concatenate([pair[i].ravel() for pair in pairs]) for i in (0, 1))
    bins = [b for b in np.array_split(np.argsort(predicted, kind="stable"), N_BINS) if len(b)]
    return {
        "bins": [[float(predicted[b].mean()), float(happened[b].mean()), len(b)] for b in bins],
        "label": str(classes[1]) if len(classes) == 2 else None,
    }


def _by_task(values: np.ndarray, data: TaskData, fold: Fold) -> list[tuple[np.ndarray, np.ndarray]]:
    """Values (q, m), or (q, T, m), at the held-out rows -> those of each task, and its targets."""
    _, held = fold.rows(data)
    found = []
    for t, (rows, y, part) in enumerate(zip(data.rows, data.y, fold.held, strict=True)):
        at = np.searchsorted(held, rows[part])
        found.append((values[at, t] if values.ndim == 3 else values[at], y[part]))
    return found
