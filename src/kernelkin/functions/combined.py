"""The weighted average of the functions of several fits, on scaled columns, in the units of the targets."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..couplings import TaskTable
from .tasks import TaskFunctions


@dataclass(frozen=True)
class CombinedFunctions:
    """f_t(x) = location_t + spread_t sum_m weights_mt (slopes_m f_tm(z) + offsets_m), with z the scaled columns of x.

    Attributes
    ----------
    members : functions of each fit.
    weights, slopes, offsets : (M,) how their values are averaged, for tasks that were not in training.
    task_weights : (M, T) the weights for each task of training.
    center, scale : (d,) z = (x - center) / scale.
    location, spread : (T,) from standardised targets to those of each task; unknown tasks have the means of both.
    borrowing : (M,) whether tasks share parts of their functions in a member.
    tiny : (T,) tasks of one row or one class, which members that do share are averaged for, where there are any.
    new_location : (E,) that of new tasks that all members know by their features.
    """

    members: tuple[Any, ...]
    weights: np.ndarray
    task_weights: np.ndarray
    slopes: np.ndarray
    offsets: np.ndarray
    center: np.ndarray
    scale: np.ndarray
    location: np.ndarray
    spread: np.ndarray
    borrowing: np.ndarray
    tiny: np.ndarray
    new_location: np.ndarray = field(default_factory=lambda: np.empty(0))

    @property
    def new_tasks(self) -> np.ndarray:
        """(E,) labels of new tasks that are known by their features."""
        return self.members[0].new_tasks if len(self.new_location) else np.empty(0)

    @property
    def new_similarities(self) -> np.ndarray:
        """(E, T) how like the tasks of training they are."""
        return self.members[0].new_similarities

    def task_similarities(self, tasks: np.ndarray) -> np.ndarray | None:
        """(T, T) the mean of the kernels between tasks; None where there are none."""
        return self.members[0].task_similarities(tasks) if isinstance(self.members[0], TaskFunctions) else None

    def with_tasks(self, tables: dict[str, TaskTable], tasks: np.ndarray) -> CombinedFunctions:
        """Return the functions with those of tasks that have features in these tables; `tasks` (T,) had rows."""
        members = tuple(member.with_tasks(tables, tasks) for member in self.members)
        return replace(self, members=members).with_new_locations(tasks)

    def with_new_locations(self, tasks: np.ndarray) -> CombinedFunctions:
        """Return the functions with the locations of the new tasks that all members know, by their features."""
        if not all(isinstance(member, TaskFunctions) and len(member.new_tasks) for member in self.members):
            return self
        return replace(self, new_location=self.members[0].predict_levels(tasks, self.location[:, np.newaxis])[:, 0])

    def rows(self) -> np.ndarray | None:
        """The rows (s, d) that the fits keep, in the units of X; None where they keep none."""
        kept = [rows for rows in (member.rows() for member in self.members) if rows is not None]
        return np.unique(np.concatenate(kept), axis=0) * self.scale + self.center if kept else None

    def spreads(self, X: np.ndarray, codes: np.ndarray | None) -> np.ndarray:
        """Return the standard deviation of the first value over the members (q,), or (q, T), in standard units."""
        Z = (X - self.center) / self.scale
        parts = np.array([member.values(Z, codes)[..., 0] for member in self.members])
        others = np.repeat(self.weights[:, np.newaxis], len(self.new_location) + 1, axis=1)
        weights = (
            self.task_weights[:, np.newaxis] if codes is None else np.hstack([self.task_weights, others])[:, codes]
        )
        mean = (weights * parts).sum(axis=0)
        return np.sqrt((weights * (parts - mean) ** 2).sum(axis=0))

    def values(self, X: np.ndarray, codes: np.ndarray | None) -> np.ndarray:
        """X (q, d), the task of each row (q,) -> (q, M); without codes, every task on every row -> (q, T, M)."""
        Z = (X - self.center) / self.scale
        rows = np.arange(len(self.location)) if codes is None else codes
        total = 0.0
        for m, member in enumerate(self.members):
            values = self.slopes[m] * member.values(Z, codes) + self.offsets[m]
            total = total + self._weight(m)[rows][..., np.newaxis] * values
        new = np.full(len(self.new_location), self.spread.mean())
        location = np.concatenate([self.location, self.new_location, [self.location.mean()]])
        spread = np.concatenate([self.spread, new, [self.spread.mean()]])
        return location[rows][..., np.newaxis] + spread[rows][..., np.newaxis] * np.asarray(total)

    def _weight(self, m: int) -> np.ndarray:
        """(T + E + 1,) the weight of a member for each task, for new tasks, and for unknown ones."""
        shared = self.weights * self.borrowing
        tiny = shared / shared.sum() if shared.any() else self.weights
        others = np.full(len(self.new_location) + 1, self.weights[m])
        return np.concatenate([np.where(self.tiny, tiny[m], self.task_weights[m]), others])
