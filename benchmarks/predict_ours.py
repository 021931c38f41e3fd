"""Contenders of kernelkin: Kin as it is, and models of the paper with C tuned on the same folds."""

from __future__ import annotations

from typing import Any

import numpy as np

import kernelkin
from kernelkin.model_selection import MultiTaskCV

from .predict_case import Case, Parts

GRID = {"C": np.logspace(-2, 3, 11).tolist()}
NAMES = {
    "AVG": "Average",
    "IMKL": "IMKL",
    "MTFL": "MTFL",
    "MTRL": "MTRL",
    "MK-MTFL": "MKMTFL",
    "MK-MTRL": "MKMTRL",
}


def kin(case: Case, seed: int) -> Parts:
    kind = kernelkin.KinClassifier if case.classification else kernelkin.KinRegressor
    return _predict(kind(cv=case.cv(), random_state=seed), case)


def tuned(name: str, case: Case, seed: int) -> Parts:
    """The default kernels, C by the criterion that other contenders go by."""
    if case.classification:
        model = getattr(kernelkin, f"{NAMES[name]}Classifier")(class_weight="balanced")
    else:
        model = getattr(kernelkin, f"{NAMES[name]}Regressor")()
    scoring = "roc_auc" if case.classification else "neg_mean_squared_error"
    return _predict(MultiTaskCV(model, GRID, cv=case.cv(), scoring=scoring), case)


def _predict(model: Any, case: Case) -> Parts:
    X, y, tasks = case.problem.X, case.problem.y, case.problem.tasks
    model.fit(X, y, tasks=tasks)
    predict = model.decision_function if case.classification else model.predict
    return case.by_task(predict(case.problem.X_test, tasks=case.problem.tasks_test))
