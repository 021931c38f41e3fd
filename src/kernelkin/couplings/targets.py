"""How alike tasks on the same rows are, by their targets."""

from __future__ import annotations

import numpy as np

from ..data import TaskData
from ..kernels.profiles import profile_kernel


def target_similarity(data: TaskData) -> np.ndarray:
    """Return how alike the targets of tasks are over the rows that both have (T, T), positive semi-definite."""
    if data.form != "wide" or any(y.dtype.kind != "f" for y in data.y):
        raise ValueError(
            "coupling 'targets' compares the targets of tasks row by row: it is for regression on wide data (y with a "
            "column for each task)"
        )
    table = np.full((len(data.X), data.n_tasks), np.nan)
    for t, (rows, y) in enumerate(zip(data.rows, data.y, strict=True)):
        table[rows, t] = y
    return profile_kernel(table)
