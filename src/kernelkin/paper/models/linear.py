"""Linear models of each task on its own: OLS and Lasso, which are scikit-learn's, and the mean, which has no skill."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...data import TaskData
from ..fitting import LinearFit
from ..fitting.linear import LinearResult, TaskByTask
from .kinds import MultiTaskRegressor
from .parameters import COUNT, LINEAR, NOT_NEGATIVE, POSITIVE, Parameter, describe

_MODELS = {"models_": ("list", "scikit-learn's model of each task.")}


@describe(LINEAR, _MODELS)
class OLSRegressor(MultiTaskRegressor):
    """OLS: ordinary least squares in each task, scikit-learn's `LinearRegression`.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import OLSRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> Y = np.outer(X[:, 0], [1.0, 2.0]) + 0.1 * rng.normal(size=(40, 2))
    >>> model = OLSRegressor().fit(X, Y)
    >>> model.coef_.round(1)[:, 0]
    array([1., 2.])
    """

    def __init__(self, *, fit_intercept=True, task_column=None):
        self.fit_intercept = fit_intercept
        self.task_column = task_column

    def specification(self) -> LinearFit:
        from sklearn.linear_model import LinearRegression

        return LinearFit(TaskByTask(partial(LinearRegression, fit_intercept=self.fit_intercept)))


@describe(
    (*LINEAR, "duality_gap_", "n_iter_"),
    _MODELS,
    alpha=Parameter("float", "Strength of the 1-norm, in ``(1/(2 n_t)) |y_t - X_t w_t|^2 + alpha |w_t|_1``.", POSITIVE),
    tol=Parameter("float", "Tolerance of scikit-learn's `Lasso`.", NOT_NEGATIVE),
    max_iter=Parameter("int", "Maximum number of iterations of scikit-learn's `Lasso`.", COUNT),
)
class LassoRegressor(MultiTaskRegressor):
    """Lasso: least squares with a 1-norm on the coefficients of each task, scikit-learn's `Lasso`.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import LassoRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(40, 3))
    >>> Y = np.outer(X[:, 0], [1.0, 2.0]) + 0.1 * rng.normal(size=(40, 2))
    >>> model = LassoRegressor(alpha=0.1).fit(X, Y)
    >>> (model.coef_ != 0).tolist()
    [[True, False, False], [True, False, False]]
    """

    def __init__(self, *, alpha=0.1, fit_intercept=True, task_column=None, tol=1e-4, max_iter=1000):
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.task_column = task_column
        self.tol = tol
        self.max_iter = max_iter

    def specification(self) -> LinearFit:
        from sklearn.linear_model import Lasso

        make = partial(Lasso, self.alpha, fit_intercept=self.fit_intercept, tol=self.tol, max_iter=self.max_iter)
        return LinearFit(TaskByTask(make, _lasso_attributes))


def _lasso_attributes(models: list[Any]) -> dict[str, Any]:
    return {
        "n_iter_": max(int(model.n_iter_) for model in models),
        "duality_gap_": float(sum(max(model.dual_gap_, 0.0) for model in models)),
    }


class _Means:
    """The weighted mean of each task's targets."""

    def check(self, data: TaskData) -> None:
        pass

    def work_bytes(self, data: TaskData) -> int:
        return 0

    def fit(self, data: TaskData) -> LinearResult:
        means = [np.average(y, weights=data.sample_weight[rows]) for rows, y in zip(data.rows, data.y, strict=True)]
        return np.zeros((data.n_tasks, data.X.shape[1])), np.array(means), {}, ()


@describe(LINEAR)
class MeanRegressor(MultiTaskRegressor):
    """The training mean of each task: what any model must beat.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MeanRegressor
    >>> X, tasks = np.zeros((4, 1)), ["a", "a", "b", "b"]
    >>> model = MeanRegressor().fit(X, [1.0, 3.0, 5.0, 7.0], tasks=tasks)
    >>> model.predict([[0.0]], tasks=["b"])
    array([6.])
    """

    def __init__(self, *, task_column=None):
        self.task_column = task_column

    def specification(self) -> LinearFit:
        return LinearFit(_Means())

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags
