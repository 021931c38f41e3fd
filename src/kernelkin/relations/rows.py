"""The rows of all tasks in one list: features of the kernel that tasks share, targets as numbers, tasks as codes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..data import TaskData


@dataclass(frozen=True)
class PooledRows:
    """One entry for each label: on wide data a row of X has an entry for each task.

    Attributes
    ----------
    features : (n, m) features of the rows.
    targets : (n, M) targets; classes as 1 and -1.
    codes : (n,) the task of each entry, from 0, ascending.
    rows : (n,) the row of X of each entry.
    """

    features: np.ndarray
    targets: np.ndarray
    codes: np.ndarray
    rows: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """Entries of each task (T,)."""
        return np.bincount(self.codes)

    @property
    def starts(self) -> np.ndarray:
        """The first entry of each task (T,)."""
        return np.concatenate([[0], np.cumsum(self.sizes)[:-1]])

    def select(self, tasks: np.ndarray) -> PooledRows:
        """Entries of some tasks (ascending positions), which become tasks 0, 1, ..."""
        kept = np.flatnonzero(np.isin(self.codes, tasks))
        found = self.take(kept)
        return replace(found, codes=np.searchsorted(tasks, found.codes))

    def take(self, entries: np.ndarray) -> PooledRows:
        """Some entries, ascending."""
        return PooledRows(self.features[entries], self.targets[entries], self.codes[entries], self.rows[entries])

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Sums over the entries of each task: (n, ...) -> (T, ...)."""
        return np.add.reduceat(values, self.starts, axis=0)

    def means(self, values: np.ndarray) -> np.ndarray:
        """The mean of each task, at each of its entries: (n, q) -> (n, q)."""
        return (self.sums(values) / self.sizes[:, np.newaxis])[self.codes]


def pool(data: TaskData, features: np.ndarray, *, classification: bool) -> PooledRows:
    """Data of tasks and features (n, m) of the rows of X -> their entries, targets on one scale.

    Targets of rows that belong to one task each are in the same units, and divided by their pooled spread. The columns
    of wide targets may have units of their own: each is divided by its own spread.
    """
    rows = np.concatenate(data.rows)
    codes = np.repeat(np.arange(data.n_tasks), [len(part) for part in data.rows])
    targets = _indicators(data) if classification else np.concatenate(data.y).astype(np.float64)[:, np.newaxis]
    found = PooledRows(features[rows], targets, codes, rows)
    centred = np.square(targets - found.means(targets)).sum(axis=1, keepdims=True)
    own = not classification and data.form == "wide"
    spread = np.sqrt(found.means(centred)) if own else np.full((len(rows), 1), np.sqrt(centred.mean()))
    return replace(found, targets=targets / np.where(spread > 0, spread, 1.0))


def _indicators(data: TaskData) -> np.ndarray:
    """Classes as numbers (n, M): one column of 1 and -1 where every task has two classes, otherwise one a class."""
    classes = [np.unique(y) for y in data.y]
    if all(len(found) == 2 for found in classes):
        signs = [np.where(y == found[1], 1.0, -1.0) for y, found in zip(data.y, classes, strict=True)]
        return np.concatenate(signs)[:, np.newaxis]
    labels = np.unique(np.concatenate(classes))
    return np.where(np.concatenate(data.y)[:, np.newaxis] == labels, 1.0, -1.0)
