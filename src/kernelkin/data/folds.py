"""Cross-validation folds within each task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state

from .arrays import as_array, check_lengths
from .checks import read_groupings
from .forms import TaskData

# The fold of rows that stay in training throughout.
_ALWAYS_KEPT = -1


class Fold(NamedTuple):
    """Training and held-out rows, as positions within each task's rows."""

    kept: tuple[np.ndarray, ...]
    held: tuple[np.ndarray, ...]

    def rows(self, data: TaskData) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of X that any task trains on, and the rows of X that any task is tested on."""
        kept, held = (
            np.unique(np.concatenate([rows[part] for rows, part in zip(data.rows, parts, strict=True)]))
            for parts in self
        )
        return kept, held


class TaskKFold(BaseCrossValidator):
    """K-fold cross-validation within tasks: the rows of each task are split over all folds.

    `KFold` may leave a small task without training rows, and `GroupKFold` leaves out whole tasks. Here every training
    set has rows of every task. The row of a task with a single row is always in the training set.

    Parameters
    ----------
    n_splits : int, default 5
        Number of folds.
    stratify : bool, default False
        Whether to split each class of a task separately, so that the class counts of the folds differ by at most one.
        If a class has a single row in a task, that row is always in the training set.
    random_state : int, RandomState or None, default None
        Seed of the order in which rows are assigned to folds.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin.data import TaskKFold
    >>> tasks = np.repeat(["a", "b"], [4, 2])
    >>> for train, test in TaskKFold(2, random_state=0).split(np.zeros((6, 1)), groups=tasks):
    ...     print(tasks[train].tolist(), tasks[test].tolist())
    ['a', 'a', 'b'] ['a', 'a', 'b']
    ['a', 'a', 'b'] ['a', 'a', 'b']
    """

    # With metadata routing, scikit-learn passes either to `split` without a request.
    __metadata_request__split = {"groups": True, "tasks": True}  # noqa: RUF012

    def __init__(self, n_splits=5, *, stratify=False, random_state=None):
        self.n_splits = n_splits
        self.stratify = stratify
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, tasks: Any = None) -> int:
        """Return the number of folds; the arguments are ignored."""
        return self.n_splits

    def split(
        self, X: Any, y: Any = None, groups: Any = None, tasks: Any = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield training and test rows of each fold.

        Parameters
        ----------
        X : array of shape (n, d)
            The rows; only their number is used.
        y : array of shape (n,), default None
            The targets, required if `stratify` is True.
        groups, tasks : array of shape (n,)
            The task of each row, by either name. Of several groupings, the first is used.

        Yields
        ------
        train, test : arrays of positions
        """
        groups = tasks if groups is None else groups
        if groups is None or (self.stratify and y is None):
            what = "groups, the task of each row" if groups is None else "y if stratify=True"
            raise ValueError(f"TaskKFold needs {what}")
        if not 1 < self.n_splits < np.inf:
            raise ValueError(f"n_splits must be 2 or more, got {self.n_splits!r}")
        codes = np.unique(next(iter(read_groupings(groups).values())), return_inverse=True)[1]
        check_lengths(X, y=y, groups=codes)
        rows = [np.flatnonzero(codes == t) for t in range(codes.max() + 1)]
        classes = as_array(y, "y") if self.stratify else np.zeros(len(codes))
        rng = check_random_state(self.random_state)
        labels = _deal(len(codes), rows, [classes[part] for part in rows], self.n_splits, rng)
        if len(np.setdiff1d(np.arange(self.n_splits), labels)):
            raise ValueError(f"tasks have too few rows for {self.n_splits} folds: one has no test rows; lower n_splits")
        for fold in range(self.n_splits):
            yield np.flatnonzero(labels != fold), np.flatnonzero(labels == fold)


def make_folds(data: TaskData, cv: Any, *, classification: bool, random_state: Any = None) -> list[Fold]:
    """Return folds of the rows of each task.

    `cv` is a number of folds, a scikit-learn splitter, or the training and test rows of X for each fold. A splitter
    gets the tasks as groups. A number splits within each task, as `TaskKFold` does; in classification each class is
    split separately, so that no training set loses a class. On wide data it holds out a row for all tasks at once;
    masks (n, T) of training and test labels hold out a row for some tasks only.
    """
    if isinstance(cv, int | np.integer):
        rng = check_random_state(random_state)
        if data.form == "wide" and data.n_tasks > 1:
            labels = _wide_labels(data, classification, rng, int(cv))
        else:
            classes = [y if classification else np.zeros(len(y)) for y in data.y]
            labels = _deal(len(data.X), data.rows, classes, int(cv), rng)
        if (labels == _ALWAYS_KEPT).all():
            alone = "every class of every task has one row" if classification else "every task has one row"
            advice = "; to predict numbers, use a regressor" if classification else ""
            raise ValueError(f"cross-validation has no rows to hold out: {alone}, needed for training{advice}")
        cv = [(labels != k, labels == k) for k in range(int(cv)) if k in labels]
    elif hasattr(cv, "get_n_splits"):
        cv = _splits(data, cv)
    columns = data.n_tasks if data.form == "wide" else 1
    folds = [Fold(*(_positions(data, mask) for mask in masks)) for masks in given_folds(cv, len(data.X), columns)]
    _check(folds, data, classification)
    return folds


def given_folds(cv: Iterable[Any], n: int, columns: int = 1) -> Iterator[np.ndarray]:
    """Yield masks (2, n, columns) of the training and test rows of X, given as positions or masks for each fold."""
    for number, pair in enumerate(cv):
        masks = np.zeros((2, n, columns), dtype=bool)
        try:
            for mask, part in zip(masks, pair, strict=True):
                mask[np.asarray(part)] = True
        except (IndexError, TypeError, ValueError) as error:
            raise ValueError(f"cv: fold {number} is not a pair of training and test rows of X: {error}") from None
        yield masks


def _positions(data: TaskData, mask: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the positions of the rows of a mask (n, columns) within the rows of each task."""
    return tuple(np.flatnonzero(mask[rows, t % mask.shape[1]]) for t, rows in enumerate(data.rows))


def _deal(
    n: int, rows: Sequence[np.ndarray], classes: Sequence[np.ndarray], n_splits: int, rng: np.random.RandomState
) -> np.ndarray:
    """Return the fold of each row (n,), assigned in turn, class by class, within each task.

    `rows` and `classes` are those of each task. Fold sizes of a task differ by at most one.
    """
    labels = np.full(n, _ALWAYS_KEPT)
    for part, own in zip(rows, classes, strict=True):
        order = rng.permutation(len(own))
        order = order[np.argsort(own[order], kind="stable")]
        labels[part[order]] = rng.permutation(n_splits)[np.arange(len(own)) % n_splits]
        _, codes, counts = np.unique(own, return_inverse=True, return_counts=True)
        labels[part[counts[codes] == 1]] = _ALWAYS_KEPT
    return labels


def _splits(data: TaskData, cv: Any) -> Iterable[Any]:
    """Training and test rows of X from a splitter of scikit-learn."""
    tasks = np.zeros(len(data.X), dtype=np.intp)
    y = np.zeros(len(data.X), dtype=data.y[0].dtype)
    if data.form == "wide":
        return cv.split(data.X, None, tasks)
    for t, rows in enumerate(data.rows):
        tasks[rows], y[rows] = t, data.y[t]
    return cv.split(data.X, y, tasks)


def _wide_labels(data: TaskData, classification: bool, rng: np.random.RandomState, n_splits: int) -> np.ndarray:
    """Return the fold of each row of X. Rows of rare classes come first, each to the fold with the fewest of them."""
    n, used = len(data.X), np.unique(np.concatenate(data.rows))
    if not classification:
        return _deal(n, [used], [np.zeros(len(used))], n_splits, rng)
    labels = np.full(n, _ALWAYS_KEPT)
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


def _check(folds: list[Fold], data: TaskData, classification: bool) -> None:
    if len(folds) < 2:
        raise ValueError(f"cross-validation needs two or more folds, but cv gave {len(folds)}")
    for i, fold in enumerate(folds):
        for label, y, kept in zip(data.labels.tolist(), data.y, fold.kept, strict=True):
            if not len(kept):
                raise ValueError(f"fold {i} leaves task {label!r} no training rows")
            if classification and (y[kept] == y[kept][0]).all() and not (y == y[0]).all():
                raise ValueError(f"fold {i} leaves task {label!r} one class only in training ({y[kept][0].item()!r})")
