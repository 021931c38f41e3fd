"""Exam scores of 139 schools: explained variance of each school, averaged."""

from __future__ import annotations

from functools import cache

import numpy as np
from sklearn.utils import Bunch

from .. import MKMTRLRegressor, gaussian_kernels, linear_kernels, polynomial_kernels
from ..baselines import MeanRegressor, MTFLRegressor, MTRLRegressor, STLRegressor
from ..datasets import load_school
from .metrics import EXPLAINED
from .protocol import Goal, Model, Protocol, Setting, Split, read_remarks
from .rows import OURS, PUBLISHED, paper_rows

# One bandwidth on each attribute: most are binary, and a Gaussian of two values is the same kernel at any width but
# for a factor and a constant, which the intercept has.
EACH = gaussian_kernels(1.0, relative=False, per_feature=True)
# Attributes, and products of two of them.
PAIRS = [*EACH, *polynomial_kernels(2)]
SETTING = Setting("60/40")


@cache
def _data() -> Bunch:
    return load_school()


def split(setting: Setting, run: int) -> Split:
    """60% of each school's pupils for training; columns standardised by the training rows, targets too."""
    data = _data()
    rng = np.random.default_rng([run, 60])
    train = np.zeros(len(data.y), dtype=bool)
    for task in data.task_names:
        rows = rng.permutation(np.flatnonzero(data.tasks == task))
        train[rows[: round(0.6 * len(rows))]] = True
    X = (data.X - data.X[train].mean(axis=0)) / data.X[train].std(axis=0)
    y = (data.y - data.y[train].mean()) / data.y[train].std()
    names = data.task_names.tolist()
    return Split(X[train], y[train], X[~train], y[~train], data.tasks[train], data.tasks[~train], names)


def models(setting: Setting) -> list[Model]:
    costs = (1e-2, 0.1, 1.0, 10.0, 100.0)
    return [
        Model("Mean", MeanRegressor()),
        Model("STL", STLRegressor(linear_kernels()), {"C": [0.1, 1.0, 10.0]}),
        Model("MTFL", MTFLRegressor(linear_kernels()), {"C": [1e-2, 0.1, 1.0, 10.0, 100.0]}),
        Model("MTRL", MTRLRegressor(linear_kernels()), {"C": [1e-2, 0.1, 1.0, 10.0, 100.0, 1e3]}),
        *paper_rows("Regressor", EACH, costs=costs, powers=(2.0,)),
        Model(
            OURS,
            MKMTRLRegressor(EACH),
            [
                {"kernels": [EACH, PAIRS], "couplings": ["common"], "C": [0.03, 0.1, 0.3]},
                {"kernels": [EACH], "couplings": [None], "C": [0.1, 1.0]},
            ],
            role="ours",
            n_splits=3,
        ),
    ]


PROTOCOL = Protocol(
    name="school",
    title="Exam scores of schools",
    metric=EXPLAINED,
    settings=(SETTING,),
    split=split,
    models=models,
    paper={
        ("60/40", "STL"): "0.1883 ± 0.020",
        ("60/40", "IMKL"): "0.1975 ± 0.017",
        ("60/40", "MK-MTFL"): "0.2024 ± 0.016",
        ("60/40", PUBLISHED): "0.2134 ± 0.016",
    },
    goals=(Goal("60/40", 0.213, "the paper"), Goal("60/40", 0.23, "our prototype")),
    remarks=read_remarks("school", "rows"),
)
