"""Sigrist's comparison of methods for groups with few rows: wages of 4,696 women, and ratings of 1,128 lecturers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import mean_squared_error

from kernelkin import KinRegressor

from .protocol import Goal, Metric, Model, Protocol, Setting, Split, read_remarks
from .store import Result
from .tables import Table

WAGES, RATINGS = Setting("wages"), Setting("insteval")
OURS = "KinRegressor"
# The file of each table, its target and its groupings.
TABLES = {WAGES.name: ("wages.csv.gz", "ln_wage", "idcode"), RATINGS.name: ("insteval.csv.gz", "y", ["s", "d"])}
MSE = Metric(
    "mean squared error",
    lambda y, prediction: float(mean_squared_error(y, prediction)),
    "neg_mean_squared_error",
    larger_is_better=False,
    pooled=True,
)
# Test errors of folds 0 to 4 as published (`results/` of fabsig/Compare_ML_HighCardinality_Categorical_Variables).
PUBLISHED = {
    WAGES.name: {
        "GPBoost": (0.08027, 0.07872, 0.08079, 0.08944, 0.08582),
        "CatBoost": (0.08944, 0.08619, 0.08877, 0.09975, 0.09597),
        "LightGBM, groups as numbers": (0.09862, 0.09262, 0.09594, 0.10423, 0.10469),
        "LightGBM, groups as categories": (0.10044, 0.09551, 0.09757, 0.10789, 0.10792),
        "linear mixed model": (0.33144, 0.36472, 0.28442, 0.36863, 0.25577),
    },
    RATINGS.name: {
        "LightGBM, groups as categories": (1.42500, 1.42906, 1.44265, 1.44809, 1.46690),
        "linear mixed model": (1.43307, 1.42754, 1.44853, 1.45025, 1.46541),
        "CatBoost": (1.44930, 1.44826, 1.45977, 1.48136, 1.47917),
        "GPBoost": (1.45566, 1.44612, 1.44975, 1.45567, 1.56626),
        "LightGBM, groups as numbers": (1.52620, 1.52667, 1.52485, 1.53347, 1.55422),
    },
}


@cache
def _data(name: str) -> Any:
    folder = os.environ.get("KERNELKIN_DATA")
    path = Path(folder or ".") / TABLES[name][0]
    if not path.exists():
        raise FileNotFoundError(f"{TABLES[name][0]} is not in the folder that KERNELKIN_DATA names")
    table = pd.read_csv(path)
    return table.astype({"dept": str}) if name == RATINGS.name else table


def split(setting: Setting, run: int) -> Split:
    """The published fold of this number; groupings are columns of X."""
    table, target = _data(setting.name), TABLES[setting.name][1]
    train = (table["test_fold"] != run).to_numpy()
    X, y = table.drop(columns=[target, "test_fold"]), table[target].to_numpy(np.float64)
    return Split(X[train], y[train], X[~train], y[~train])


def models(setting: Setting) -> list[Model]:
    return [Model(OURS, KinRegressor(task_column=TABLES[setting.name][2]), role="ours")]


def sections(results: Sequence[Result]) -> list[str]:
    """A table of all methods for each data set, fold by fold."""
    found = []
    for setting in (WAGES, RATINGS):
        ours = {result.run: result.score for result in results if result.setting == setting.name}
        if ours:
            found += [f"## {setting.name}, all methods", _table(setting.name, ours).markdown()]
        if setting is RATINGS and {0, 1, 2} <= set(ours):
            mean = float(np.mean([ours[run] for run in (0, 1, 2)]))
            found.append(f"Folds 0 to 2: {OURS} {mean:.4f}; goals: 1.433, and the best published, 1.4322.")
    return found


def _table(name: str, ours: dict[int, float]) -> Table:
    """Errors of all folds that we have, and their means, the best first; bold: the best of each column."""
    runs = sorted(ours)
    errors = {OURS: [ours[run] for run in runs]} | {
        f"{method} (published)": [figures[run] for run in runs] for method, figures in PUBLISHED[name].items()
    }
    rows = sorted(
        ((method, [*each, float(np.mean(each))]) for method, each in errors.items()), key=lambda row: row[1][-1]
    )
    best = np.argmin([each for _, each in rows], axis=0)
    return Table(
        ("method", *(f"fold {run}" for run in runs), "mean"),
        tuple((method, *(f"{value:.4f}" for value in each)) for method, each in rows),
        frozenset((int(row), column + 1) for column, row in enumerate(best)),
    )


PROTOCOL = Protocol(
    name="sigrist",
    title="Many groups: wages of women and ratings of lecturers",
    metric=MSE,
    settings=(WAGES, RATINGS),
    split=split,
    models=models,
    runs=5,
    goals=(Goal(WAGES.name, 0.0770, "ours, all folds"),),
    remarks=read_remarks("sigrist"),
    introduction=(
        "Mean squared error on test rows, the less the better; mean and standard error over the five published folds."
    ),
    sections=sections,
)
