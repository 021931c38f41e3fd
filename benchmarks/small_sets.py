"""Small multi-task problems of many kinds, in several runs each.

Training rows of the paper's four experiments (never their test rows), digits in three views, scikit-learn's sets made
multi-task, and tasks drawn at random.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.preprocessing import scale

from experiments import find_protocol
from experiments.data_sets import load_mfeat
from kernelkin.datasets import make_related_tasks

# X, y, tasks; tasks None for wide y.
Data = tuple[np.ndarray, np.ndarray, np.ndarray | None]


def data_sets(run: int) -> Iterator[tuple[str, bool, Data]]:
    """Name (its source is what is before a comma), whether to classify, and the data."""
    yield "stock", False, training_rows("stock", "2004", run)
    yield "landmine", True, training_rows("landmine", "80 rows, usual", run)
    yield "sarcos, 50 rows", False, training_rows("sarcos", "50 rows", run)
    yield "sarcos, 200 rows", False, training_rows("sarcos", "200 rows", run)
    yield "school", False, training_rows("school", "27 kernels", run, tasks=40)
    yield "mfeat", True, mfeat(run)
    yield "digits", True, digits(run)
    yield "diabetes", False, by_age(run)
    yield "cancer", True, by_texture(run)
    yield "wine", False, by_cultivar(run)
    yield "related, regression", False, related(run, n_samples=30)
    yield "related, classes", True, related(run, n_samples=40, regression=False)


def training_rows(name: str, setting: str, run: int, tasks: int | None = None) -> Data:
    """Training rows of an experiment's run in the first setting of that name, or of a name that begins like it.

    Only those of the first tasks where a number is given.
    """
    protocol = find_protocol(name)
    split = protocol.split(next(s for s in protocol.settings if s.name.startswith(setting)), run)
    if split.tasks is None:
        return split.X, split.y, None
    kept = np.isin(split.tasks, list(split.task_names)[:tasks])
    return split.X[kept], split.y[kept], split.tasks[kept]


def mfeat(run: int) -> Data:
    """Digits as Fourier, Karhunen-Loeve and Zernike coefficients."""
    data = load_mfeat()
    return one_against_rest(
        np.hstack([data.data[:, data.views[view]] for view in ("fou", "kar", "zer")]), data.target, run
    )


def digits(run: int) -> Data:
    """Digits as 8 x 8 pixels."""
    data = load_digits()
    return one_against_rest(data.data, data.target, run)


def one_against_rest(X: np.ndarray, y: np.ndarray, run: int) -> Data:
    """200 rows; ten digits are ten tasks."""
    rows = some_rows(len(y), 200, run)
    return scale(X[rows]), y[rows, np.newaxis] == np.arange(10), None


def by_age(run: int) -> Data:
    """The progress of diabetes in five groups of age."""
    X, y = load_diabetes(return_X_y=True)
    rows = some_rows(len(y), 300, run)
    return scale(X[rows]), y[rows], quantiles(X[rows, 0], 5)


def by_texture(run: int) -> Data:
    """Malign or benign, in four groups of texture."""
    X, y = load_breast_cancer(return_X_y=True)
    rows = some_rows(len(y), 240, run)
    return scale(X[rows]), y[rows], quantiles(X[rows, 1], 4)


def by_cultivar(run: int) -> Data:
    """The flavanoids of wines from what else was measured; three cultivars are three tasks."""
    X, cultivar = load_wine(return_X_y=True)
    rows = some_rows(len(X), 120, run)
    return scale(np.delete(X[rows], 6, axis=1)), X[rows, 6], cultivar[rows]


def related(run: int, **options: Any) -> Data:
    """Ten tasks in two groups, five kernels on two columns each."""
    made = make_related_tasks(10, 2, 5, random_state=run, **options)
    return made.data, made.target, made.tasks


def some_rows(n: int, size: int, run: int) -> np.ndarray:
    return np.random.default_rng(run).permutation(n)[:size]


def quantiles(values: np.ndarray, n_groups: int) -> np.ndarray:
    """Groups of equal size by values (n,) -> (n,) of 0 to n_groups - 1."""
    return np.digitize(values, np.quantile(values, np.linspace(0, 1, n_groups + 1)[1:-1]))
