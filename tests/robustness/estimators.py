"""Every public estimator, and small clean data that it fits."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier

from kernelkin import (
    KinClassifier,
    KinRegressor,
    MKMTRLClassifierCV,
    MKMTRLRegressor,
    MKMTRLRegressorCV,
    MultiTaskCV,
    STLClassifier,
    all_models,
)
from kernelkin.paper import MultiTaskKernelClassifier, MultiTaskKernelRegressor

TASKS = ("ada", "bea", "cyd")
N = 36
# Few rounds and candidates: what is tested is what is refused and that numbers come out, not how good they are.
QUICK = {"n_rounds": 60, "max_iter": 100, "random_state": 0, "tol": 1e-3}
SEARCH = {"grid": {"mu": [0.1, 1.0]}, "cv": 2}
WIDE = {estimator.__name__ for model in all_models() if model.needs_wide for estimator in model.estimators}


def _quick(model: Any) -> Any:
    known = model.get_params()
    return model.set_params(**{name: value for name, value in QUICK.items() if name in known})


# Name -> a fresh estimator: every model of the registry, models of one's own, and searches; Kin with two folds.
ESTIMATORS: dict[str, Callable[[], Any]] = {
    estimator.__name__: lambda estimator=estimator: _quick(estimator())
    for model in all_models()
    for estimator in model.estimators
} | {
    "KinClassifier": lambda: _quick(KinClassifier(cv=2)),
    "KinRegressor": lambda: _quick(KinRegressor(cv=2)),
    "MultiTaskKernelClassifier": lambda: _quick(MultiTaskKernelClassifier()),
    "MultiTaskKernelRegressor": lambda: _quick(MultiTaskKernelRegressor()),
    "MKMTRLClassifierCV": lambda: _quick(MKMTRLClassifierCV(**SEARCH)),
    "MKMTRLRegressorCV": lambda: _quick(MKMTRLRegressorCV(**SEARCH)),
    "MultiTaskCV(STLClassifier)": lambda: _quick(MultiTaskCV(STLClassifier(), {"C": [1.0, 2.0]}, cv=2)),
    "MultiTaskCV(MKMTRLRegressor)": lambda: _quick(MultiTaskCV(_quick(MKMTRLRegressor()), {"mu": [0.1, 1.0]}, cv=2)),
}
CLASSIFIERS = {name for name, make in ESTIMATORS.items() if is_classifier(make())}
REGRESSORS = set(ESTIMATORS) - CLASSIFIERS
LONG = set(ESTIMATORS) - WIDE
KERNEL = {name for name, make in ESTIMATORS.items() if hasattr(make(), "kernels")}
# One estimator for each way of fitting; what fits one model with the same machines and another penalty is left out.
FITTED_ALIKE = {
    "AverageClassifier",
    "AverageRegressor",
    "IKLClassifier",
    "IKLRegressor",
    "IMKLClassifier",
    "IMKLRegressor",
    "STLRegressor",
    "MKMTFLClassifier",
    "MTFLClassifier",
    "MTRLClassifier",
    "MKMTRLClassifierCV",
    "MultiTaskKernelClassifier",
    "MultiTaskKernelRegressor",
    "MultiTaskCV(MKMTRLRegressor)",
}
ONE_OF_EACH = sorted(set(ESTIMATORS) - FITTED_ALIKE)


class Data(NamedTuple):
    """What `fit` is given."""

    X: Any
    y: Any
    tasks: Any = None
    sample_weight: Any = None


def clean_data(name: str) -> Data:
    """Three tasks of twelve rows, in no order; for a model that needs that, three targets on all rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    tasks = rng.permutation(np.repeat(TASKS, N // 3))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] * (tasks == "cyd") + 0.1 * rng.normal(size=N)
    if name in WIDE:
        return Data(X, np.column_stack([y, 2 * y + X[:, 2], X[:, 0]]))
    return Data(X, np.where(y > 0, "yes", "no") if name in CLASSIFIERS else y, tasks)


def fit(name: str, data: Data, **parameters: Any) -> Any:
    model = ESTIMATORS[name]().set_params(**parameters)
    return model.fit(data.X, data.y, tasks=data.tasks, sample_weight=data.sample_weight)


@cache
def fitted(name: str) -> Any:
    """The model of the clean data."""
    return fit(name, clean_data(name))


def values(model: Any, X: Any, tasks: Any = None) -> np.ndarray:
    """The numbers behind the predictions."""
    return model.decision_function(X, tasks=tasks) if is_classifier(model) else model.predict(X, tasks=tasks)
