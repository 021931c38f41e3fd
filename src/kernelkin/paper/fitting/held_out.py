"""Values of fitted functions at rows that were held out of the fit."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...data import Fold, TaskData
from ...uncertainty import HeldOut, calibration_folds, gather_folds
from .base import Fitted, RunOptions, Specification


@dataclass(frozen=True)
class Refits:
    """Held-out values of a model without a closed form: the specification is fitted anew for each fold."""

    specification: Specification
    data: TaskData
    classification: bool = False

    def held_out(self) -> HeldOut:
        folds = calibration_folds(self.data, classification=self.classification)
        outputs = []
        for fold in folds:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                fitted = self.specification.plan(self.data.take(fold.kept)).run(RunOptions())
            outputs.append(held_out_values(fitted, self.data, fold))
        return HeldOut.constant(gather_folds(self.data, folds, outputs))


def held_out_values(fitted: Fitted, data: TaskData, fold: Fold) -> list[np.ndarray]:
    """Evaluate functions that were fitted on the training rows of a fold -> (q_t, m_t) for each task."""
    held = [rows[part] for rows, part in zip(data.rows, fold.held, strict=True)]
    functions, widths = fitted.attributes["functions_"], _widths(fitted, data)
    if data.form == "wide":
        rows = np.unique(np.concatenate(held))
        values = functions.values(_queries(data, fold, rows), None)
        return [
            values[np.searchsorted(rows, part), t, :width]
            for t, (part, width) in enumerate(zip(held, widths, strict=True))
        ]
    codes = np.repeat(np.arange(len(held)), [len(part) for part in held])
    values = functions.values(_queries(data, fold, np.concatenate(held)), codes)
    ends = np.cumsum([len(part) for part in held])
    return [part[:, :width] for part, width in zip(np.split(values, ends[:-1]), widths, strict=True)]


def _queries(data: TaskData, fold: Fold, rows: np.ndarray) -> np.ndarray:
    """Return rows to predict; precomputed ones of wide data against the training rows alone."""
    if data.X.ndim == 3 and data.form == "wide":
        kept = np.unique(np.concatenate([r[part] for r, part in zip(data.rows, fold.kept, strict=True)]))
        return data.X[np.ix_(rows, kept)]
    return data.X[rows]


def _widths(fitted: Fitted, data: TaskData) -> list[int]:
    """Return the number of outputs of each task's function."""
    classes = fitted.attributes.get("task_classes_")
    if classes is None:
        return [1] * data.n_tasks
    return [len(known) if len(known) > 2 else 1 for known in classes]
