"""Convert multi-task data to the rows of mixed kernel models."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components
from sklearn.utils import check_random_state

from ..data.arrays import in_order
from ..data.folds import given_folds
from ..data.forms import TaskData
from ..kernels.families import is_precomputed, source_kernels
from ..kernels.kernel import evaluate
from ..paper.fitting.targets import check_class_weight, task_classes, weights_of_classes

# With more columns than this, columns of an array share their parameters.
OWN_PARAMETERS = 60
GROUP_FOLDS = 5


@dataclass(frozen=True)
class LabelledRows:
    """Rows with targets, in the form used by mixed models."""

    rows: np.ndarray  # (N,) rows of X
    codes: np.ndarray  # (N,) the task of each row; zeros if the columns of y are tasks
    y: np.ndarray  # (N,) or (N, T) targets as passed by the user
    wide: bool  # whether the columns of y are tasks

    @classmethod
    def of(cls, data: TaskData, keep_columns: bool) -> LabelledRows:
        """Return one row per label; for wide data with `keep_columns` and no missing labels, tasks stay columns."""
        first = data.rows[0]
        shared = data.form == "wide" and data.n_tasks > 1 and keep_columns
        if shared and all(rows is first or np.array_equal(rows, first) for rows in data.rows):
            return cls(first, np.zeros(len(first), dtype=np.intp), np.column_stack(data.y), True)
        codes = np.repeat(np.arange(data.n_tasks), [len(rows) for rows in data.rows])
        return cls(np.concatenate(data.rows), codes, np.concatenate(data.y), False)

    def take(self, places: np.ndarray) -> LabelledRows:
        """Return the rows at these positions."""
        return LabelledRows(self.rows[places], self.codes[places], self.y[places], self.wide)


@dataclass(frozen=True)
class ClassCodes:
    """Encoding of classes as numbers."""

    classes: np.ndarray  # (C,) all classes
    of_task: tuple[np.ndarray, ...]  # the classes of each task; a task with a single class uses those of similar tasks
    by_task: bool  # whether each task has its own two classes, coded by their order
    possible: np.ndarray  # (T, C) whether a task may have a class

    @classmethod
    def of(cls, data: TaskData) -> ClassCodes:
        of_task = tuple(task_classes(data))
        classes = np.unique(np.concatenate(of_task))
        has = np.array([np.isin(classes, own) for own in of_task])
        # A few rows may lack a class: impossible are only those of tasks with none in common.
        part = connected_components(has.T.astype(np.float64) @ has)[1]
        possible = has if data.form == "wide" else part == part[has.argmax(axis=1)][:, None]
        counts = {len(own) for own in of_task} | set(possible.sum(axis=1).tolist())
        return cls(classes, of_task, len(classes) > 2 and counts == {2}, possible)

    @property
    def is_binary(self) -> bool:
        return self.by_task or len(self.classes) <= 2

    def encode(self, y: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Encode labels (N,) as zeros and ones (N, 1) or indicators (N, C), and wide labels (N, T) as (N, T)."""
        if y.ndim == 2:
            return (y == np.array([own[-1] for own in self.of_task])).astype(np.float64)
        if self.by_task:
            return (y == np.array([own[1] for own in self.of_task])[codes]).astype(np.float64)[:, None]
        return (y[:, None] == self.classes[-1 if self.is_binary else 0 :]).astype(np.float64)


@dataclass(frozen=True)
class GivenKernels:
    """User-supplied kernels, scaled to mean diagonal one on the training rows."""

    kernels: tuple[Any, ...] | None  # fitted kernels; None if X holds their values
    X: np.ndarray  # (N, d) training rows
    factors: np.ndarray  # (K,) scale factors
    names: tuple[str, ...]  # names of the kernels
    rows: np.ndarray  # (N,) positions in X of the training rows

    @classmethod
    def fit(
        cls, kernels: Any, data: TaskData, rows: np.ndarray, weight: np.ndarray
    ) -> tuple[GivenKernels, tuple[np.ndarray, ...]]:
        """Return the kernels and their values (N, N) at rows with these weights (N,)."""
        if is_precomputed(kernels):
            X, fitted = data.X, None
            stack = np.moveaxis(data.X[np.ix_(rows, rows)], 2, 0)
            names = tuple(f"kernel {k}" for k in range(len(stack)))
        else:
            fitted = tuple(source_kernels(kernels, data))
            X = np.asarray(data.X[rows], dtype=np.float64)
            stack, names = evaluate(fitted, X), tuple(kernel.name for kernel in fitted)
        diagonal = np.array([np.average(np.diagonal(values), weights=weight) for values in stack])
        factors = np.where(diagonal > 0, 1.0 / np.where(diagonal > 0, diagonal, 1.0), 0.0)
        found = cls(fitted, np.empty((0, 0)) if fitted is None else X, factors, names, rows)
        return found, tuple(np.asarray(values) * factor for values, factor in zip(stack, factors, strict=True))

    def at(self, X: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the kernel values (q, N) at rows (q, d), or at precomputed values (q, n, K)."""
        stack = np.moveaxis(X[:, self.rows], 2, 0) if self.kernels is None else evaluate(self.kernels, X, self.X)
        return tuple(np.asarray(values) * factor for values, factor in zip(stack, self.factors, strict=True))


def column_families(data: TaskData, X: np.ndarray) -> np.ndarray:
    """Return the family (d,) of each feature: features of one table column, or all features if there are many."""
    d = X.shape[1]
    if data.feature_origins is not None:
        named = [f"{column}\0{part}" for column, part in data.feature_origins]
        families = np.unique(named, return_inverse=True)[1]
    else:
        families = np.arange(d)
    return families if families.max(initial=-1) < OWN_PARAMETERS else np.zeros(d, dtype=np.intp)


def join_cells(labelled: LabelledRows, data: TaskData, folds: np.ndarray) -> np.ndarray:
    """Return folds (N,) in which rows that differ only in their class are held out together.

    If rows are weighted, such rows are the successes and failures of the same trials.
    """
    keys = row_keys(replace(labelled, y=np.zeros(len(labelled.rows))), data)
    cells = np.unique(np.stack([keys, labelled.codes.astype(np.uint64)], axis=1), axis=0, return_inverse=True)[1]
    first = np.unique(cells.ravel(), return_index=True)[1]
    return folds[first][cells.ravel()]


def class_weights(class_weight: Any, codes: ClassCodes, labelled: LabelledRows, weight: np.ndarray) -> np.ndarray:
    """Return row weights (N,) multiplied by the weights of their classes within their tasks."""
    if class_weight is None:
        return weight
    check_class_weight(class_weight, set(codes.classes.tolist()))
    out = weight.copy()
    for t, classes in enumerate(codes.of_task):
        rows = np.flatnonzero(labelled.codes == t)
        own = np.searchsorted(classes, labelled.y[rows])
        out[rows] *= weights_of_classes(class_weight, classes, own, weight[rows])[own]
    return out


def row_keys(labelled: LabelledRows, data: TaskData) -> np.ndarray:
    """Return a hash (N,) of the content of each row, independent of its position and of units."""
    if data.X.ndim == 3:  # kernel values, whose columns are training rows
        return np.arange(len(labelled.rows), dtype=np.uint64)
    targets = labelled.y.reshape(len(labelled.rows), -1).T
    further = (grouping.codes[labelled.rows] for grouping in data.groupings)
    columns = (data.X[labelled.rows, j] for j in range(data.X.shape[1]))
    offset = [] if data.offset is None else [data.offset[labelled.rows]]
    keys, factors = np.zeros(len(labelled.rows), dtype=np.uint64), np.random.RandomState(0)
    for column in chain(targets, further, columns, offset):
        ranks = np.unique(column, return_inverse=True)[1].ravel().astype(np.uint64)
        keys += ranks * np.uint64(2 * factors.randint(2**62, dtype=np.int64) + 1)
    return keys


def in_order_of_content(labelled: LabelledRows, keys: np.ndarray) -> np.ndarray:
    """Return an order of the rows that depends neither on their original order nor on task names."""
    of_task = np.zeros(int(labelled.codes.max()) + 1, dtype=np.uint64)
    np.add.at(of_task, labelled.codes, keys * keys)
    return np.lexsort((keys, labelled.codes, of_task[labelled.codes]))


def merge_copies(
    labelled: LabelledRows, keys: np.ndarray, folds: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Merge rows that are equal, including their targets and folds, and add up their weights.

    Return the positions (M,) of the remaining rows, their weights (M,), and the new position (N,) of each row.
    """
    together = np.stack([keys, labelled.codes.astype(np.uint64), folds.astype(np.uint64)], axis=1)
    _, first, inverse = np.unique(together, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.argsort(order)
    return first[order], np.bincount(inverse.ravel(), weight)[order], rank[inverse.ravel()]


def row_folds(labelled: LabelledRows, data: TaskData, cv: Any, classification: bool, random_state: Any) -> np.ndarray:
    """Return the fold (N,) of each row, -1 for rows that are never held out.

    If `cv` is a number, the rows of each task are assigned to folds in turn, class by class; a task with fewer rows
    than folds is missing in some of them. If it is "groups", whole tasks are assigned to five folds. If it is an
    iterable of pairs of training and test rows of X, the test rows of each pair are a fold; all others train.
    """
    N, by_groups = len(labelled.rows), isinstance(cv, str)
    if by_groups and cv != "groups":
        raise ValueError(f'cv must be a number, "groups" or folds of rows, got {cv!r}')
    folds = np.full(N, -1)
    if by_groups:
        cv = GROUP_FOLDS
    if not isinstance(cv, int | np.integer):
        for number, (train, test) in enumerate(given_folds(cv, len(data.X))):
            train, test = train[labelled.rows, 0], test[labelled.rows, 0]
            if not test.any() or test.all() or (train == test).any() or (folds[test] >= 0).any():
                raise ValueError(f"cv: fold {number} must hold out rows of no other fold, and train on all other rows")
            folds[test] = number
        return folds
    rng = check_random_state(random_state)
    count = min(int(cv), N)
    if count < 2:
        return folds
    # Tasks are numbered in the order of rows, independent of their names.
    codes = in_order(labelled.codes)
    every, first = rng.permutation(N), rng.randint(count, size=int(codes.max()) + 1)
    if by_groups and len(first) > 1:
        return (rng.permutation(len(first)) % count)[codes]
    kinds = np.zeros(N, dtype=np.intp)
    if classification:
        kinds = np.unique(labelled.y, axis=0, return_inverse=True)[1].ravel()
    shared = data.form == "wide" and data.n_tasks > 1 and not labelled.wide
    if shared:
        # A row of X is held out for all of its tasks.
        rows = in_order(labelled.rows)
        return (rng.permutation(rows.max() + 1) % count)[rows]
    order = every[np.lexsort((kinds[every], codes[every]))]
    starts = np.searchsorted(codes[order], np.arange(len(first)))
    place = np.arange(N) - starts[codes[order]]
    folds[order] = (place + first[codes[order]]) % count
    if np.ptp(folds) == 0:
        # If tasks have one row each, all rows may be in one fold by chance, and none would be left for training.
        folds[order] = np.arange(N) % count
    return np.unique(folds, return_inverse=True)[1]
