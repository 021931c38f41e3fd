"""Linear models of each task on its own: OLS and Lasso, which are scikit-learn's, and the mean, which has no skill."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from ..data import TaskData
from .linear_base import NOT_NEGATIVE, LinearTasks

# Bytes of the Python objects of a task and its model, and copies of the task's rows while the model is fitted.
_OBJECTS = 900
_COPIES = 3


@dataclass(eq=False, repr=False, kw_only=True)
class _SeparateTasks(LinearTasks):
    """One of scikit-learn's linear models for each task."""

    fit_intercept: bool = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearTasks._parameter_constraints,
        "fit_intercept": ["boolean"],
    }

    @abstractmethod
    def _model(self) -> Any:
        """An unfitted one."""

    def _work(self, data: TaskData) -> int:
        sizes, d = [len(rows) for rows in data.rows], data.X.shape[1]
        kept = sum(_OBJECTS + 8 * (d + self._kept(n, d)) for n in sizes)
        return kept + _COPIES * max(sizes) * (data.X[:1].nbytes + 8)

    @staticmethod
    def _kept(n: int, d: int) -> int:
        """Numbers that a model of n rows and d columns keeps."""
        return d

    def _fit_tasks(self, data: TaskData) -> tuple[np.ndarray, np.ndarray]:
        models = [
            self._model().fit(data.X[rows], y, sample_weight=data.sample_weight[rows])
            for rows, y in zip(data.rows, data.y, strict=True)
        ]
        self.models_ = models
        return np.array([model.coef_ for model in models]), np.array([float(model.intercept_) for model in models])


@dataclass(eq=False, repr=False, kw_only=True)
class OLSRegressor(_SeparateTasks):
    """OLS: ordinary least squares in each task, scikit-learn's `LinearRegression`.

    Parameters
    ----------
    fit_intercept : bool
        Whether each task has an intercept.
    task_column : int or str, optional
        The column of X that holds the task of each row.

    Attributes
    ----------
    coef_ : array (T, d)
    intercept_ : array (T,)
    tasks_ : array (T,)
    models_ : scikit-learn's model of each task.

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

    @staticmethod
    def _kept(n: int, d: int) -> int:
        # Its coefficients are a view of what LAPACK has solved in the place of the targets.
        return max(n, d) + min(n, d)

    def _model(self) -> Any:
        from sklearn.linear_model import LinearRegression

        return LinearRegression(fit_intercept=self.fit_intercept)


@dataclass(eq=False, repr=False, kw_only=True)
class LassoRegressor(_SeparateTasks):
    """Lasso: least squares with a 1-norm on the coefficients of each task, scikit-learn's `Lasso`.

    Parameters
    ----------
    alpha : float
        Strength of the 1-norm, in ``(1/(2 n_t)) |y_t - X_t w_t|^2 + alpha |w_t|_1``.
    tol, max_iter
        As for scikit-learn's `Lasso`.
    fit_intercept, task_column
        As for `OLSRegressor`, which also lists the fitted attributes.

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

    alpha: float = 0.1
    tol: float = 1e-4
    max_iter: int = 1000

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **_SeparateTasks._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "tol": NOT_NEGATIVE,
        "max_iter": [Interval(Integral, 1, None, closed="left")],
    }

    def _model(self) -> Any:
        from sklearn.linear_model import Lasso

        return Lasso(self.alpha, fit_intercept=self.fit_intercept, tol=self.tol, max_iter=self.max_iter)

    def _fit_tasks(self, data: TaskData) -> tuple[np.ndarray, np.ndarray]:
        fitted = super()._fit_tasks(data)
        self.n_iter_ = max(int(model.n_iter_) for model in self.models_)
        self.duality_gap_ = float(sum(max(model.dual_gap_, 0.0) for model in self.models_))
        return fitted


@dataclass(eq=False, repr=False, kw_only=True)
class MeanRegressor(LinearTasks):
    """The training mean of each task: what any model must beat.

    Parameters
    ----------
    task_column : int or str, optional
        The column of X that holds the task of each row.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MeanRegressor
    >>> X, tasks = np.zeros((4, 1)), ["a", "a", "b", "b"]
    >>> model = MeanRegressor().fit(X, [1.0, 3.0, 5.0, 7.0], tasks=tasks)
    >>> model.predict([[0.0]], tasks=["b"])
    array([6.])
    """

    _mostly: ClassVar[str] = "the coefficients, which are zero"

    def _work(self, data: TaskData) -> int:
        return data.n_tasks * (8 * data.X.shape[1] + _OBJECTS // 3)

    def _fit_tasks(self, data: TaskData) -> tuple[np.ndarray, np.ndarray]:
        means = [np.average(y, weights=data.sample_weight[rows]) for rows, y in zip(data.rows, data.y, strict=True)]
        return np.zeros((data.n_tasks, data.X.shape[1])), np.array(means)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags
