"""The door of every estimator: `fit` reads the data, prepares, sees whether there is memory, and learns."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, _fit_context, clone, is_classifier
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..data import Queries, TaskData, read_queries, read_training
from ..memory import Need, check_memory
from .scores import score_each_task


@dataclass(frozen=True)
class Prepared:
    """A fit of which nothing large exists yet: the memory it needs, and what is left to do."""

    need: Need
    learn: Callable[[], None]


class MultiTaskEstimator(BaseEstimator):
    """An estimator of many tasks; a subclass says how it prepares a fit, and how it predicts."""

    task_column: Any

    @abstractmethod
    def _prepare(self, data: TaskData) -> Prepared:
        """Refuse what is wrong with data and parameters, and say how much memory the fit needs."""

    @abstractmethod
    def _predict(self, queries: Queries) -> np.ndarray:
        """Predictions (q,) for rows with a task, (q, T) for wide data."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> Self:
        """Learn the functions of all tasks from their rows.

        Parameters
        ----------
        X : array or DataFrame (n, d); (n, n, K) with ``kernels="precomputed"``
            The rows of all tasks.
        y : array (n,), or (n, T) with NaN for missing labels
            Targets. With two dimensions every column is a task on the same rows.
        tasks : array (n,), optional
            The task of each row; any labels. Not needed with `task_column`, with wide y, or for one task.
        sample_weight : array (n,), optional
            Weights of rows; weighting a row by 2 equals repeating it. (A two-stage model also draws pairs by them.)

        Raises
        ------
        ValueError, TypeError
            Naming the culprit, before any kernel is evaluated: arrays of the wrong shape or length, NaN, infinite, too
            large or too small values, sparse X, task labels that are missing or of mixed types, classes of mixed types,
            tasks with one row or one class, and parameters that do not fit the data. Then: kernels that are not finite,
            symmetric and positive semi-definite on the rows, or zero on all of them.
        GramMemoryError
            Where the fit would need more memory than there is, or than ``KERNELKIN_MEMORY_GIB`` allows.
        """
        prepared = self._prepare(self._read(X, y, tasks, sample_weight))
        check_memory(prepared.need)
        prepared.learn()
        return self

    @available_if(lambda self: type(self).fit is MultiTaskEstimator.fit)
    def estimate_memory(self, X: Any, y: Any, tasks: Any = None) -> int:
        """Bytes that `fit` of these data will take at its peak, besides the data; nothing is fitted.

        `fit` refuses to start where this is more than the memory that is free, or than the environment variable
        ``KERNELKIN_MEMORY_GIB`` allows. Kernels are fitted to count them and to see whether they have low rank.

        Examples
        --------
        >>> import numpy as np
        >>> from kernelkin import MKMTRLRegressor
        >>> X, Y = np.random.default_rng(0).normal(size=(1000, 3)), np.zeros((1000, 4))
        >>> f"{MKMTRLRegressor().estimate_memory(X, Y) / 2**20:.0f} MiB"
        '115 MiB'
        """
        model = clone(self)
        return model._prepare(model._read(X, y, tasks, None)).need.peak

    def _read(self, X: Any, y: Any, tasks: Any, sample_weight: Any) -> TaskData:
        return read_training(self, X, y, tasks, sample_weight, classification=is_classifier(self))

    def _read_queries(self, X: Any, tasks: Any, allow_unknown: bool = False) -> Queries:
        check_is_fitted(self)
        return read_queries(self, X, tasks, allow_unknown)

    def score_tasks(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> dict[Any, float]:
        """The score of each task: accuracy for a classifier, R^2 for a regressor.

        Tasks without rows in X are left out; R^2 of a single row is NaN.
        """
        queries = self._read_queries(X, tasks)
        return score_each_task(self, queries, y, self._predict(queries), sample_weight)

    def score(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> float:
        """The mean over tasks of `score_tasks`, leaving out tasks whose score is undefined."""
        scores = list(self.score_tasks(X, y, tasks, sample_weight).values())
        return float(np.nanmean(scores)) if np.isfinite(scores).any() else float("nan")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
