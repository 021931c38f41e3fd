"""The values of a fitted model's functions, computed where the rows are or the model's `device` says."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data import Queries
from ..grams import arrays_on
from .tasks import TaskFunctions


def function_values(model: Any, queries: Queries) -> np.ndarray:
    """(q, M) for rows with a task, (q, T, M) for wide data; see `TaskFunctions.values`."""
    functions, device = model.functions_, queries.device or getattr(model, "device", None)
    if device is None or not isinstance(functions, TaskFunctions):
        return functions.values(queries.X, queries.codes)
    return functions.values(queries.X, queries.codes, arrays=arrays_on(device))
