"""Estimators of tasks with classes, and of tasks with real targets."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin

from ...uncertainty import class_probabilities, prediction_intervals
from .array_api import as_rows_are
from .base import MultiTaskEstimator
from .classes import decision_values


class MultiTaskClassifier(ClassifierMixin, MultiTaskEstimator):
    """An estimator whose tasks have classes."""

    # The method of scikit-learn's mixin does not handle tasks.
    score = MultiTaskEstimator.score

    def decision_function(self, X: Any, tasks: Any = None) -> np.ndarray:
        """Return how far each row is on the side of each class.

        Parameters
        ----------
        X, tasks : as for `predict`

        Returns
        -------
        values : array
            (q,) where all tasks have the same two classes, positive for the second one; otherwise (q, n_classes) in the
            order of `classes_`, -inf for classes that a row's task does not have. On wide data (q, T) where every task
            has two classes, else (q, T, n_classes).
        """
        return as_rows_are(X, decision_values(self, self._read_queries(X, tasks)))

    def predict_proba(self, X: Any, tasks: Any = None) -> np.ndarray:
        """Return the probability of each class.

        Decision values of training rows that were held out of their machines are turned into probabilities by a
        logistic link. All tasks share its slope; the offset of a task is drawn towards that of all tasks while the task
        has few rows. They are computed at the first call, at the kernel weights that all rows have taught.

        Parameters
        ----------
        X, tasks : as for `predict`

        Returns
        -------
        probabilities : array of shape (q, n_classes), or (q, T, n_classes) on wide data
            In the order of `classes_`; zero for classes that a row's task does not have. `predict` follows
            `decision_function`: with `class_weight`, or near the boundary, its class may not be the most probable one.
        """
        return as_rows_are(X, class_probabilities(self, self._read_queries(X, tasks)))


class MultiTaskRegressor(RegressorMixin, MultiTaskEstimator):
    """An estimator whose tasks have real targets."""

    # The method of scikit-learn's mixin does not handle tasks.
    score = MultiTaskEstimator.score

    def predict_interval(self, X: Any, tasks: Any = None, coverage: float = 0.9) -> np.ndarray:
        """Return intervals that contain the target with a given probability.

        They are conformal: their widths are quantiles of the residuals of training rows that were held out, divided by
        the predictive deviation of each row (that of a Gaussian process for the squared loss, constant otherwise). The
        quantile of a task is drawn towards that of all tasks while the task has few rows. Residuals are computed at the
        first call, at the kernel weights that all rows have taught.

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
        return as_rows_are(X, prediction_intervals(self, self._read_queries(X, tasks), coverage))
