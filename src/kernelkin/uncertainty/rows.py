"""Rows to predict, with what uncertainty has to know about their tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..data import Queries
from ..functions import NewTask, TaskFunctions

# How tasks that were not in training are predicted; "" stands for tasks that were.
COMMON, FEATURES, NEAREST = "common", "features", "nearest"


@dataclass(frozen=True)
class PredictedRows:
    """Rows and their tasks.

    Attributes
    ----------
    X : (q, d) rows, or (q, n, K) precomputed Gram matrices.
    codes : (q,) as in `Queries`; None where every task predicts every row.
    is_nearest : (q,) whether the code is that of the task most like the row's, which was not in training.
    new : the tasks among the codes that were not in training, as far as the model's functions describe them.
    """

    X: np.ndarray
    codes: np.ndarray | None
    is_nearest: np.ndarray | None = None
    new: Mapping[int, NewTask] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Any, queries: Queries) -> PredictedRows:
        """Return the queries of a fitted model."""
        codes, functions, new = queries.codes, model.functions_, dict[int, NewTask]()
        if codes is not None and isinstance(functions, TaskFunctions):
            outside = np.unique(codes[(codes < 0) | (codes >= len(model.tasks_))]).tolist()
            new = {code: functions.new_task(code) for code in outside}
        return cls(queries.X, codes, queries.is_nearest, new)

    def kinds(self, n_tasks: int) -> np.ndarray:
        """Return how the task of each row (q,) is predicted."""
        assert self.codes is not None
        found = np.where(self.codes < 0, COMMON, np.where(self.codes >= n_tasks, FEATURES, ""))
        return found if self.is_nearest is None else np.where(self.is_nearest, NEAREST, found)
