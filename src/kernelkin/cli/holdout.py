"""Rows that are held out of a table, and the scores of models on them, task by task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from ..data import Queries, TaskData, read_training
from ..paper.model_selection import Fold, Metric, make_folds, read_scoring
from ..tables import TableSchema

if TYPE_CHECKING:
    from pandas import DataFrame

NAMES = {"r2": "R²", "roc_auc": "AUC"}


def as_tasks(tasks: np.ndarray | None, y: Any, *, classification: bool) -> TaskData:
    """Return the rows of a table as data of tasks, without features: what folds and scores are made from."""
    return read_training(np.zeros((len(y), 1)), y, tasks, classification=classification)


def hold_out(data: TaskData, share: float, seed: int, *, classification: bool) -> Fold:
    """Hold out this share of every task, of every class of it, but never all rows of one.

    A task with one class keeps its rows in training. On wide data rows are held out for all tasks at once.
    """
    if data.form == "wide":
        return make_folds(data, max(2, round(1 / share)), classification=classification, random_state=seed)[0]
    rng = check_random_state(seed)
    held = []
    for y in data.y:
        parts = [np.flatnonzero(y == label) for label in np.unique(y)] if classification else [np.arange(len(y))]
        # A fit needs two rows of a task, or one of each class.
        least = 1 if classification else 2
        share_of_task = 0.0 if classification and len(parts) == 1 else share
        counts = [max(min(int(share_of_task * len(rows) + 0.5), len(rows) - least), 0) for rows in parts]
        drawn = [rng.permutation(rows)[:count] for rows, count in zip(parts, counts, strict=True)]
        held.append(np.sort(np.concatenate(drawn)))
    kept = [np.setdiff1d(np.arange(len(y)), rows) for y, rows in zip(data.y, held, strict=True)]
    return Fold(tuple(kept), tuple(held))


def last_rows(data: TaskData, count: int) -> Fold:
    """Hold out the last rows of the table."""
    first = len(data.X) - count
    kept = tuple(np.flatnonzero(rows < first) for rows in data.rows)
    return Fold(kept, tuple(np.flatnonzero(rows >= first) for rows in data.rows))


def without_tasks(fold: Fold, tasks: set[int]) -> Fold:
    """Return the fold without the rows of these tasks, by position."""
    none = np.zeros(0, dtype=np.intp)
    kept, held = (
        tuple(none if t in tasks else rows for t, rows in enumerate(parts)) for parts in (fold.kept, fold.held)
    )
    return Fold(kept, held)


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


def held_values(model: Any, schema: TableSchema, frame: DataFrame) -> np.ndarray:
    """Return the values (q, M) of the fitted functions at the rows of a table; of a regression, in its units.

    Where every target is a task, the values are (q, T, M).
    """
    tasks = schema.tasks(frame)
    codes = None if tasks is None else np.searchsorted(model.tasks_, tasks)
    X = schema.encode(frame)
    if not schema.regression and len(model.classes_) > 2 and hasattr(model.functions_, "probabilities"):
        return _own_classes(model, model.functions_.probabilities(Queries(X, codes)), codes)
    values = model.functions_.values(X, codes)
    return schema.restore(values[..., 0])[..., np.newaxis] if schema.regression else values


def _own_classes(model: Any, p: np.ndarray, codes: np.ndarray | None) -> np.ndarray:
    """Probabilities (q, C) or (q, T, C) of all classes -> values of the classes of each task, in the first columns."""
    out = np.zeros(p.shape)
    logs = np.log(np.maximum(p, 1e-12))
    for t, own in enumerate(model.task_classes_):
        rows = (slice(None), t) if codes is None else codes == t
        values = logs[rows][:, np.searchsorted(model.classes_, own)]
        values = values[:, 1:] - values[:, :1] if len(own) == 2 else values
        found = out[rows]
        found[:, : values.shape[1]] = values
        out[rows] = found
    return out


def split_by_task(values: np.ndarray, data: TaskData, fold: Fold, *, classification: bool) -> list[np.ndarray]:
    """Values (q, M) or (q, T, M) at the held-out rows of a fold -> those of each task, (q_t, m) with m outputs."""
    _, held = fold.rows(data)
    found = []
    for t, (rows, y, kept, part) in enumerate(zip(data.rows, data.y, fold.kept, fold.held, strict=True)):
        n_classes = len(np.unique(y[kept])) if classification else 1
        own = values if values.ndim == 2 else values[:, t]
        found.append(own[np.searchsorted(held, rows[part]), : n_classes if n_classes > 2 else 1])
    return found


def overall_scores(
    data: TaskData, fold: Fold, outputs: Sequence[np.ndarray], *, classification: bool
) -> dict[str, float]:
    """Scores over the held-out rows of all tasks together; outputs (q_t, m) of each task."""
    y = np.concatenate([own[held] for own, held in zip(data.y, fold.held, strict=True)])
    if data.form == "wide" and not classification:
        # Targets have units of their own.
        parts = [
            1.0 - float(np.mean((own[held] - values[:, 0]) ** 2)) / float(np.var(own[held]))
            for own, held, values in zip(data.y, fold.held, outputs, strict=True)
            if len(held) and np.ptp(own[held]) > 0
        ]
        return {"mean R²": mean(parts)}
    if not classification:
        error = y - np.concatenate(outputs)[:, 0]
        variance = float(np.var(y))
        r2 = 1.0 - float(np.mean(error**2)) / variance if variance > 0 else float("nan")
        return {"RMSE": float(np.sqrt(np.mean(error**2))), "R²": r2}
    predicted = []
    for own, kept, values in zip(data.y, fold.kept, outputs, strict=True):
        if len(values):
            classes = np.unique(own[kept])
            best = values.argmax(axis=1) if len(classes) != 2 else (values[:, 0] > 0).astype(np.intp)
            predicted.append(classes[best])
    return {"accuracy": float(np.mean(y == np.concatenate(predicted)))}


def score_name(scoring: str) -> str:
    return NAMES.get(scoring, scoring)


def mean(scores: Sequence[float] | np.ndarray) -> float:
    """Return the mean over the tasks whose score is defined."""
    values = np.asarray(scores, dtype=np.float64)
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


def common_means(scores: dict[str, Sequence[float]]) -> dict[str, float]:
    """Return the mean score of each model over the tasks that all models have a score of."""
    everywhere = np.isfinite(list(scores.values())).all(axis=0)
    return {name: mean(np.asarray(values)[everywhere]) for name, values in scores.items()}


def shorten(rows: Sequence[list[str]], most: int = 20) -> Iterator[list[str]]:
    """The first and last rows of a long table, with a row between that gives the number of rows left out."""
    if len(rows) <= most:
        yield from rows
        return
    half = most // 2
    yield from rows[:half]
    yield [f"... {len(rows) - most} more ...", *[""] * (len(rows[0]) - 1)]
    yield from rows[-half:]
