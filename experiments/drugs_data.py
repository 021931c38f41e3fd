"""Responses of cancer cell lines to drugs: the data, what is held out, and how predictions are judged."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from .protocol import Metric, Setting, Split

FILE = "drug_response.npz"
ENTRIES, CELL_LINES, DRUGS = "entries held out", "cell lines held out", "drugs held out"
SETTINGS = tuple(Setting(name) for name in (ENTRIES, CELL_LINES, DRUGS))
RUNS = 10
# Kernels between cell lines are named by what was measured, and by the width of the kernel.
MEASUREMENTS = {"cn": "copy number", "expression": "expression", "methylation": "methylation", "mutation": "mutation"}


@dataclass(frozen=True)
class DrugData:
    """Responses (cell lines, drugs), kernels between cell lines and between drugs, and the published folds."""

    response: np.ndarray
    cell_kernels: np.ndarray
    cell_kernel_names: tuple[str, ...]
    drug_kernels: np.ndarray
    drug_kernel_names: tuple[str, ...]
    fold: np.ndarray

    @property
    def drug_names(self) -> list[str]:
        return [f"drug {i + 1}" for i in range(self.response.shape[1])]


@cache
def load() -> DrugData:
    """Read the file in the data folder."""
    folder = os.environ.get("KERNELKIN_DATA")
    if folder is None or not (Path(folder) / FILE).exists():
        raise ValueError(f"the drug experiment needs {FILE} in the folder that KERNELKIN_DATA names")
    found = np.load(Path(folder) / FILE)
    shape = found["response"].shape
    return DrugData(
        response=found["response"].astype(float).T,
        cell_kernels=found["cell_kernels"].astype(float),
        cell_kernel_names=tuple(found["cell_kernel_names"].tolist()),
        drug_kernels=found["drug_kernels"].astype(float),
        drug_kernel_names=tuple(found["drug_kernel_names"].tolist()),
        fold=found["fold"].reshape(shape).T,
    )


def split(setting: Setting, run: int) -> Split:
    """X are numbers of cell lines, y their responses (n, drugs), NaN where they are not known or not asked for."""
    data = load()
    y, cells = data.response, np.arange(len(data.response))
    if setting.name == ENTRIES:
        held = np.equal(data.fold, run)
    else:
        axis = 0 if setting.name == CELL_LINES else 1
        held = np.zeros(y.shape, dtype=bool)
        part = np.array_split(np.random.default_rng([axis, 23]).permutation(y.shape[axis]), RUNS)[run]
        held[(part, slice(None)) if axis == 0 else (slice(None), part)] = True
    trained, asked = ~held.all(axis=1), held.any(axis=1)
    return Split(
        X=cells[trained],
        y=np.where(held, np.nan, y)[trained],
        X_test=cells[asked],
        y_test=np.where(held, y, np.nan)[asked],
        task_names=data.drug_names,
    )


def pearson(y: np.ndarray, prediction: np.ndarray) -> float:
    """Correlation; zero where the prediction is constant, NaN where the targets are."""
    if len(y) < 3 or np.ptp(y) == 0:
        return float("nan")
    return float(np.corrcoef(y, prediction)[0, 1]) if np.ptp(prediction) > 1e-12 * np.ptp(y) else 0.0


def rmse(y: np.ndarray, prediction: np.ndarray) -> float:
    return float(np.sqrt(np.mean((y - prediction) ** 2)))


R = Metric("r", pearson, "r2", larger_is_better=True, pooled=True)
RMSE = Metric("RMSE", rmse, "r2", larger_is_better=False, digits=3, pooled=True)
INSIDE = Metric("r inside a drug", pearson, "r2", larger_is_better=True, digits=3)
