"""What a model is compared with: the same kernels without sharing, one pooled model, gradient boosting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from threadpoolctl import threadpool_limits

from ..kernels import is_precomputed
from ..paper.model_selection import MultiTaskCV
from ..paper.models import (
    AverageClassifier,
    AverageRegressor,
    IMKLClassifier,
    IMKLRegressor,
    STLClassifier,
    STLRegressor,
)

OURS = "this model"
# Names, and what they are.
ABLATIONS = {
    "independent": "a separate model for each group, with learned kernels",
    "average": "a separate model for each group, on the average kernel",
    "single": "a separate model for each group, on one kernel",
    "pooled": "one model of all rows, with the task as columns of 0 and 1",
    "boosting": "gradient boosting on all rows, with the task as a category",
}
_ALONE = {
    "independent": (IMKLClassifier, IMKLRegressor),
    "average": (AverageClassifier, AverageRegressor),
    "single": (STLClassifier, STLRegressor),
}
COSTS = (0.01, 0.1, 1.0, 10.0, 100.0)
LANDMARKS = 200
MANY_ROWS = 20_000


def make_ablations(model: Any, names: list[str] | None, random_state: int) -> dict[str, Callable[[Any], np.ndarray]]:
    """The model itself, then the ablations of these names; None: all that the data allow."""
    model = _without_task_column(model)
    kernels = getattr(model, "kernels", getattr(getattr(model, "estimator", None), "kernels", None))
    precomputed = is_precomputed(kernels)
    known = [name for name in ABLATIONS if not (precomputed and name in ("single", "pooled", "boosting"))]
    for name in names or ():
        if name not in ABLATIONS:
            raise ValueError(f"no ablation is named {name!r}; there are {', '.join(ABLATIONS)}")
        if name not in known:
            raise ValueError(f"ablation {name!r} needs columns, and kernels are precomputed")
    found: dict[str, Any] = {OURS: _TasksModel(clone(model), scaled=False)}
    stacked = stacked_models(is_classifier(model), random_state)
    for name in names or known:
        found[name] = _alone(name, model, kernels) if name in _ALONE else stacked[name]
    return found


def stacked_models(classification: bool, random_state: int) -> dict[str, Callable[[Any], np.ndarray]]:
    """The models of the rows of all tasks."""
    made = {"pooled": _pooled, "boosting": _boosting}
    return {name: _Stacked(make, classification, random_state) for name, make in made.items()}


def searches(model: Any) -> bool:
    """Whether a model chooses parameters by cross-validation."""
    return "cv" in model.get_params(deep=False)


def _without_task_column(model: Any) -> Any:
    """The model, unfitted, for rows whose tasks are given apart."""
    plain = clone(model)
    names = [name for name in ("task_column", "estimator__task_column") if name in plain.get_params()]
    return plain.set_params(**dict.fromkeys(names))


def _alone(name: str, model: Any, kernels: Any) -> Any:
    """Machines of each task with the model's kernels, and its C; where the model searches, C is chosen in training."""
    estimator = _ALONE[name][0 if is_classifier(model) else 1]()
    inner = getattr(model, "estimator", model)
    given = inner.get_params()
    shared = ("C", "loss", "epsilon", "class_weight", "normalize")
    parameters = {key: given[key] for key in shared if key in given and key in estimator.get_params()}
    if name != "single":
        parameters["kernels"] = kernels
    estimator.set_params(**parameters)
    if searches(model):
        estimator = MultiTaskCV(estimator, {"C": list(COSTS)}, cv=3, random_state=0)
    return _AloneModel(estimator, scaled="time_limit" in model.get_params())


class _TasksModel:
    """A model of this library."""

    def __init__(self, estimator: Any, *, scaled: bool) -> None:
        self.estimator, self.scaled = estimator, scaled

    def __call__(self, split: Any) -> np.ndarray:
        model = clone(self.estimator)
        X, X_test = (split.with_names(part) for part in split.columns(self.scaled))
        if split.wide:
            model.fit(X, split.wide_targets())
            values = model.decision_function(X_test) if split.ranks else model.predict(X_test)
            return values[split.test_place, split.test_codes]
        tasks, test_tasks = split.groupings()
        model.fit(X, split.y, tasks=tasks)
        if split.ranks:
            return model.decision_function(X_test, tasks=test_tasks)
        return model.predict(X_test, tasks=test_tasks)


class _AloneModel(_TasksModel):
    """A model that learns every task on its own; a task of one row or one class has its mean or that class."""

    def __call__(self, split: Any) -> np.ndarray:
        tasks, values = split.learnable_tasks(), split.constants()
        if len(tasks) == len(split.labels):
            return super().__call__(split)
        if len(tasks):
            values[np.isin(split.test_codes, tasks)] = super().__call__(split.select(tasks))
        return values


class _Stacked:
    """A scikit-learn model of the rows of all tasks."""

    def __init__(self, make: Callable[..., Any], classification: bool, random_state: int) -> None:
        self.make, self.classification, self.random_state = make, classification, random_state

    def __call__(self, split: Any) -> np.ndarray:
        X, X_test = split.columns(True)
        T = len(split.labels)
        fit, design = self.make(T, self.classification, self.random_state)
        location, spread = (np.zeros(T), np.ones(T)) if self.classification else split.moments()
        y = split.y if self.classification else (split.y - location[split.codes]) / spread[split.codes]
        # Trees of few rows are grown faster by one thread.
        with threadpool_limits(1 if len(y) < MANY_ROWS else None):
            model = fit.fit(design(X[split.place], split.codes, True), y)
        inputs = design(X_test[split.test_place], split.test_codes, False)
        if not self.classification:
            return model.predict(inputs) * spread[split.test_codes] + location[split.test_codes]
        return model.predict_proba(inputs)[:, 1] if split.ranks else model.predict(inputs)


def _pooled(T: int, classification: bool, random_state: int) -> tuple[Any, Callable[..., np.ndarray]]:
    """A linear model on landmark features of a Gaussian kernel, the columns, and one column for each task."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import LogisticRegressionCV, RidgeCV

    landmarks: list[Any] = []

    def design(X: np.ndarray, codes: np.ndarray, fitting: bool) -> np.ndarray:
        if fitting:
            kernel = Nystroem(
                gamma=0.5 / max(X.shape[1], 1), n_components=min(LANDMARKS, len(X)), random_state=random_state
            )
            landmarks.append(kernel.fit(X))
        return np.hstack([landmarks[-1].transform(X), X, np.eye(T)[codes]])

    if classification:
        return LogisticRegressionCV(Cs=5, cv=3, max_iter=500, scoring="neg_log_loss"), design
    return RidgeCV(alphas=np.logspace(-3, 3, 13)), design


def _boosting(T: int, classification: bool, random_state: int) -> tuple[Any, Callable[..., np.ndarray]]:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    def design(X: np.ndarray, codes: np.ndarray, fitting: bool) -> np.ndarray:
        return np.column_stack([codes, X])

    # Categories are limited to the number of bins; more tasks are an ordered column.
    options: dict[str, Any] = {"categorical_features": [0]} if T <= 255 else {}
    made = HistGradientBoostingClassifier if classification else HistGradientBoostingRegressor
    return made(random_state=random_state, **options), design
