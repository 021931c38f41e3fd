"""Asset returns: nine stocks of 2004 from last week's returns of all nine, first half of the year to second."""

from __future__ import annotations

import numpy as np

from kernelkin import STLRegressor, gaussian_kernels, linear_kernels
from kernelkin.paper import (
    FESRegressor,
    LassoRegressor,
    MeanRegressor,
    MRCERegressor,
    MTFLRegressor,
    MTRLRegressor,
    OLSRegressor,
)

from .data_sets import load_stock
from .metrics import MSE1000
from .protocol import Goal, Model, Protocol, Setting, Split, read_remarks
from .rows import PUBLISHED, our_row, paper_rows

SETTING = Setting("2004")
KERNELS = gaussian_kernels(np.geomspace(1e-4, 100.0, 13).tolist(), relative=False, per_feature=True)
SINGLE = [*gaussian_kernels((0.5, 1.0, 2.0)), *linear_kernels()]


def split(setting: Setting, run: int) -> Split:
    """The one split there is; runs differ in the folds of the cross-validation."""
    data = load_stock()
    mean, spread = data.data.mean(axis=0), data.data.std(axis=0, ddof=1)
    X, X_test = (data.data - mean) / spread, (data.data_test - mean) / spread
    return Split(X, data.target, X_test, data.target_test, task_names=data.target_names)


def models(setting: Setting) -> list[Model]:
    costs = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)
    strengths = {"alpha": [1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2]}
    return [
        Model("Mean", MeanRegressor()),
        Model("OLS", OLSRegressor()),
        Model("Lasso", LassoRegressor(), strengths),
        Model("MRCE", MRCERegressor(), {"alpha": [1.0, 3.0, 10.0, 30.0, 100.0], "alpha_precision": [1e-4, 1e-3]}),
        Model("FES", FESRegressor(), {"alpha": [1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3]}),
        Model("STL", STLRegressor(SINGLE), {"kernel": [0, 1, 2, 3], "C": list(costs)}),
        Model("MTFL", MTFLRegressor(SINGLE), {"C": [1e-2, 0.1, 1.0, 10.0, 100.0]}),
        Model("MTRL", MTRLRegressor(SINGLE), {"C": list(costs)}),
        *paper_rows("Regressor", KERNELS, costs=costs),
        our_row("Regressor"),
    ]


_COMPANIES = {
    "OLS": "0.98 0.39 1.68 2.15 0.58 0.98 0.65 0.62 1.93",
    "Lasso": "0.42 0.31 0.71 0.77 0.45 0.79 0.66 0.49 1.88",
    "MRCE": "0.41 0.31 0.71 0.77 0.45 0.79 0.62 0.49 1.88",
    "FES": "0.40 0.29 0.62 0.69 0.41 0.79 0.59 0.51 1.74",
    "STL": "0.44 0.34 0.82 0.91 0.43 0.84 0.64 0.48 1.91",
    "IKL": "0.43 0.32 0.62 0.56 0.41 0.81 0.66 0.47 1.94",
    "IMKL": "0.45 0.33 0.60 0.53 0.40 0.83 0.62 0.45 1.88",
    "MK-MTFL": "0.44 0.32 0.61 0.55 0.40 0.80 0.62 0.45 1.89",
    PUBLISHED: "0.44 0.32 0.56 0.49 0.39 0.80 0.60 0.43 1.83",
}
_AVERAGES = {"OLS": "1.11", "Lasso": "0.72", "MRCE": "0.71", "FES": "0.67", "STL": "0.76", "IKL": "0.69"}
_AVERAGES |= {"IMKL": "0.68", "MK-MTFL": "0.68", PUBLISHED: "0.65"}
STOCKS = ("Walmart", "Exxon", "GM", "Ford", "GE", "ConocoPhillips", "Citigroup", "IBM", "AIG")

PROTOCOL = Protocol(
    name="stock",
    title="Asset returns",
    metric=MSE1000,
    settings=(SETTING,),
    split=split,
    models=models,
    paper={("2004", model): figure for model, figure in _AVERAGES.items()},
    task_setting="2004",
    paper_tasks={
        (stock, model): figure
        for model, figures in _COMPANIES.items()
        for stock, figure in zip(STOCKS, figures.split(), strict=True)
    },
    goals=(Goal("2004", 0.65, "the paper"),),
    remarks=read_remarks("stock", "rows"),
)
