"""Predictions taken apart: what each kernel, and each part that tasks share, adds to them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import Bunch

from ...data import Queries
from ..functions import TaskFunctions


def split_prediction(model: Any, queries: Queries, prediction: np.ndarray) -> Bunch:
    """Return the prediction, the part of each kernel and the intercept; with couplings own and shared parts too."""
    functions = model.functions_
    if not isinstance(functions, TaskFunctions):
        raise ValueError(f"{type(model).__name__} has no kernels: split=True has nothing to split")
    where = queries.X, queries.codes
    bunch = Bunch(
        prediction=prediction,
        parts=_squeeze(functions.parts(*where)),
        intercept=_squeeze(functions.intercepts(*where)),
        kernels=model.kernel_names_,
    )
    couplings = getattr(model, "couplings_", ())
    if couplings:
        parts = [_squeeze(functions.parts(*where, only=j)) for j in range(1 + len(couplings))]
        bunch.own = parts[0]
        bunch.shared = {coupling.name: part for coupling, part in zip(couplings, parts[1:], strict=True)}
    return bunch


def _squeeze(values: np.ndarray) -> np.ndarray:
    """Drop the axis of outputs, where there is one output."""
    return values[..., 0] if values.shape[-1] == 1 else values
