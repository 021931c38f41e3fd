"""The labels of tasks: what they may be, and their positions among the known ones."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from .arrays import as_array, check_rounding, check_trailing_nul, listing, missing, plain, type_names, types_in
from .tables import as_table

_ADVICE = (
    "Tasks that were not in training need unknown_tasks='common' (with couplings='common') or 'nearest', or "
    + "task_features"
)


def read_groupings(tasks: Any) -> dict[Any, np.ndarray]:
    """The task of each row, or several groupings of rows: the columns of a table, a 2-d array or a dict, by name."""
    if isinstance(tasks, str):
        raise TypeError(
            f"tasks={tasks!r} is one text, not the task of each row: where a column of X has the tasks, name it by the "
            f"estimator's parameter task_column={tasks!r}"
        )
    if isinstance(tasks, Mapping):
        return {name: check_labels(values, f"tasks, column {name!r}") for name, values in tasks.items()}
    table = as_table(tasks, "tasks")
    if table is not None and len(table.names) > 1:
        columns = zip(table.names, table.columns, strict=True)
        return {name: check_labels(values, f"tasks, column {name!r}") for name, values in columns}
    labels = _as_labels(tasks, "tasks")
    if labels.ndim == 2 and labels.shape[1] > 1:
        return {k: check_labels(column, f"tasks, column {k}") for k, column in enumerate(labels.T)}
    return {None: check_labels(tasks)}


def check_labels(tasks: Any, name: str = "tasks") -> np.ndarray:
    """The task of each row, as a 1-d array whose items sort and compare; whole floats become integers."""
    labels = _as_labels(tasks, name)
    if labels.size != len(np.atleast_1d(labels)) or not labels.ndim:
        raise ValueError(f"{name} must be one label for each row, not an array of shape {labels.shape}")
    labels = labels.ravel()
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            raise ValueError(f"the task of row {int(np.argmin(np.isfinite(labels)))} is NaN or infinite")
        whole = (labels == np.round(labels)).all() and (np.abs(labels) < 2**53).all()
        return labels.astype(np.int64) if whole else labels
    if missing(labels).any():
        raise ValueError(f"the task of row {int(np.argmax(missing(labels)))} is missing")
    return _check_objects(labels) if labels.dtype.kind == "O" else labels


def _as_labels(values: Any, name: str) -> np.ndarray:
    labels = as_array(values, name)
    check_rounding(values, labels, name)
    return labels


def check_task_names(names: tuple[Any, ...]) -> np.ndarray:
    """The names of the columns of wide y, which name its tasks: they must be what task labels must be."""
    labels = np.empty(len(names), dtype=object)
    labels[:] = names
    if missing(labels).any():
        raise ValueError(f"column {int(np.argmax(missing(labels)))} of y has no name, and columns name the tasks")
    if tuple in types_in(labels):
        raise ValueError(f"the columns of y have names of several levels, such as {names[0]!r}: flatten them")
    return plain(_check_objects(labels))


def _check_objects(labels: np.ndarray) -> np.ndarray:
    kinds = types_in(labels)
    if kinds == {str}:
        check_trailing_nul(labels, "task label")
        return labels.astype(str)
    if len(kinds) > 1 and not all(issubclass(kind, (int, float, np.number)) for kind in kinds):
        raise ValueError(f"task labels are of mixed types: {type_names(kinds)}")
    try:
        ordered = sorted(set(labels.tolist()))
        # Sets have an order that leaves some of them beside each other.
        is_total = all(one < other for one, other in pairwise(ordered))
    except TypeError:
        is_total = False
    if not is_total:
        raise ValueError(f"task labels of type {type_names(kinds)} cannot be sorted: use text or numbers")
    return labels


def encode_tasks(
    tasks: np.ndarray, known: np.ndarray, allow_unknown: bool = False, new: np.ndarray | None = None
) -> np.ndarray:
    """Task labels -> their indices in `known` and then `new`; an unknown one is -1 if allowed, else it is named."""
    every = [*known.tolist(), *([] if new is None else new.tolist())]
    index = {label: code for code, label in enumerate(every)}
    codes = np.array([index.get(label, -1) for label in tasks.tolist()], dtype=np.intp)
    if not allow_unknown and (codes < 0).any():
        unknown = list(dict.fromkeys(tasks[codes < 0].tolist()))
        raise ValueError(
            f"unknown task{'s' if len(unknown) > 1 else ''} {listing(unknown)}; this model knows {listing(known)}. "
            + (_other_type(unknown, known.tolist()) or _ADVICE)
        )
    return codes


def _other_type(unknown: list[Any], known: list[Any]) -> str:
    """Advice where unknown tasks are written as known ones are, and have another type."""
    same = {str(label): label for label in known}
    pairs = [(label, same[str(label)]) for label in unknown if str(label) in same]
    if not pairs:
        return ""
    given, trained = (type(label).__name__ for label in pairs[0])
    return f"The types differ: {pairs[0][0]!r} is of type {given}, {pairs[0][1]!r} of the fit is of type {trained}"
