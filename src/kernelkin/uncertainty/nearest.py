"""Values of each task as its nearest other task predicts them, for models that predict new tasks so."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..data import TaskData
from ..functions import InputIndex
from .held_out import HeldOut, HeldOutSource, LeftOutTasks


@dataclass(frozen=True)
class WithNearest:
    """Held-out values of a fit, and those of each task by the function of the task that is most like it.

    The functions are those of the whole fit. Where couplings link the two tasks, the other's function has learned a
    little from the rows that it predicts here.

    Attributes
    ----------
    source : of the held-out values.
    functions : of the fit.
    data : training data, in the units of the functions.
    classification : whether the targets are classes.
    index : finds the most similar task by inputs, where tasks have no features.
    """

    source: HeldOutSource
    functions: Any
    data: TaskData
    classification: bool = False
    index: InputIndex | None = None

    def held_out(self) -> HeldOut:
        held, data = self.source.held_out(), self.data
        if data.n_tasks < 2 or (self.classification and len({np.unique(y).tobytes() for y in data.y}) > 1):
            return held
        similarity = self.functions.task_similarities(data.labels)
        codes = [np.full(len(rows), self._nearest(t, similarity)) for t, rows in enumerate(data.rows)]
        values = self.functions.values(data.X[np.concatenate(data.rows)], np.concatenate(codes))
        parts = np.split(values, np.cumsum([len(rows) for rows in data.rows])[:-1])
        left = LeftOutTasks(parts, [np.ones(len(part)) for part in parts])
        return replace(held, new_tasks={**held.new_tasks, "nearest": left})

    def _nearest(self, task: int, similarity: np.ndarray | None) -> int:
        """Return the other task that is most like a task: by features (T, T) where there are any, or by inputs."""
        if similarity is not None:
            return int(np.argmax(np.where(np.arange(self.data.n_tasks) == task, -np.inf, similarity[task])))
        assert self.index is not None
        return self.index.nearest(self.data.X[self.data.rows[task]], besides=task)
