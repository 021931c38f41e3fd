"""SARCOS inverse dynamics: seven joints on the same rows, nMSE against the number of training rows."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from sklearn.utils import Bunch

from kernelkin import AverageRegressor, STLRegressor, gaussian_kernels, linear_kernels
from kernelkin.paper import MeanRegressor, MTFLRegressor, MTRLRegressor

from .data_sets import load_sarcos
from .metrics import NMSE
from .protocol import Goal, Model, Protocol, Setting, Split, read_remarks
from .rows import PUBLISHED, our_row, paper_rows

# Ten bandwidths around the median distance, and a linear kernel on each column: the 31 kernels of the paper.
GAUSSIANS = gaussian_kernels(np.geomspace(0.125, 8.0, 10).round(4).tolist())
KERNELS = [*GAUSSIANS, *linear_kernels(per_feature=True)]
# Functions of a robot's joints are smooth in all columns at once.
WIDE = [*gaussian_kernels((1.0, 2.0, 4.0, 8.0)), *linear_kernels()]
WIDE_COSTS = [1.0, 10.0, 100.0, 1e3, 1e4]
SIZES = (15, 50, 100, 150, 200, 600)
ROWS = 2000
AVERAGE_WIDE = "AVG, five kernels"


@cache
def _data() -> Bunch:
    return load_sarcos()


def split(setting: Setting, run: int) -> Split:
    """2,000 rows at random, the first `size` of them for training; standardised by these, targets too."""
    data = _data()
    rows = np.random.default_rng([run, 7]).permutation(len(data.data))[:ROWS]
    X, y = data.data[rows], data.target[rows]
    train, test = slice(0, setting.size), slice(setting.size, None)
    X = (X - X[train].mean(axis=0)) / X[train].std(axis=0)
    y = (y - y[train].mean(axis=0)) / y[train].std(axis=0)
    return Split(X[train], y[train], X[test], y[test], task_names=data.target_names)


def models(setting: Setting) -> list[Model]:
    # The more rows, the less a noiseless robot gains from regularisation.
    costs = np.logspace(0, 6, 7).tolist() if setting.size < 600 else np.logspace(2, 6, 5).tolist()
    n_splits = 5 if setting.size < 600 else 3
    rows = [
        Model("Mean", MeanRegressor()),
        Model("STL", STLRegressor(linear_kernels()), {"C": costs}),
        Model("MTFL", MTFLRegressor(KERNELS), {"C": costs}),
        Model("MTRL", MTRLRegressor(KERNELS), {"C": costs}),
        *paper_rows("Regressor", KERNELS, costs=costs),
        Model(AVERAGE_WIDE, AverageRegressor(WIDE), {"C": WIDE_COSTS}),
    ]
    return [*(replace(model, n_splits=n_splits) for model in rows), our_row("Regressor")]


_JOINTS = {
    "STL": "0.0862 0.0996 0.0918 0.0581 0.1513 0.2911 0.0715",
    "IMKL": "0.0838 0.0945 0.0871 0.0514 0.1405 0.2822 0.0628",
    PUBLISHED: "0.0717 0.0686 0.0649 0.0298 0.1070 0.1835 0.0457",
}

PROTOCOL = Protocol(
    name="sarcos",
    title="SARCOS inverse dynamics",
    metric=NMSE,
    settings=tuple(Setting(f"{size} rows", size) for size in SIZES),
    split=split,
    models=models,
    paper={
        ("200 rows", "STL"): "0.1214 ± 0.0015",
        ("200 rows", "IMKL"): "0.1146 ± 0.0013",
        ("200 rows", "MTFL"): "0.3149",
        ("200 rows", "MTRL"): "0.0912",
        ("200 rows", PUBLISHED): "0.0816 ± 0.0028",
    },
    task_setting="200 rows",
    paper_tasks={
        (f"torque{joint}", model): figure
        for model, figures in _JOINTS.items()
        for joint, figure in enumerate(figures.split(), start=1)
    },
    goals=(
        Goal("50 rows", 0.165, "ours"),
        Goal("200 rows", 0.0816, "the paper"),
        Goal("200 rows", 0.067, "ours"),
        Goal("600 rows", 0.05, "ours"),
    ),
    remarks=read_remarks("sarcos", "rows"),
)
