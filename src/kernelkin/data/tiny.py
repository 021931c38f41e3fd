"""Tasks with too few rows or classes to be learned alone: found, refused, or set aside."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..exceptions import warn_user
from .arrays import listing
from .forms import TaskData
from .targets import task_fault

ADVICE = (
    "models with couplings (MK-MTRL with couplings='common', 'auto' or task_features) let it share with other tasks, "
    "and their min_rows=2 sets it aside"
)


def tiny_tasks(data: TaskData, *, classification: bool) -> dict[int, str]:
    """Return why tasks cannot be learned alone, by position."""
    found = {}
    for t, (label, y) in enumerate(zip(data.labels.tolist(), data.y, strict=True)):
        name = "the data" if data.form == "single" else f"task {label!r}"
        fault = task_fault(name, y, classification=classification)
        if fault is not None:
            found[t] = f"{fault}; {ADVICE}" if len(y) and data.form != "single" else fault
    return found


def settle_tiny_tasks(estimator: Any, data: TaskData, *, classification: bool) -> TaskData:
    """Set tasks aside as the estimator's `min_rows` says, and refuse those that cannot be learned.

    A task of one row or one class can be learned where the estimator lets it share parts of its function with others.
    """
    min_rows = getattr(estimator, "min_rows", None) if data.form == "long" else None
    if min_rows is not None:
        small = {t for t, y in enumerate(data.y) if len(y) < min_rows}
        left = data.select(_others(data, small, min_rows)) if small else data
        stuck = {left.labels[t].item() for t in _stuck(estimator, left, classification)}
        aside = {t for t, label in enumerate(data.labels.tolist()) if t in small or label in stuck}
        return _set_aside(data, aside, min_rows)
    for fault in _stuck(estimator, data, classification).values():
        raise ValueError(fault)
    return data


def _stuck(estimator: Any, data: TaskData, classification: bool) -> dict[int, str]:
    """Return why tasks cannot be learned, by position: they are tiny, and share nothing with others."""
    faults = tiny_tasks(data, classification=classification)
    if not any(len(data.y[t]) for t in faults) or any(not len(y) for y in data.y):
        return faults
    borrowing = estimator.borrowing_tasks(data) if hasattr(estimator, "borrowing_tasks") else set()
    if classification and borrowing and all((y == y[0]).all() for y in data.y):
        raise ValueError(
            "every task has one class only; a task of one class can share with others where one of them has two or more"
        )
    return {t: fault for t, fault in faults.items() if t not in borrowing}


def _others(data: TaskData, tasks: set[int], min_rows: int) -> np.ndarray:
    kept = np.array([t for t in range(data.n_tasks) if t not in tasks], dtype=np.intp)
    if not len(kept):
        raise ValueError(f"min_rows={min_rows} sets all {data.n_tasks} tasks aside")
    return kept


def _set_aside(data: TaskData, tasks: set[int], min_rows: int) -> TaskData:
    if not tasks:
        return data
    kept = _others(data, tasks, min_rows)
    names = listing(data.labels[sorted(tasks)])
    warn_user(
        f"set aside, with fewer rows than min_rows={min_rows} or one class only: task {names}. They are not in tasks_; "
        "unknown_tasks decides how they are predicted",
        UserWarning,
    )
    return data.select(kept)
