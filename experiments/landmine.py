"""Landmine detection: 19 fields, 30, 50 or 80 training rows each, mean AUC."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from kernelkin import STLClassifier, gaussian_kernels, linear_kernels, polynomial_kernels
from kernelkin.paper import MTFLClassifier, MTRLClassifier

from .data_sets import load_landmine
from .metrics import AUC
from .protocol import Goal, Model, Protocol, Setting, Split, read_remarks
from .rows import PUBLISHED, our_row, paper_rows

POLYNOMIALS = polynomial_kernels(range(1, 6))
SINGLE = [*gaussian_kernels((0.5, 1.0, 2.0)), *linear_kernels()]
SETTINGS = tuple(
    Setting(f"{size} rows, {variant}", size, variant) for variant in ("usual", "literal") for size in (30, 50, 80)
)


@cache
def _data(variant: str) -> Bunch:
    return load_landmine(variant)


def split(setting: Setting, run: int) -> Split:
    """`size` rows of each field, classes in proportion and two mines at least, standardised by all training rows."""
    data = _data(setting.variant)
    rng = np.random.default_rng([run, setting.size])
    train = np.zeros(len(data.target), dtype=bool)
    for task in data.task_names:
        mines, clutter = (rng.permutation(np.flatnonzero((data.tasks == task) & (data.target == c))) for c in (1, 0))
        n_mines = max(2, round(setting.size * len(mines) / (len(mines) + len(clutter))))
        train[mines[:n_mines]] = train[clutter[: setting.size - n_mines]] = True
    X = (data.data - data.data[train].mean(axis=0)) / data.data[train].std(axis=0)
    names = data.task_names.tolist()
    return Split(
        X[train], data.target[train], X[~train], data.target[~train], data.tasks[train], data.tasks[~train], names
    )


def models(setting: Setting) -> list[Model]:
    balanced: dict[str, Any] = {"class_weight": "balanced"}
    squared: dict[str, Any] = {"loss": "squared", **balanced}
    return [
        Model("STL", STLClassifier(SINGLE, **balanced), {"kernel": [0, 1, 2, 3], "C": [1e-2, 0.1, 1.0]}),
        Model("MTFL", MTFLClassifier(POLYNOMIALS, **squared), {"C": [0.1, 1.0, 10.0]}),
        Model("MTRL", MTRLClassifier(POLYNOMIALS, **squared), {"C": [0.1, 1.0, 10.0]}),
        *paper_rows("Classifier", POLYNOMIALS, costs=(1e-2, 0.1, 1.0), **balanced),
        our_row("Classifier"),
    ]


_PAPER = {
    "STL": ("0.6315 ± 0.032", "0.6540 ± 0.026", "0.6542 ± 0.027"),
    "MTFL": ("0.6387 ± 0.037", "0.6968 ± 0.015", "0.7051 ± 0.020"),
    "MTRL": ("0.6555 ± 0.034", "0.6933 ± 0.023", "0.7074 ± 0.024"),
    "IMKL": ("0.6857 ± 0.024", "0.7138 ± 0.011", "0.7278 ± 0.011"),
    "MK-MTFL": ("0.6866 ± 0.018", "0.7145 ± 0.009", "0.7305 ± 0.009"),
    PUBLISHED: ("0.6870 ± 0.033", "0.7242 ± 0.011", "0.7405 ± 0.014"),
}

PROTOCOL = Protocol(
    name="landmine",
    title="Landmine detection",
    metric=AUC,
    settings=SETTINGS,
    split=split,
    models=models,
    paper={
        (f"{size} rows, literal", model): figure
        for model, figures in _PAPER.items()
        for size, figure in zip((30, 50, 80), figures, strict=True)
    },
    goals=(
        Goal("30 rows, usual", 0.7527, "settings made for this table"),
        Goal("80 rows, usual", 0.7736, "settings made for this table"),
        Goal("30 rows, literal", 0.7978, "settings made for this table"),
        Goal("80 rows, literal", 0.741, "the paper"),
        Goal("80 rows, literal", 0.8177, "settings made for this table"),
    ),
    remarks=read_remarks("landmine", "rows"),
)
