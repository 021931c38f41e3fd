"""The shell of the linear models: the data forms, prediction and scores; coefficients instead of machines."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from ..data import Queries, TaskData, read_queries, read_training
from ..estimators.scores import score_each_task

NOT_NEGATIVE = [Interval(Real, 0, None, closed="left")]


@dataclass(eq=False, repr=False)
class LinearTasks(RegressorMixin, BaseEstimator):
    """Tasks that are linear in X, with an intercept each."""

    _: KW_ONLY
    task_column: Any = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {"task_column": "no_validation"}

    @abstractmethod
    def _fit_tasks(self, data: TaskData) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (T, d) and intercepts (T,)."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> LinearTasks:
        """Learn the coefficients of every task.

        Parameters
        ----------
        X : array or DataFrame (n, d)
        y : array (n,), or (n, T) where every column is a task on the same rows
        tasks : array (n,), optional
            The task of each row.
        sample_weight : array (n,), optional
            Weights of rows; weighting a row by 2 equals repeating it.

        Raises
        ------
        ValueError, TypeError
            Naming the culprit: arrays of the wrong shape or length, NaN, infinite, too large or too small values,
            sparse X, task labels that are missing or of mixed types, tasks with one row.
        """
        data = read_training(self, X, y, tasks, sample_weight, classification=False)
        self.coef_, self.intercept_ = self._fit_tasks(data)
        self.tasks_ = data.labels
        self.data_form_ = data.form
        return self

    def predict(self, X: Any, tasks: Any = None) -> np.ndarray:
        """Predicted targets, (q,) or on wide data (q, T)."""
        check_is_fitted(self)
        return self._predict(read_queries(self, X, tasks))

    def _predict(self, queries: Queries) -> np.ndarray:
        if queries.codes is None:
            return queries.X @ self.coef_.T + self.intercept_
        return np.einsum("ij,ij->i", queries.X, self.coef_[queries.codes]) + self.intercept_[queries.codes]

    def score_tasks(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> dict[Any, float]:
        """R^2 of each task. Tasks without rows in X are left out; R^2 of a single row is NaN."""
        check_is_fitted(self)
        queries = read_queries(self, X, tasks)
        return score_each_task(self, queries, y, self._predict(queries), sample_weight)

    def score(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> float:
        """The mean over tasks of `score_tasks`, leaving out tasks whose score is undefined."""
        scores = list(self.score_tasks(X, y, tasks, sample_weight).values())
        return float(np.nanmean(scores)) if np.isfinite(scores).any() else float("nan")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class MultivariateTasks(LinearTasks):
    """Tasks that have all their targets on the same rows."""

    fit_intercept: bool = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **LinearTasks._parameter_constraints,
        "fit_intercept": ["boolean"],
    }

    def _fit_tasks(self, data: TaskData) -> tuple[np.ndarray, np.ndarray]:
        X, Y, weight = self._one_table(data)
        centre = weight / weight.sum() if self.fit_intercept else np.zeros(len(X))
        x_mean, y_mean = centre @ X, centre @ Y
        # Rows weighed so that the mean square over them is the weighted one.
        root = np.sqrt(weight * len(X) / weight.sum())[:, np.newaxis]
        B = self._fit_table(root * (X - x_mean), root * (Y - y_mean))
        return B.T.copy(), y_mean - x_mean @ B

    @abstractmethod
    def _fit_table(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """Coefficients B (d, T) from centred X (n, d) and Y (n, T)."""

    def _one_table(self, data: TaskData) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows = data.rows[0]
        if any(len(other) != len(rows) or (other != rows).any() for other in data.rows):
            how = "some labels are missing" if data.form == "wide" else "the tasks have rows of their own"
            raise ValueError(
                f"{type(self).__name__} is a multivariate model: it needs y of shape (n, n_tasks) with every label of "
                f"every row, and {how}"
            )
        X = np.asarray(data.X[rows], dtype=np.float64)
        return X, np.column_stack(data.y).astype(np.float64), data.sample_weight[rows]
