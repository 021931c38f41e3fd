"""Multi-kernel estimators whose tasks have classes, and those whose tasks have numbers."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils._param_validation import Interval, StrOptions

from ..data import Queries, TaskData
from ..learners import SVM, SVR, Learner, Machine, Ridge
from .base import MultiKernelEstimator
from .targets import class_machines, regression_machines


@dataclass(eq=False, repr=False, kw_only=True)
class MultiKernelClassifier(ClassifierMixin, MultiKernelEstimator):
    """A multi-kernel estimator whose tasks have classes."""

    loss: str = "hinge"
    class_weight: Any = None

    # Those of scikit-learn's mixins know of no tasks.
    score = MultiKernelEstimator.score

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MultiKernelEstimator._parameter_constraints,
        "loss": [StrOptions({"hinge", "squared"})],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def _learner(self) -> Learner:
        return SVM() if self.loss == "hinge" else Ridge()

    def _machines(self, data: TaskData) -> list[Machine]:
        machines, self.task_classes_ = class_machines(data, self.C, self.class_weight)
        self.classes_ = np.unique(np.concatenate(self.task_classes_))
        return machines

    def decision_function(self, X: Any, tasks: Any = None) -> np.ndarray:
        """How far each row is on the side of each class.

        Returns
        -------
        values : (q,) where all tasks have the same two classes, positive for the second one; otherwise (q, n_classes)
            in the order of `classes_`, -inf for classes that a row's task does not have. On wide data (q, T) where
            every task has two classes, else (q, T, n_classes).
        """
        return self._decide(self._read_queries(X, tasks))

    def _decide(self, queries: Queries) -> np.ndarray:
        values = self.functions_.values(queries.X, queries.codes)
        binary = all(len(classes) == 2 for classes in self.task_classes_)
        if binary and (queries.codes is None or len(self.classes_) == 2):
            return values[..., 0]
        spread = np.full((*values.shape[:-1], len(self.classes_)), -np.inf)
        for t, classes in enumerate(self.task_classes_):
            where = np.searchsorted(self.classes_, classes)
            rows = np.index_exp[:, t] if queries.codes is None else np.nonzero(self._speaks_for(t, queries.codes))
            mine = values[rows]
            mine = np.stack([-mine[..., 0], mine[..., 0]], axis=-1) if len(classes) == 2 else mine[..., : len(classes)]
            block = spread[rows]
            block[:, where] = mine
            spread[rows] = block
        return spread

    @staticmethod
    def _speaks_for(task: int, codes: np.ndarray) -> np.ndarray:
        """The rows whose classes are this task's: its own, and for the first task those of tasks never seen (-1)."""
        return (codes == task) | ((codes < 0) & (task == 0))

    def _predict(self, queries: Queries) -> np.ndarray:
        values = self._decide(queries)
        if values.ndim == (2 if queries.codes is None else 1):
            positive = (values > 0).astype(np.intp)
            if queries.codes is not None or len(self.classes_) == 2:
                return self.classes_[positive]
            return np.stack([c[p] for c, p in zip(self.task_classes_, positive.T, strict=True)], axis=1)
        return self.classes_[values.argmax(axis=-1)]


@dataclass(eq=False, repr=False, kw_only=True)
class MultiKernelRegressor(RegressorMixin, MultiKernelEstimator):
    """A multi-kernel estimator whose tasks have real targets."""

    loss: str = "squared"
    epsilon: float = 0.1
    fit_intercept: bool = True

    score = MultiKernelEstimator.score

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MultiKernelEstimator._parameter_constraints,
        "loss": [StrOptions({"squared", "epsilon_insensitive"})],
        "epsilon": [Interval(Real, 0, None, closed="left")],
        "fit_intercept": ["boolean"],
    }

    def _learner(self) -> Learner:
        return Ridge() if self.loss == "squared" else SVR(self.epsilon)

    def _machines(self, data: TaskData) -> list[Machine]:
        return regression_machines(data, self.C, self.fit_intercept)

    def _predict(self, queries: Queries) -> np.ndarray:
        return self.functions_.values(queries.X, queries.codes)[..., 0]
