"""Repeated cross-validation inside the tasks: what every model sees, and its values for the rows left out."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..data import Fold, Table, TaskData, make_folds


@dataclass(frozen=True)
class Split:
    """Training and test entries of one fold: an entry is a row of X with the label of one task.

    Attributes
    ----------
    data : all entries.
    fold : positions within each task's rows.
    ranks : whether decision values are needed, instead of labels.
    """

    data: TaskData
    fold: Fold
    ranks: bool

    @property
    def labels(self) -> np.ndarray:
        return self.data.labels

    @property
    def wide(self) -> bool:
        return self.data.form == "wide"

    @cached_property
    def _rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows of X in training and in test; entries of long data keep their own order."""
        if self.wide:
            return self.fold.rows(self.data)
        kept, held = (
            np.concatenate([rows[part] for rows, part in zip(self.data.rows, parts, strict=True)])
            for parts in (self.fold.kept, self.fold.held)
        )
        return kept, held

    @property
    def codes(self) -> np.ndarray:
        """The task of each training entry."""
        return np.repeat(np.arange(self.data.n_tasks), list(map(len, self.fold.kept)))

    @property
    def test_codes(self) -> np.ndarray:
        return np.repeat(np.arange(self.data.n_tasks), list(map(len, self.fold.held)))

    @property
    def y(self) -> np.ndarray:
        """Targets of the training entries."""
        return np.concatenate([y[part] for y, part in zip(self.data.y, self.fold.kept, strict=True)])

    @property
    def place(self) -> np.ndarray:
        """Where each training entry is among the training rows."""
        return self._place(self.fold.kept, self._rows[0])

    @property
    def test_place(self) -> np.ndarray:
        return self._place(self.fold.held, self._rows[1])

    def _place(self, parts: tuple[np.ndarray, ...], among: np.ndarray) -> np.ndarray:
        rows = np.concatenate([rows[part] for rows, part in zip(self.data.rows, parts, strict=True)])
        return np.searchsorted(among, rows) if self.wide else np.arange(len(rows))

    def groupings(self) -> tuple[Any, Any]:
        """The tasks of training and of test entries as `fit` takes them, with further groupings where there are any."""
        first = self.labels[self.codes], self.labels[self.test_codes]
        if not self.data.groupings:
            return first
        further = [[grouping.labels[grouping.codes[rows]] for grouping in self.data.groupings] for rows in self._rows]
        train, test = (dict(enumerate([labels, *others])) for labels, others in zip(first, further, strict=True))
        return train, test

    def learnable_tasks(self) -> np.ndarray:
        """Positions of the tasks that can be learned on their own: with two training rows, and two classes, or more."""
        parts = [y[kept] for y, kept in zip(self.data.y, self.fold.kept, strict=True)]
        return np.flatnonzero([len(y) > 1 and (y.dtype.kind == "f" or (y != y[0]).any()) for y in parts])

    def select(self, tasks: np.ndarray) -> Split:
        """The same with some of the tasks, by position."""
        fold = Fold(tuple(self.fold.kept[t] for t in tasks), tuple(self.fold.held[t] for t in tasks))
        return Split(self.data.select(tasks), fold, self.ranks)

    def constants(self) -> np.ndarray:
        """For each test entry the mean of its task's training targets, or the first class; zero where ranks count."""
        parts = [y[kept] for y, kept in zip(self.data.y, self.fold.kept, strict=True)]
        if self.ranks:
            return np.zeros(len(self.test_codes))
        return np.array([y.mean() if y.dtype.kind == "f" else y[0] for y in parts])[self.test_codes]

    def columns(self, scaled: bool) -> tuple[np.ndarray, np.ndarray]:
        """X of the training and of the test rows; columns standardised by training rows where `scaled`."""
        X, (kept, held) = self.data.X, self._rows
        if X.ndim == 3:
            return X[np.ix_(kept, kept)], X[np.ix_(held, kept)]
        train, test = np.asarray(X[kept], dtype=np.float64), np.asarray(X[held], dtype=np.float64)
        if not scaled:
            return train, test
        center, scale = train.mean(axis=0), train.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        return (train - center) / scale, (test - center) / scale

    def with_names(self, X: np.ndarray) -> np.ndarray | Table:
        """Columns (q, d) as the model's `fit` had them: with names, where they have names."""
        if self.data.feature_names is None or X.ndim == 3:
            return X
        return Table(self.data.feature_names, tuple(X.T), ("float64",) * X.shape[1], self.data.feature_origins)

    def wide_targets(self) -> np.ndarray:
        """Targets (rows, T) of the training rows, missing where a task has none."""
        y = self.y
        dtype = np.float64 if y.dtype.kind in "fiub" else object
        found = np.full((len(self._rows[0]), self.data.n_tasks), np.nan, dtype=dtype)
        found[self.place, self.codes] = y
        return found

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation (T,) of the training targets of each task; few rows share that of all."""
        parts = [y[kept].astype(np.float64) for y, kept in zip(self.data.y, self.fold.kept, strict=True)]
        sizes = np.array(list(map(len, parts)))
        variance = np.array([part.var() for part in parts])
        pooled = float((sizes * variance).sum() / sizes.sum())
        shrunk = (sizes * variance + 5.0 * pooled) / (sizes + 5.0)
        return np.array([part.mean() for part in parts]), np.sqrt(np.where(shrunk > 0, shrunk, 1.0))


def held_out_values(
    data: TaskData,
    models: Mapping[str, Callable[[Split], np.ndarray]],
    *,
    folds: list[list[Fold]],
    ranks: bool,
    callback: Callable[[int, int, str], None] | None = None,
    time_limit: float | None = None,
) -> dict[str, list[list[np.ndarray]]]:
    """Values of every model for rows left out: for each repetition and task, in the order of the task's rows.

    A repetition after the first is begun only if it is expected to end within `time_limit` seconds from the start.
    """
    found: dict[str, list[list[np.ndarray]]] = {name: [] for name in models}
    began, done = time.perf_counter(), 0
    for r, repetition in enumerate(folds):
        if r and time_limit is not None and (time.perf_counter() - began) * (r + 1) / r > time_limit:
            break
        # With a limit it is not known whether there will be another repetition.
        expected = folds if time_limit is None else folds[: r + 1]
        total = sum(map(len, expected)) * len(models)
        for name, fit in models.items():
            values = [np.full(len(y), np.nan) if ranks or y.dtype.kind == "f" else y.copy() for y in data.y]
            for fold in repetition:
                if callback is not None:
                    callback(done, total, f"{name}, repetition {r + 1} of {len(expected)}")
                _predict_fold(Split(data, fold, ranks), fit, values)
                done += 1
            found[name].append(values)
    return found


def _predict_fold(split: Split, fit: Callable[[Split], np.ndarray], values: list[np.ndarray]) -> None:
    """Write a model's values for the rows that a fold leaves out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predicted = fit(split)
    held = split.fold.held
    for t, part in enumerate(np.split(predicted, np.cumsum(list(map(len, held)))[:-1])):
        values[t][held[t]] = part


def tested_rows(data: TaskData, folds: list[Fold]) -> list[np.ndarray]:
    """Which of each task's rows are left out in one of the folds; rare classes and single rows never are."""
    found = [np.zeros(len(y), dtype=bool) for y in data.y]
    for fold in folds:
        for mask, part in zip(found, fold.held, strict=True):
            mask[part] = True
    return found


def repeated_folds(
    data: TaskData, cv: int, n_repeats: int, *, classification: bool, rng: np.random.RandomState
) -> list[list[Fold]]:
    """Folds of each repetition."""
    seeds = rng.randint(2**31 - 1, size=n_repeats)
    return [make_folds(data, cv, classification=classification, random_state=int(seed)) for seed in seeds]
