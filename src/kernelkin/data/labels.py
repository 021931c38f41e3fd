"""The labels of tasks: what they may be, and their positions among the known ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import as_array, check_trailing_nul, listing, missing, plain, type_names, types_in


def check_labels(tasks: Any) -> np.ndarray:
    """The task of each row, as a 1-d array whose items sort and compare; whole floats become integers."""
    labels = as_array(tasks, "tasks")
    if labels.size != len(np.atleast_1d(labels)) or not labels.ndim:
        raise ValueError(f"tasks must be one label for each row, not an array of shape {labels.shape}")
    labels = labels.ravel()
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            raise ValueError(f"the task of row {int(np.argmin(np.isfinite(labels)))} is NaN or infinite")
        whole = (labels == np.round(labels)).all() and (np.abs(labels) < 2**53).all()
        return labels.astype(np.int64) if whole else labels
    if missing(labels).any():
        raise ValueError(f"the task of row {int(np.argmax(missing(labels)))} is missing")
    return _check_objects(labels) if labels.dtype.kind == "O" else labels


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
        sorted(set(labels.tolist()))
    except TypeError:
        raise ValueError(f"task labels of type {type_names(kinds)} cannot be sorted: use text or numbers") from None
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
            "Tasks that were not in training need unknown_tasks='common' (with couplings='common') or 'nearest', or "
            "task_features"
        )
    return codes
