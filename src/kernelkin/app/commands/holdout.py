"""Rows that are held out of a table, and the scores of models on them, task by task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ...data import TaskData, read_training
from ...model_selection import Fold, Metric, read_scoring
from ...models import MeanRegressor

NAMES = {"r2": "R²", "roc_auc": "AUC"}


def as_tasks(tasks: np.ndarray, y: np.ndarray, *, classification: bool) -> TaskData:
    """Return the rows of a table as data of tasks, without features: what folds and scores are made from."""
    return read_training(MeanRegressor(), np.zeros((len(y), 1)), y, tasks, None, classification=classification)


def hold_out(data: TaskData, share: float, seed: int, *, classification: bool) -> Fold:
    """Hold out this share of every task, of every class of it, but never all rows of one."""
    rng = check_random_state(seed)
    held = []
    for y in data.y:
        parts = [np.flatnonzero(y == label) for label in np.unique(y)] if classification else [np.arange(len(y))]
        counts = [min(int(share * len(rows) + 0.5), len(rows) - 1) for rows in parts]
        drawn = [rng.permutation(rows)[:count] for rows, count in zip(parts, counts, strict=True)]
        held.append(np.sort(np.concatenate(drawn)))
    kept = [np.setdiff1d(np.arange(len(y)), rows) for y, rows in zip(data.y, held, strict=True)]
    return Fold(tuple(kept), tuple(held))


def read_metric(scoring: str, data: TaskData, *, classification: bool) -> Metric:
    """Return the metric of this name; one that ranks is refused where a task has more than two classes."""
    try:
        metric = read_scoring(scoring, classification=classification)
    except ValueError as error:
        raise ValueError(f"--scoring {scoring}: {error}") from None
    if metric.ranks and any(len(np.unique(y)) > 2 for y in data.y):
        raise ValueError(
            f"--scoring {scoring}: this score is for two classes, and a task has more: use --scoring accuracy"
        )
    return metric


def held_values(model: Any, X: np.ndarray, tasks: np.ndarray) -> np.ndarray:
    """Return the values (q, M) of the fitted functions at rows X (q, d) of these tasks (q,)."""
    return model.functions_.values(X, np.searchsorted(model.tasks_, tasks))


def split_by_task(values: np.ndarray, data: TaskData, fold: Fold, *, classification: bool) -> list[np.ndarray]:
    """Values (q, M) at the held-out rows of a fold -> those of each task, (q_t, m) with its number of outputs m."""
    _, held = fold.rows(data)
    found = []
    for rows, y, kept, part in zip(data.rows, data.y, fold.kept, fold.held, strict=True):
        n_classes = len(np.unique(y[kept])) if classification else 1
        found.append(values[np.searchsorted(held, rows[part]), : n_classes if n_classes > 2 else 1])
    return found


def score_name(scoring: str) -> str:
    return NAMES.get(scoring, scoring)


def mean(scores: Sequence[float] | np.ndarray) -> float:
    """Return the mean over the tasks whose score is defined."""
    values = np.asarray(scores, dtype=np.float64)
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


def shorten(rows: Sequence[list[str]], most: int = 20) -> Iterator[list[str]]:
    """The first and last rows of a long table, with a row between that gives the number of rows left out."""
    if len(rows) <= most:
        yield from rows
        return
    half = most // 2
    yield from rows[:half]
    yield [f"... {len(rows) - most} more ...", *[""] * (len(rows[0]) - 1)]
    yield from rows[-half:]
