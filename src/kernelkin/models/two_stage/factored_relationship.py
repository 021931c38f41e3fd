"""A task relationship that is kept as factors, so that nothing of size T x T exists before it is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ...data import encode_tasks
from ...solvers.online import Relationship

# Above this many tasks a T x T matrix is refused: 20,000 tasks are 3.2 GB.
DENSE_TASKS = 20_000


class FactoredRelationship:
    """What an estimator with a `relationship_` can be asked about its tasks."""

    tasks_: np.ndarray
    relationship_: Relationship

    def relationship_row(self, task: Any) -> np.ndarray:
        """The row of the task relationship (T,) that belongs to a task."""
        check_is_fitted(self)
        return self.relationship_.row(self._code(task))

    def related_tasks(self, task: Any, n: int = 5) -> list[tuple[Any, float]]:
        """The n tasks most strongly related to a task, with their correlations, strongest first."""
        t = self._code(task)
        diagonal = np.maximum(self.relationship_.diagonal(), np.finfo(float).tiny)
        correlation = self.relationship_row(task) / np.sqrt(diagonal * diagonal[t])
        order = np.argsort(-correlation, kind="stable")
        return [(self.tasks_[s].item(), float(correlation[s])) for s in order[order != t][:n]]

    @property
    def task_relationship_(self) -> np.ndarray:
        """Omega (T, T), made when it is asked for."""
        self._check_dense()
        return self.relationship_.dense()

    @property
    def task_correlation_(self) -> np.ndarray:
        """Omega (T, T) scaled to unit diagonal, made when it is asked for."""
        Omega = self.task_relationship_
        root = np.sqrt(np.maximum(np.diag(Omega), np.finfo(float).tiny))
        return Omega / np.outer(root, root)

    def _check_dense(self) -> None:
        if not hasattr(self, "relationship_"):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet")
        n = len(self.tasks_)
        if n > DENSE_TASKS:
            raise ValueError(
                f"the relationship of {n} tasks is a {n} x {n} matrix of {8e-9 * n * n:.3g} GB: ask for "
                "relationship_row(task) or related_tasks(task)"
            )

    def _code(self, task: Any) -> int:
        return int(encode_tasks(np.array([task]), self.tasks_)[0])
