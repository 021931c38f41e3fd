"""Exam scores of 139 schools: explained variance of each school, averaged."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from sklearn.utils import Bunch

from kernelkin import STLRegressor, gaussian_kernels, linear_kernels
from kernelkin.paper import MeanRegressor, MTFLRegressor, MTRLRegressor

from .data_sets import load_school
from .metrics import EXPLAINED
from .protocol import Goal, Model, Protocol, Setting, Split, read_remarks
from .rows import PUBLISHED, our_row, paper_rows

FEW, MANY = Setting("27 kernels"), Setting("338 kernels")
# One bandwidth on each attribute: most are binary, and a Gaussian of two values is the same kernel at any width but
# for a factor and a constant, which the intercept has.
EACH = gaussian_kernels(1.0, relative=False, per_feature=True)
# The paper's: 13 bandwidths (those of stock) on each of 26 attributes. We have 27 columns, two of them for the gender:
# each is the other one turned round, and has the same Gaussians. The second is left out.
N_COLUMNS, SECOND_GENDER = 27, 6
ATTRIBUTES = [column for column in range(N_COLUMNS) if column != SECOND_GENDER]
WIDTHS = np.geomspace(1e-4, 100.0, 13).tolist()
LADDERS = gaussian_kernels(WIDTHS, relative=False, per_feature=True, columns=ATTRIBUTES)


@cache
def _data() -> Bunch:
    return load_school()


def split(setting: Setting, run: int) -> Split:
    """60% of each school's pupils for training; columns standardised by the training rows, targets too.

    The rows are the same in both settings. Gram matrices of 338 kernels take 2 GB, and searches hold them twice: in
    single precision, half of that.
    """
    data = _data()
    rng = np.random.default_rng([run, 60])
    train = np.zeros(len(data.target), dtype=bool)
    for task in data.task_names:
        rows = rng.permutation(np.flatnonzero(data.tasks == task))
        train[rows[: round(0.6 * len(rows))]] = True
    X = (data.data - data.data[train].mean(axis=0)) / data.data[train].std(axis=0)
    X = X.astype(np.float32 if setting == MANY else np.float64)
    y = (data.target - data.target[train].mean()) / data.target[train].std()
    names = data.task_names.tolist()
    return Split(X[train], y[train], X[~train], y[~train], data.tasks[train], data.tasks[~train], names)


def models(setting: Setting) -> list[Model]:
    return [
        Model("Mean", MeanRegressor()),
        Model("STL", STLRegressor(linear_kernels()), {"C": [0.1, 1.0, 10.0]}),
        Model("MTFL", MTFLRegressor(linear_kernels()), {"C": [1e-2, 0.1, 1.0, 10.0, 100.0]}),
        Model("MTRL", MTRLRegressor(linear_kernels()), {"C": [1e-2, 0.1, 1.0, 10.0, 100.0, 1e3]}),
        *(_on_ladders() if setting == MANY else _on_each()),
        our_row("Regressor"),
    ]


def _on_each() -> list[Model]:
    """One kernel an attribute."""
    return paper_rows("Regressor", EACH, costs=(1e-2, 0.1, 1.0, 10.0, 100.0), powers=(2.0,))


def _on_ladders() -> list[Model]:
    """Thirteen kernels an attribute: fewer folds and candidates, since each takes ten times as long."""
    rows = paper_rows("Regressor", LADDERS, costs=(1e-2, 0.1, 1.0, 10.0), powers=(2.0,))
    return [replace(row, n_splits=3) for row in rows]


_FIGURES = {"STL": "0.1883 ± 0.020", "IMKL": "0.1975 ± 0.017", "MK-MTFL": "0.2024 ± 0.016", PUBLISHED: "0.2134 ± 0.016"}

PROTOCOL = Protocol(
    name="school",
    title="Exam scores of schools",
    metric=EXPLAINED,
    settings=(FEW, MANY),
    split=split,
    models=models,
    paper={(MANY.name, model): figure for model, figure in _FIGURES.items()},
    goals=(Goal(MANY.name, 0.213, "the paper"), Goal(FEW.name, 0.213, "the paper"), Goal(FEW.name, 0.235, "ours")),
    remarks=read_remarks("school", "rows"),
)
