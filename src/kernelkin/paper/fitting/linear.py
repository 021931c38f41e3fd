"""Tasks that are linear in the columns of X, with an intercept each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ...data import TaskData
from ...memory import FIXED, TASK_OBJECTS, Need
from ...uncertainty import Uncertainty
from ..functions import LinearFunctions
from .fit import Fitted, RunOptions

# Coefficients (T, d), intercepts (T,), further fitted attributes, and warnings.
LinearResult = tuple[np.ndarray, np.ndarray, dict[str, Any], tuple[tuple[str, type[Warning]], ...]]


class LinearMethod(Protocol):
    """How coefficients are found."""

    def check(self, data: TaskData) -> None:
        """Refuse data that the method cannot use."""
        ...

    def work_bytes(self, data: TaskData) -> int:
        """Bound the memory of `fit` besides the coefficients, copies of rows included."""
        ...

    def fit(self, data: TaskData) -> LinearResult:
        """Find the coefficients."""
        ...


@dataclass(frozen=True)
class LinearFit:
    """Specification of a linear model: the method, and what to do where memory is short."""

    method: LinearMethod
    advice: str = "use fewer rows or columns"

    def plan(self, data: TaskData) -> LinearPlan:
        """Apply to data."""
        self.method.check(data)
        return LinearPlan(self, data)


@dataclass(frozen=True)
class LinearPlan:
    """A specification applied to data."""

    spec: LinearFit
    data: TaskData

    def memory(self, n_jobs: int = 1) -> Need:
        (n, d), T = self.data.X.shape, self.data.n_tasks
        held = 8 * (24 * n + 8 * d * T) + T * TASK_OBJECTS
        return Need(FIXED + held + self.spec.method.work_bytes(self.data), self.spec.advice)

    def run(self, options: RunOptions) -> Fitted:
        """Fit the method, and keep its coefficients."""
        coef, intercept, others, warnings = self.spec.method.fit(self.data)
        attributes = {
            "tasks_": self.data.labels,
            "data_form_": self.data.form,
            "coef_": coef,
            "intercept_": intercept,
            "functions_": LinearFunctions(coef, intercept),
            "uncertainty_": Uncertainty(self.spec, self.data, options, classification=False),
        }
        return Fitted(attributes | others, warnings)


def _no_attributes(models: list[Any]) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class TaskByTask:
    """One of scikit-learn's linear models for each task.

    Parameters
    ----------
    make : returns an unfitted model.
    describe : from the fitted models to further fitted attributes.
    """

    make: Callable[[], Any]
    describe: Callable[[list[Any]], dict[str, Any]] = _no_attributes

    def check(self, data: TaskData) -> None:
        pass

    def work_bytes(self, data: TaskData) -> int:
        d = data.X.shape[1]
        return 8 * (4 * (d + 6) * max(map(len, data.rows)) + 4 * d * data.n_tasks)

    def fit(self, data: TaskData) -> LinearResult:
        models = [
            self.make().fit(data.X[rows], y, sample_weight=data.sample_weight[rows])
            for rows, y in zip(data.rows, data.y, strict=True)
        ]
        coef = np.array([model.coef_ for model in models])
        intercept = np.array([float(model.intercept_) for model in models])
        return coef, intercept, {"models_": models, **self.describe(models)}, ()


@dataclass(frozen=True)
class Multivariate:
    """A model of all targets at once, which needs them on the same rows.

    Parameters
    ----------
    name : of the estimator, for errors.
    solve : from centred X (n, d) and Y (n, T) to coefficients (d, T), further attributes and warnings.
    fit_intercept : whether each task has an intercept.
    bytes_for : from n, d, T to the bytes that `solve` takes.
    """

    name: str
    solve: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, dict[str, Any], tuple]]
    fit_intercept: bool
    bytes_for: Callable[[int, int, int], int]

    def check(self, data: TaskData) -> None:
        rows = data.rows[0]
        if any(len(other) != len(rows) or (other != rows).any() for other in data.rows):
            reason = "some labels are missing" if data.form == "wide" else "the tasks have rows of their own"
            raise ValueError(
                f"{self.name} is a multivariate model: it needs y of shape (n, n_tasks) with every label of every row, "
                f"and {reason}"
            )

    def work_bytes(self, data: TaskData) -> int:
        n, d = data.X.shape
        return 8 * 4 * n * d + self.bytes_for(n, d, data.n_tasks)

    def fit(self, data: TaskData) -> LinearResult:
        rows = data.rows[0]
        X, Y = np.asarray(data.X[rows], dtype=np.float64), np.column_stack(data.y).astype(np.float64)
        weight = data.sample_weight[rows]
        centre = weight / weight.sum() if self.fit_intercept else np.zeros(len(X))
        x_mean, y_mean = centre @ X, centre @ Y
        # Rows weighted so that the mean square over them is the weighted one.
        root = np.sqrt(weight * len(X) / weight.sum())[:, np.newaxis]
        B, others, warnings = self.solve(root * (X - x_mean), root * (Y - y_mean))
        return B.T.copy(), y_mean - x_mean @ B, others, warnings
