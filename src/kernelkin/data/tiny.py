"""Tasks with too few rows or classes to be learned alone: found, refused, or set aside."""

from __future__ import annotations

from collections.abc import Collection

from .forms import TaskData, set_aside
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


def settle_tiny_tasks(
    data: TaskData, sharing: Collection[int] = (), *, classification: bool, min_rows: int | None = None
) -> TaskData:
    """Refuse tasks that cannot be learned, or set them aside where there is a `min_rows`.

    Parameters
    ----------
    data : TaskData
    sharing : the tasks, by position, that share parts of their functions with others: one row or one class is enough.
    classification : whether targets are classes.
    min_rows : of the estimator; set aside are tasks of long data alone.
    """
    faults = tiny_tasks(data, classification=classification)
    if all(len(data.y[t]) for t in faults):
        if classification and faults and sharing and all((y == y[0]).all() for y in data.y):
            raise ValueError(
                "every task has one class only; a task of one class can share with others where one of them has two or "
                "more"
            )
        faults = {t: fault for t, fault in faults.items() if t not in sharing}
    if min_rows is not None and data.form == "long":
        return set_aside(data, faults, min_rows, "one class only")
    for fault in faults.values():
        raise ValueError(fault)
    return data
