"""Linear models of tasks, with an intercept for each task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...data.forms import TaskData
from ...estimators import Fitted, RunOptions
from ...memory import FIXED, TASK_OBJECTS, Need
from ..functions import LinearFunctions
from ..uncertainty import Uncertainty

# Coefficients (T, d), intercepts (T,), further fitted attributes, and warnings.
LinearResult = tuple[np.ndarray, np.ndarray, dict[str, Any], tuple[tuple[str, type[Warning]], ...]]


class LinearFit(NamedTuple):
    """Specification of a linear model.

    Parameters
    ----------
    solve : takes data and returns a `LinearResult`
    bytes_for : takes n, d, T and returns a bound on the memory of `solve`
    multivariate : the name of the estimator if it needs wide y without missing labels; otherwise None
    advice : what to do if memory is short
    """

    solve: Callable[[TaskData], LinearResult]
    bytes_for: Callable[[int, int, int], int]
    multivariate: str | None = None
    advice: str = "use fewer rows or columns"

    def plan(self, data: TaskData) -> LinearPlan:
        """Apply to data."""
        rows = data.rows[0]
        if self.multivariate and any(len(other) != len(rows) or (other != rows).any() for other in data.rows):
            reason = "some labels are missing" if data.form == "wide" else "the tasks have different rows"
            raise ValueError(
                f"{self.multivariate} is a multivariate model: it needs y of shape (n, n_tasks) without missing "
                f"labels, but {reason}"
            )
        return LinearPlan(self, data)


class LinearPlan(NamedTuple):
    """A specification applied to data."""

    spec: LinearFit
    data: TaskData

    def memory(self, n_jobs: int = 1) -> Need:
        (n, d), T = self.data.X.shape, self.data.n_tasks
        held = 8 * (24 * n + 8 * d * T) + T * TASK_OBJECTS
        return Need(FIXED + held + self.spec.bytes_for(max(map(len, self.data.rows)), d, T), self.spec.advice)

    def run(self, options: RunOptions) -> Fitted:
        """Solve, and keep the coefficients."""
        coef, intercept, others, warnings = self.spec.solve(self.data)
        attributes = {
            "tasks_": self.data.labels,
            "data_form_": self.data.form,
            "coef_": coef,
            "intercept_": intercept,
            "functions_": LinearFunctions(coef, intercept),
            "uncertainty_": Uncertainty(self.spec, self.data, options, classification=False),
        }
        return Fitted(attributes | others, warnings)


def task_by_task(
    data: TaskData, make: Callable[[], Any], describe: Callable[[list[Any]], dict[str, Any]] = lambda models: {}
) -> LinearResult:
    """Fit a linear model of scikit-learn, made by `make`, to each task; `describe` returns further attributes."""
    models = [
        make().fit(data.X[rows], y, sample_weight=data.sample_weight[rows])
        for rows, y in zip(data.rows, data.y, strict=True)
    ]
    coef = np.array([model.coef_ for model in models])
    intercept = np.array([float(model.intercept_) for model in models])
    return coef, intercept, {"models_": models, **describe(models)}, ()


def task_bytes(n: int, d: int, T: int) -> int:
    """Bound the memory of `task_by_task`."""
    return 32 * ((d + 6) * n + d * T)


def on_shared_rows(
    data: TaskData,
    solve: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, dict[str, Any], tuple]],
    fit_intercept: bool,
) -> LinearResult:
    """Fit all targets together: `solve` takes centred X (n, d), Y (n, T) and returns coefficients (d, T) etc."""
    rows = data.rows[0]
    X, Y = np.asarray(data.X[rows], dtype=np.float64), np.column_stack(data.y).astype(np.float64)
    weight = data.sample_weight[rows]
    centre = weight / weight.sum() if fit_intercept else np.zeros(len(X))
    x_mean, y_mean = centre @ X, centre @ Y
    # Rows are scaled so that their mean square is the weighted mean square.
    root = np.sqrt(weight * len(X) / weight.sum())[:, np.newaxis]
    B, others, warnings = solve(root * (X - x_mean), root * (Y - y_mean))
    return B.T.copy(), y_mean - x_mean @ B, others, warnings
