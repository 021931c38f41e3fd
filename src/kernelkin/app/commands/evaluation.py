"""Scores of predictions for held-out rows, task by task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import check_random_state

from ...model_selection.scoring import Metric, read_scoring

NAMES = {"r2": "R²", "roc_auc": "AUC"}


def holdout(tasks: np.ndarray, y: np.ndarray, share: float, seed: int, *, classification: bool) -> np.ndarray:
    """Which rows (n,) to hold out: this share of every task, of every class of it, but never all rows of one."""
    rng = check_random_state(seed)
    held = np.zeros(len(tasks), dtype=bool)
    for task in np.unique(tasks):
        own = np.flatnonzero(tasks == task)
        parts = [own[y[own] == label] for label in np.unique(y[own])] if classification else [own]
        for rows in parts:
            count = min(int(share * len(rows) + 0.5), len(rows) - 1)
            held[rng.permutation(rows)[:count]] = True
    return held


def folds(tasks: np.ndarray, y: np.ndarray, n_folds: int, seed: int, *, classification: bool) -> np.ndarray:
    """The fold of each row (n,), spread evenly over every task and class; -1 for rows that always train."""
    rng = check_random_state(seed)
    out = np.full(len(tasks), -1)
    for task in np.unique(tasks):
        own = np.flatnonzero(tasks == task)
        parts = [own[y[own] == label] for label in np.unique(y[own])] if classification else [own]
        begin = 0
        for rows in parts:
            if len(rows) > 1:
                out[rng.permutation(rows)] = (begin + np.arange(len(rows))) % n_folds
                begin += len(rows)
    return out


@dataclass
class HeldOut:
    """What a model gives for held-out rows: predictions, or decision values if the score ranks.

    Attributes
    ----------
    tasks, y : (n,) of all rows.
    values : (n,) of the held-out rows.
    fold : (n,) the fold in which a row was held out; -1 for rows that never were.
    """

    tasks: np.ndarray
    y: np.ndarray
    values: np.ndarray
    fold: np.ndarray

    @classmethod
    def empty(cls, tasks: np.ndarray, y: np.ndarray, metric: Metric) -> HeldOut:
        values = np.full(len(y), np.nan) if metric.ranks or y.dtype.kind == "f" else np.empty(len(y), dtype=y.dtype)
        return cls(tasks, y, values, np.full(len(y), -1))

    def record(self, values: np.ndarray, rows: np.ndarray, fold: int = 0) -> None:
        """Store the values of some rows."""
        self.values[rows] = values
        self.fold[rows] = fold

    def scores(self, metric: Metric, without: int | None = None) -> dict[Any, float]:
        """The score of each task, NaN where it is not defined; `without` leaves out a fold."""
        held = (self.fold >= 0) & (self.fold != (-1 if without is None else without))
        tasks = np.unique(self.tasks)
        return {task: self._score(metric, self.tasks == task, held) for task in tasks.tolist()}

    def _score(self, metric: Metric, own: np.ndarray, held: np.ndarray) -> float:
        y, values = self.y[own & held], self.values[own & held]
        if not len(y) or (y.dtype.kind == "f" and len(y) < 2):
            return float("nan")
        if metric.ranks:
            classes = np.unique(self.y[own])
            if len(classes) != 2:
                raise ValueError("this score is for two classes, and a task has more: use --scoring accuracy")
            y = y == classes[1]
            if y.all() or not y.any():
                return float("nan")
        return float(metric.function(y, values, np.ones(len(y))))

    def jackknife(self, metric: Metric) -> tuple[float, float]:
        """The mean over tasks, and its standard error by the jackknife over folds."""
        every = [fold for fold in np.unique(self.fold).tolist() if fold >= 0]
        without = np.array([mean(self.scores(metric, fold)) for fold in every])
        k = len(every)
        return mean(self.scores(metric)), float(np.sqrt((k - 1) / k * ((without - without.mean()) ** 2).sum()))


def metric_of(scoring: str, *, classification: bool) -> Metric:
    try:
        return read_scoring(scoring, classification=classification)
    except ValueError as error:
        raise ValueError(f"--scoring {scoring}: {error}") from None


def score_name(scoring: str) -> str:
    return NAMES.get(scoring, scoring)


def mean(scores: dict[Any, float]) -> float:
    """Over the tasks whose score is defined."""
    values = np.array(list(scores.values()))
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


def values_for(model: Any, X: np.ndarray, tasks: np.ndarray, metric: Metric) -> np.ndarray:
    """Predictions (n,) of rows X (n, d), or decision values if the score ranks."""
    if not metric.ranks or not is_classifier(model):
        return model.predict(X, tasks=tasks)
    values = model.decision_function(X, tasks=tasks)
    if values.ndim == 1:
        return values
    # The value of the second class of each row's task; of two classes one value is minus the other.
    second = np.array([np.flatnonzero(np.isfinite(row))[-1] for row in values])
    return values[np.arange(len(values)), second]


def shorten(rows: Sequence[list[str]], most: int = 20) -> Iterator[list[str]]:
    """The first and last rows of a long table, with a row between that gives the number of rows left out."""
    if len(rows) <= most:
        yield from rows
        return
    half = most // 2
    yield from rows[:half]
    yield [f"... {len(rows) - most} more ...", *[""] * (len(rows[0]) - 1)]
    yield from rows[-half:]
