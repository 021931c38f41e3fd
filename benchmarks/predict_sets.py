"""The data sets of the three suites: a name, the number of training rows, and splits into training and test rows.

- "standardised": the paper's four experiments, with their own test rows and (named "training rows") with a quarter of
  their training rows held out; sets of scikit-learn made multi-task; digits in several views; tasks of known truth.
  Targets are standardised task by task.
- "grouped": 14 real data sets with groups, from `grouped.zip` in the folder KERNELKIN_DATA. Targets keep their units.
- "later": six of these; the first rows of each group in time train, those that follow test.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine

from experiments import find_protocol
from experiments.data_sets import load_mfeat
from kernelkin.datasets import make_related_tasks

from .small_sets import Data, quantiles, some_rows, training_rows

# Name -> number of splits.
SUITES = {"standardised": 10, "grouped": 5, "later": 1}
MAX_TEST_ROWS = 1000
# Of `grouped.zip`: groups, training rows of each, whether targets are classes.
GROUPED = {
    "autism": (113, 3, False),
    "chick": (49, 5, False),
    "contraception": (55, 12, True),
    "crime": (90, 3, False),
    "dropouts": (300, 3, False),
    "gasoline": (18, 6, False),
    "hsb": (160, 10, False),
    "milk": (79, 5, False),
    "nlschools": (128, 6, False),
    "produc": (48, 6, False),
    "radon": (46, 4, False),
    "sleepstudy": (18, 4, False),
    "theoph": (12, 5, False),
    "verbagg": (100, 10, True),
}
# The column of time, and the number of training rows.
LATER = {
    "sleepstudy": ("Days", 108),
    "chick": ("Time", 337),
    "milk": ("Time", 783),
    "autism": ("age2", 267),
    "produc": ("year", 480),
    "gasoline": ("year", 198),
}
MAX_EARLY_ROWS = 12
# Spread of the noise of made tasks.
NOISE = 0.3
Function = Callable[[np.ndarray], np.ndarray]


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
    suite : one of `SUITES`.
    """

    name: str
    source: str
    classification: bool
    size: int
    rows_per_task: int
    make: Callable[[int], Problem]
    suite: str = "standardised"


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
        *(
            DataSet(name, name, classes, n * rows, rows, partial(grouped, name), "grouped")
            for name, (n, rows, classes) in GROUPED.items()
        ),
        *(
            DataSet(f"{name}, later", name, False, size, size // GROUPED[name][0], partial(later, name), "later")
            for name, (_, size) in LATER.items()
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


def grouped(name: str, split: int) -> Problem:
    """Rows of known groups; the splits are part of the data."""
    table, splits = _read_grouped(name)
    held = np.ones(len(table), dtype=bool)
    held[splits[split]] = False
    return _divide(_arrays(table), held)


def later(name: str, split: int) -> Problem:
    """The first 60% of each group in time train, at most 12 rows; half as many that follow test. There is one split."""
    table = _read_grouped(name)[0].sort_values(LATER[name][0], kind="stable")
    place = table.groupby("task").cumcount().to_numpy()
    size = table.groupby("task")["task"].transform("size").to_numpy()
    first = np.minimum(np.round(0.6 * size), MAX_EARLY_ROWS)
    used = place < first + first // 2
    return _divide(_arrays(table[used]), (place >= first)[used])


@cache
def _read_grouped(name: str) -> tuple[Any, list[list[int]]]:
    """A table with columns task, target and numbers, and the training rows of each split."""
    import pandas as pd

    with ZipFile(Path(os.environ["KERNELKIN_DATA"]) / "grouped.zip") as archive, archive.open(f"{name}.csv") as file:
        return pd.read_csv(file, dtype={"task": str}), json.loads(archive.read("splits.json"))[name]


def _arrays(table: Any) -> Data:
    return table.iloc[:, 2:].to_numpy(float), table["target"].to_numpy(), table["task"].to_numpy(str)


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


def shared(rng: np.random.Generator, rows: list[int]) -> Data:
    """One function of five columns for all tasks, but for an offset of each."""
    f = draw_function(rng, 5)
    return assemble(rng, rows, 5, [shifted(f, rng.normal(0, 0.3)) for _ in rows])


def groups(rng: np.random.Generator, rows: list[int]) -> Data:
    """Three groups of tasks; each has its function, and each task adds a smaller one of its own."""
    common = [draw_function(rng, 5) for _ in range(3)]
    return assemble(rng, rows, 5, [add(common[t % 3], 0.3, draw_function(rng, 5)) for t in range(len(rows))])


def nothing(rng: np.random.Generator, rows: list[int]) -> Data:
    """A function of its own for each task."""
    return assemble(rng, rows, 5, [draw_function(rng, 5) for _ in rows])


def one_column(rng: np.random.Generator, rows: list[int]) -> Data:
    """One of twenty columns carries the signal, with an amplitude and a phase of each task."""
    column = int(rng.integers(20))
    amplitudes, phases = rng.uniform(0.7, 1.5, len(rows)), rng.uniform(-0.8, 0.8, len(rows))
    return assemble(rng, rows, 20, [wave(column, np.sqrt(2) * a, p) for a, p in zip(amplitudes, phases, strict=True)])


def partly(rng: np.random.Generator, rows: list[int]) -> Data:
    """One function for all tasks, and a smaller one of each."""
    f = draw_function(rng, 5)
    return assemble(rng, rows, 5, [add(f, 0.5, draw_function(rng, 5)) for _ in rows])


def spreads(rng: np.random.Generator, rows: list[int]) -> Data:
    """The same, with targets whose units differ by factors up to 10,000."""
    X, y, tasks = partly(rng, rows)
    assert tasks is not None
    scale, shift = 10 ** rng.uniform(-2, 2, len(rows)), rng.normal(0, 3, len(rows))
    return X, (y + shift[tasks]) * scale[tasks], tasks


def draw_function(rng: np.random.Generator, d: int, width: float = 3.0) -> Function:
    """A draw of variance one from the Gaussian process with a Gaussian kernel, by 300 random frequencies."""
    frequencies, phases = rng.normal(0, 1 / width, (300, d)), rng.uniform(0, 2 * np.pi, 300)
    weights = rng.normal(0, np.sqrt(2 / 300), 300)
    return lambda X: np.cos(X @ frequencies.T + phases) @ weights


def add(f: Function, share: float, g: Function) -> Function:
    return lambda X: f(X) + share * g(X)


def shifted(f: Function, shift: float) -> Function:
    return lambda X: f(X) + shift


def wave(column: int, amplitude: float, phase: float) -> Function:
    return lambda X: amplitude * np.sin(2 * X[:, column] + phase)


def assemble(rng: np.random.Generator, rows: list[int], d: int, functions: list[Function]) -> Data:
    """Rows of all tasks, normal and independent; targets with noise."""
    tasks = np.repeat(np.arange(len(rows)), rows)
    X = rng.normal(size=(len(tasks), d))
    y = np.concatenate([f(X[tasks == t]) for t, f in enumerate(functions)])
    return X, y + NOISE * rng.normal(size=len(y)), tasks


# Name, what to draw, training rows of each task. make_folds needs a row of every task in training in every fold.
MADE: list[tuple[str, Callable, tuple[int, ...]]] = [
    *((f"one function, {n} rows", shared, (n,) * 10) for n in (10, 50)),
    *((f"groups, {n} rows", groups, (n,) * 12) for n in (15, 60)),
    *((f"nothing in common, {n} rows", nothing, (n,) * 8) for n in (20, 80)),
    *((f"one column of twenty, {n} rows", one_column, (n,) * 8) for n in (20, 80)),
    ("4 to 200 rows", partly, tuple(np.geomspace(4, 200, 12).round().astype(int).tolist())),
    *((f"different spreads, {n} rows", spreads, (n,) * 8) for n in (20, 80)),
]
