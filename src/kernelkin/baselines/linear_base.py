"""The shell of the linear models: the data forms, prediction and scores; coefficients instead of machines."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils._param_validation import Interval

from ..data import Queries, TaskData
from ..estimators.shell import MultiTaskEstimator, Prepared
from ..memory import Need, label_bytes, reading_bytes

NOT_NEGATIVE = [Interval(Real, 0, None, closed="left")]


@dataclass(eq=False, repr=False)
class LinearTasks(RegressorMixin, MultiTaskEstimator):
    """Tasks that are linear in X, with an intercept each."""

    _: KW_ONLY
    task_column: Any = None

    # What most of the memory is for, and what to do where there is too little.
    _mostly: ClassVar[str] = "copies of the rows of one task"
    _instead: ClassVar[str] = "use fewer rows or columns"

    # That of scikit-learn's mixin knows of no tasks.
    score = MultiTaskEstimator.score

    _parameter_constraints: ClassVar[dict[str, Any]] = {"task_column": "no_validation"}

    @abstractmethod
    def _fit_tasks(self, data: TaskData) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients (T, d) and intercepts (T,)."""

    @abstractmethod
    def _work(self, data: TaskData) -> int:
        """Bytes that `_fit_tasks` takes at its peak, coefficients included."""

    def _prepare(self, data: TaskData) -> Prepared:
        work = self._work(data)
        peak = max(reading_bytes(data), label_bytes(data) + work)
        return Prepared(Need(peak, self._mostly, work, self._instead), partial(self._learn, data))

    def _learn(self, data: TaskData) -> None:
        self.coef_, self.intercept_ = self._fit_tasks(data)
        self.tasks_ = data.labels
        self.data_form_ = data.form

    def predict(self, X: Any, tasks: Any = None) -> np.ndarray:
        """Predicted targets, (q,) or on wide data (q, T)."""
        return self._predict(self._read_queries(X, tasks))

    def _predict(self, queries: Queries) -> np.ndarray:
        if queries.codes is None:
            return queries.X @ self.coef_.T + self.intercept_
        return np.einsum("ij,ij->i", queries.X, self.coef_[queries.codes]) + self.intercept_[queries.codes]


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
