"""Folds that are made inside every task."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .forms import TaskData

# The fold of rows that stay in training throughout.
_ALWAYS_KEPT = -1


@dataclass(frozen=True)
class Fold:
    """Training and held-out rows, as positions within each task's rows."""

    kept: tuple[np.ndarray, ...]
    held: tuple[np.ndarray, ...]

    def rows(self, data: TaskData) -> tuple[np.ndarray, np.ndarray]:
        """The same as rows of X: those that any task trains on, and those that any task is judged on."""
        kept, held = (
            np.unique(np.concatenate([rows[part] for rows, part in zip(data.rows, parts, strict=True)]))
            for parts in (self.kept, self.held)
        )
        return kept, held


def make_folds(data: TaskData, cv: Any, *, classification: bool, random_state: Any = None) -> list[Fold]:
    """Folds of the rows of each task.

    `cv` is a number of folds, or training and test rows of X for each fold; on wide data these may be masks (n, T) of
    labels, so that a row is held out for some of the tasks. A number makes folds inside every task. In
    classification every class of a task is spread over the folds, so that no training part loses a class; where a class
    or a task has a single row, that row stays in training. On wide data a row is held out for all tasks at once.
    """
    if not isinstance(cv, int | np.integer):
        folds = _given_folds(data, cv)
    elif data.form == "wide" and data.n_tasks > 1:
        labels = _wide_labels(data, classification, check_random_state(random_state), int(cv))
        folds = _folds([labels[rows] for rows in data.rows], int(cv))
    else:
        rng = check_random_state(random_state)
        folds = _folds([_spread(y if classification else np.zeros(len(y)), int(cv), rng) for y in data.y], int(cv))
    if not folds and isinstance(cv, int | np.integer):
        alone = "every class of every task has one row" if classification else "every task has one row"
        advice = "; numbers are predicted by a regressor, not by classes" if classification else ""
        raise ValueError(f"cross-validation has no row to hold out: {alone}, which training needs{advice}")
    _check(folds, data, classification)
    return folds


def _folds(labels: list[np.ndarray], n_splits: int) -> list[Fold]:
    every = [
        Fold(
            kept=tuple(np.flatnonzero(label != fold) for label in labels),
            held=tuple(np.flatnonzero(label == fold) for label in labels),
        )
        for fold in range(n_splits)
    ]
    return [fold for fold in every if any(map(len, fold.held))]


def _spread(classes: np.ndarray, n_splits: int, rng: np.random.RandomState) -> np.ndarray:
    """The fold of each row of one task: class by class in turn, so that classes and folds differ by one row at most."""
    order = rng.permutation(len(classes))
    order = order[np.argsort(classes[order], kind="stable")]
    labels = np.empty(len(classes), dtype=np.intp)
    labels[order] = rng.permutation(n_splits)[np.arange(len(classes)) % n_splits]
    _, codes, counts = np.unique(classes, return_inverse=True, return_counts=True)
    labels[counts[codes] == 1] = _ALWAYS_KEPT
    return labels


def _wide_labels(data: TaskData, classification: bool, rng: np.random.RandomState, n_splits: int) -> np.ndarray:
    """The fold of each row of X. Rows with the rarest classes go first, each to the fold that has fewest of these."""
    n = len(data.X)
    labels = np.full(n, _ALWAYS_KEPT)
    used = np.unique(np.concatenate(data.rows))
    if not classification:
        labels[used] = _spread(np.zeros(len(used)), n_splits, rng)
        return labels
    classes = [
        rows[y == name] for rows, y in zip(data.rows, data.y, strict=True) for name in np.unique(y)
    ]  # each class of each task, as rows of X
    rarest = np.full(n, len(classes))
    for c in sorted(range(len(classes)), key=lambda c: -len(classes[c])):
        rarest[classes[c]] = c
    for row in sorted(rng.permutation(used), key=lambda row: len(classes[rarest[row]])):
        same = np.bincount(labels[classes[rarest[row]]] + 1, minlength=n_splits + 1)[1:]
        size = np.bincount(labels + 1, minlength=n_splits + 1)[1:]
        labels[row] = np.lexsort((size, same))[0]
    for members in classes:
        if len(set(labels[members].tolist())) == 1:
            labels[members[0]] = _ALWAYS_KEPT
    return labels


def _given_folds(data: TaskData, cv: Iterable[Any]) -> list[Fold]:
    folds = []
    for number, pair in enumerate(cv):
        try:
            train, test = pair
            kept, held = (_mask(part, data) for part in (train, test))
        except (IndexError, TypeError, ValueError) as error:
            raise ValueError(f"cv: fold {number} is not a pair of training and test rows of X: {error}") from None
        folds.append(
            Fold(
                kept=tuple(np.flatnonzero(kept[rows, t]) for t, rows in enumerate(data.rows)),
                held=tuple(np.flatnonzero(held[rows, t]) for t, rows in enumerate(data.rows)),
            )
        )
    return folds


def _mask(part: Any, data: TaskData) -> np.ndarray:
    """Rows of X, or a mask (n, T) of labels of wide data -> a mask (n, T)."""
    shape = len(data.X), data.n_tasks
    part = np.asarray(part)
    if part.ndim == 2 and data.form == "wide":
        if part.dtype != bool or part.shape != shape:
            raise ValueError(f"a mask of labels must be of booleans and of shape {shape}")
        return part
    return np.repeat(np.isin(np.arange(len(data.X)), _positions(part, len(data.X)))[:, np.newaxis], shape[1], axis=1)


def _positions(part: Any, n: int) -> np.ndarray:
    part = np.asarray(part)
    return np.flatnonzero(part) if part.dtype == bool else np.arange(n)[part]


def _check(folds: list[Fold], data: TaskData, classification: bool) -> None:
    if len(folds) < 2:
        raise ValueError(f"cross-validation needs two folds or more, and cv gave {len(folds)}")
    for i, fold in enumerate(folds):
        for label, y, kept in zip(data.labels.tolist(), data.y, fold.kept, strict=True):
            if not len(kept):
                raise ValueError(f"fold {i} leaves task {label!r} no training rows")
            if classification and (y[kept] == y[kept][0]).all() and not (y == y[0]).all():
                raise ValueError(f"fold {i} leaves task {label!r} one class only in training ({y[kept][0].item()!r})")
