"""The models that the demo compares: KinRegressor, and what one would run otherwise."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ..kin import KinRegressor
from ..paper.model_selection import MultiTaskCV
from ..paper.models import AverageRegressor

OURS = "KinRegressor"
POOLED = "gradient boosting, all shops, shop as category"
BOOSTING_GRID = {"learning_rate": [0.03, 0.1], "max_leaf_nodes": [4, 31], "min_samples_leaf": [5]}


def make_models(n_jobs: int | None = None) -> dict[str, Any]:
    """Return unfitted models by name, each with `fit(X, y, tasks)` and `predict(X, tasks)`.

    `n_jobs` threads are for the models of this library: the others are fitted to so few rows that starting processes
    takes longer.
    """
    folds = KFold(5, shuffle=True, random_state=0)
    forest = RandomForestRegressor(100, random_state=0)
    boosting = GridSearchCV(HistGradientBoostingRegressor(random_state=0), BOOSTING_GRID, cv=folds)
    ridge = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 4, 13)))
    average = MultiTaskCV(AverageRegressor(), {"C": np.logspace(-2, 3, 11)}, random_state=0, n_jobs=n_jobs)
    return {
        OURS: KinRegressor(random_state=0, n_jobs=n_jobs),
        POOLED: StandardTargets(TaskAsCategory(boosting)),
        "random forest, one model per shop": OneModelPerTask(forest),
        "gradient boosting, one model per shop": OneModelPerTask(boosting),
        "ridge regression, one model per shop": OneModelPerTask(ridge),
        "average of kernels, C tuned": StandardTargets(average, columns=True),
    }


class OneModelPerTask(BaseEstimator):
    """A clone of a scikit-learn regressor for each task."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: np.ndarray, y: np.ndarray, tasks: np.ndarray) -> Self:
        self.models_ = {
            task: clone(self.estimator).fit(X[tasks == task], y[tasks == task]) for task in np.unique(tasks)
        }
        return self

    def predict(self, X: np.ndarray, tasks: np.ndarray) -> np.ndarray:
        values = np.empty(len(X))
        for task in np.unique(tasks):
            values[tasks == task] = self.models_[task].predict(X[tasks == task])
        return values


class TaskAsCategory(BaseEstimator):
    """One scikit-learn gradient boosting model on the rows of all tasks, with the task as a categorical column."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: np.ndarray, y: np.ndarray, tasks: np.ndarray) -> Self:
        self.tasks_ = np.unique(tasks)
        self.model_ = clone(self.estimator).set_params(estimator__categorical_features=[X.shape[1]])
        self.model_.fit(self._table(X, tasks), y)
        return self

    def predict(self, X: np.ndarray, tasks: np.ndarray) -> np.ndarray:
        return self.model_.predict(self._table(X, tasks))

    def _table(self, X: np.ndarray, tasks: np.ndarray) -> np.ndarray:
        return np.column_stack([X, np.searchsorted(self.tasks_, tasks)])


class StandardTargets(BaseEstimator):
    """A model of many tasks on targets that are standardised task by task, as shops differ in size.

    Parameters
    ----------
    estimator : model with `fit(X, y, tasks)` and `predict(X, tasks)`
    columns : bool
        Whether to standardise the columns of X too.
    """

    def __init__(self, estimator: Any, columns: bool = False) -> None:
        self.estimator = estimator
        self.columns = columns

    def fit(self, X: np.ndarray, y: np.ndarray, tasks: np.ndarray) -> Self:
        self.moments_ = {task: (y[tasks == task].mean(), y[tasks == task].std()) for task in np.unique(tasks)}
        self.scaler_ = StandardScaler(with_mean=self.columns, with_std=self.columns).fit(X)
        mean, spread = self._moments(tasks)
        self.model_ = clone(self.estimator).fit(self.scaler_.transform(X), (y - mean) / spread, tasks)
        return self

    def predict(self, X: np.ndarray, tasks: np.ndarray) -> np.ndarray:
        mean, spread = self._moments(tasks)
        return mean + spread * self.model_.predict(self.scaler_.transform(X), tasks)

    def _moments(self, tasks: np.ndarray) -> np.ndarray:
        return np.array([self.moments_[task] for task in tasks.tolist()]).T
