"""Base classes of the paper's models, with couplings, task relationships, parts of predictions and uncertainty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import Bunch

from ...data.forms import Queries, TaskData
from ...estimators import MultiTaskClassifier, MultiTaskEstimator, MultiTaskRegressor
from ...memory import check_square
from ..couplings import connected_tasks, read_couplings
from ..functions import TaskFunctions, function_values
from ..uncertainty import Uncertainty, class_probabilities, prediction_deviations, prediction_intervals


class PaperEstimator(MultiTaskEstimator):
    """Base class of the estimators in the paper."""

    uncertainty_: Uncertainty

    if TYPE_CHECKING:
        # `describe` writes the `__init__` of estimators.
        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    @property
    def task_relationship_(self) -> np.ndarray:
        """Omega (T, T), of trace one; computed on access.

        It relates the kernel weights of tasks, and depends on the total weight of each task, and so on its number of
        rows. It is a parameter of the model, not a measure of similarity.
        """
        relation = vars(self).get("relation_")
        if relation is None:
            raise AttributeError(f"this {type(self).__name__} has no task relationship; is it fitted?")
        check_square(len(self.tasks_), "task_relationship_", "use `relation_`, which stores low-rank factors")
        return relation.matrix() / relation.trace()

    def borrowing_tasks(self, data: TaskData) -> set[int]:
        linked = connected_tasks(read_couplings(getattr(self, "couplings", None), data), data.n_tasks)
        return {t for members in linked if len(members) > 1 for t in members.tolist()}

    _values, _deviations = function_values, prediction_deviations

    def _split(self, queries: Queries, prediction: np.ndarray) -> Bunch:
        """Return the Bunch of `predict` with ``split=True``."""
        functions, where = self.functions_, (queries.X, queries.codes)
        if not isinstance(functions, TaskFunctions):
            return super()._split(queries, prediction)

        def squeeze(values: np.ndarray) -> np.ndarray:
            """Drop the axis of outputs if there is only one."""
            return values[..., 0] if values.shape[-1] == 1 else values

        bunch = Bunch(
            prediction=prediction,
            parts=squeeze(functions.parts(*where)),
            intercept=squeeze(functions.intercepts(*where)),
            kernels=self.kernel_names_,
        )
        couplings = getattr(self, "couplings_", ())
        if couplings:
            bunch.own, *shared = [squeeze(functions.parts(*where, only=j)) for j in range(1 + len(couplings))]
            bunch.shared = {coupling.name: part for coupling, part in zip(couplings, shared, strict=True)}
        return bunch


class PaperClassifier(PaperEstimator, MultiTaskClassifier):
    """A classifier of the paper."""

    _probabilities = class_probabilities


class PaperRegressor(PaperEstimator, MultiTaskRegressor):
    """A regressor of the paper."""

    def predict_interval(self, X: Any, tasks: Any = None, coverage: float = 0.9) -> np.ndarray:
        """Return intervals that contain the target with a given probability.

        Half their width is a quantile of the held-out residuals of all training rows, in units of the scale of each
        task; the scale of a task with few rows is shrunk towards that of all tasks. The first call fits the model again
        in five folds. Tasks that were not in training have no intervals.

        Parameters
        ----------
        X, tasks : as for `predict`
        coverage : float in (0, 1), default 0.9
            Share of targets that the intervals should contain.

        Returns
        -------
        intervals : array of shape (q, 2), or (q, T, 2) on wide data
            Lower and upper ends.
        """
        return prediction_intervals(self, self.read_queries(X, tasks), coverage)
