"""The data sets of the comparison: a name, the number of training rows, and splits into training and test rows.

Twelve are those of `small_sets`. Where these are training rows of an experiment of the paper, a quarter of them is held
out, so that its test rows play no part; otherwise rows that `small_sets` leaves out are the test rows. Then come the
paper's four with the test rows of their own, digits in six views, and tasks made by `predict_made`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine

from experiments import find_protocol
from kernelkin.datasets import load_mfeat, make_related_tasks

from .predict_made import MADE
from .small_sets import Data, quantiles, some_rows, training_rows

MAX_TEST_ROWS = 1000


@dataclass(frozen=True)
class Problem:
    """Training and test rows of one split; tasks are None for wide y (n, T)."""

    X: np.ndarray
    y: np.ndarray
    tasks: np.ndarray | None
    X_test: np.ndarray
    y_test: np.ndarray
    tasks_test: np.ndarray | None


@dataclass(frozen=True)
class DataSet:
    """A source of problems.

    Attributes
    ----------
    name : unique.
    source : sets of one source count as one in means over data sets.
    classification : whether targets are classes.
    size : number of labels in training, over all tasks.
    rows_per_task : training rows of a task, on average.
    make : from the number of a split to its problem.
    """

    name: str
    source: str
    classification: bool
    size: int
    rows_per_task: int
    make: Callable[[int], Problem]


def data_sets() -> dict[str, DataSet]:
    """All data sets by name."""
    found = [
        DataSet("stock, training rows", "stock", False, 171, 19, partial(within_training, "stock", "2004")),
        DataSet("landmine, training rows", "landmine", True, 1140, 60,
                partial(within_training, "landmine", "80 rows, usual")),
        DataSet("sarcos 50, training rows", "sarcos", False, 266, 38, partial(within_training, "sarcos", "50 rows")),
        DataSet("sarcos 200, training rows", "sarcos", False, 1050, 150,
                partial(within_training, "sarcos", "200 rows")),
        DataSet("school 40, training rows", "school", False, 2220, 55,
                partial(within_training, "school", "27 kernels", tasks=40)),
        DataSet("mfeat, three views", "mfeat", True, 2000, 200, partial(mfeat, ("fou", "kar", "zer"), 200)),
        DataSet("digits", "digits", True, 2000, 200, digits),
        DataSet("diabetes", "diabetes", False, 300, 60, diabetes),
        DataSet("cancer", "cancer", True, 240, 60, cancer),
        DataSet("wine", "wine", False, 120, 40, wine),
        DataSet("related, regression", "related", False, 300, 30, partial(related, True, 30)),
        DataSet("related, classes", "related", True, 400, 40, partial(related, False, 40)),
        DataSet("stock", "stock", False, 225, 25, partial(experiment, "stock", "2004")),
        *(
            DataSet(f"landmine {fields}, {rows} rows", "landmine", True, 19 * rows, rows,
                    partial(experiment, "landmine", f"{rows} rows, {fields}"))
            for fields in ("usual", "literal") for rows in (30, 80)
        ),
        *(
            DataSet(f"sarcos, {rows} rows", "sarcos", False, 7 * rows, rows,
                    partial(experiment, "sarcos", f"{rows} rows"))
            for rows in (50, 200)
        ),
        DataSet("school, 20 schools", "school", False, 1400, 70,
                partial(experiment, "school", "27 kernels", tasks=20)),
        DataSet("school", "school", False, 9217, 66, partial(experiment, "school", "27 kernels")),
        DataSet("mfeat, six views", "mfeat", True, 1000, 100,
                partial(mfeat, ("fou", "fac", "kar", "pix", "zer", "mor"), 100)),
        *(
            DataSet(f"made: {name}", name.rpartition(",")[0] or name, False, sum(rows), int(np.mean(rows)),
                    partial(made, kind, rows))
            for name, kind, rows in MADE
        ),
    ]  # fmt: skip
    return {each.name: each for each in found}


def experiment(name: str, setting: str, split: int, tasks: int | None = None) -> Problem:
    """Training and test rows of an experiment's run, of the first tasks where a number is given."""
    protocol = find_protocol(name)
    rows = protocol.split(next(s for s in protocol.settings if s.name.startswith(setting)), split)
    if rows.tasks is None or rows.tasks_test is None:
        return Problem(rows.X, rows.y, None, rows.X_test, rows.y_test, None)
    names = list(rows.task_names)[:tasks]
    train, test = np.isin(rows.tasks, names), np.isin(rows.tasks_test, names)
    return Problem(
        *(part[train] for part in (rows.X, rows.y, rows.tasks)),
        *(part[test] for part in (rows.X_test, rows.y_test, rows.tasks_test)),
    )


def within_training(name: str, setting: str, split: int, tasks: int | None = None) -> Problem:
    """Three quarters of an experiment's training rows for training, the others for testing."""
    X, y, labels = training_rows(name, setting, split, tasks)
    rng = np.random.default_rng([split, 25])
    held = np.zeros(len(X), dtype=bool)
    # Classes in proportion, and two rows of each class at least stay in training.
    groups = np.zeros(len(X)) if labels is None else np.unique(labels, return_inverse=True)[1]
    classes = y if name == "landmine" else np.zeros(len(X))
    for task in np.unique(groups):
        for label in np.unique(classes):
            rows = rng.permutation(np.flatnonzero((groups == task) & (classes == label)))
            held[rows[: min(round(len(rows) / 4), max(len(rows) - 2, 0))]] = True
    return _divide((X, y, labels), held)


def mfeat(views: tuple[str, ...], size: int, split: int) -> Problem:
    """Digits in several views; ten digits are ten tasks."""
    data = _mfeat()
    return _one_against_rest(np.hstack([data.data[:, data.views[view]] for view in views]), data.target, size, split)


@cache
def _mfeat():
    return load_mfeat()


def digits(split: int) -> Problem:
    """Digits as 8 x 8 pixels."""
    data = load_digits()
    return _one_against_rest(data.data, data.target, 200, split)


def diabetes(split: int) -> Problem:
    """The progress of diabetes in five groups of age."""
    X, y = load_diabetes(return_X_y=True)
    rows = some_rows(len(y), 300, split)
    return _rest((X, y, quantiles(X[:, 0], 5)), rows)


def cancer(split: int) -> Problem:
    """Malign or benign, in four groups of texture."""
    X, y = load_breast_cancer(return_X_y=True)
    rows = some_rows(len(y), 240, split)
    return _rest((X, y, quantiles(X[:, 1], 4)), rows)


def wine(split: int) -> Problem:
    """The flavanoids of wines from what else was measured; three cultivars are three tasks."""
    X, cultivar = load_wine(return_X_y=True)
    rows = some_rows(len(X), 120, split)
    return _rest((np.delete(X, 6, axis=1), X[:, 6], cultivar), rows)


def related(regression: bool, n_samples: int, split: int) -> Problem:
    """Ten tasks in two groups, five kernels on two columns each."""
    found = make_related_tasks(10, 2, 5, n_samples=n_samples, regression=regression, test_size=100, random_state=split)
    return Problem(found.data, found.target, found.tasks, found.data_test, found.target_test, found.tasks_test)


def made(kind: Callable[[np.random.Generator, list[int]], Data], rows: tuple[int, ...], split: int) -> Problem:
    """Tasks with so many training rows, and 200 test rows each."""
    rng = np.random.default_rng([split, 16])
    X, y, tasks = kind(rng, [n + 200 for n in rows])
    first = np.concatenate([np.arange(n + 200) < n for n in rows])
    return _divide((X, y, tasks), ~first)


def _one_against_rest(X: np.ndarray, y: np.ndarray, size: int, split: int) -> Problem:
    return _rest((X, (y[:, np.newaxis] == np.arange(10)).astype(np.int64), None), some_rows(len(y), size, split))


def _rest(data: Data, rows: np.ndarray) -> Problem:
    """These rows train, others test."""
    n = len(data[0])
    others = np.setdiff1d(np.arange(n), rows)
    others = np.random.default_rng(0).permutation(others)[:MAX_TEST_ROWS]
    order = np.concatenate([rows, others])
    X, y, tasks = data
    held = np.arange(len(order)) >= len(rows)
    return _divide((X[order], y[order], None if tasks is None else tasks[order]), held)


def _divide(data: Data, held: np.ndarray) -> Problem:
    X, y, tasks = data
    parts = [(X[rows], y[rows], None if tasks is None else tasks[rows]) for rows in (~held, held)]
    return Problem(*parts[0], *parts[1])
