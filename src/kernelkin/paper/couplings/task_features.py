"""What a user passes as `task_features`, as tables of features and kernels between tasks, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...data import as_array, as_table, check_labels, missing
from ...decompositions import eigvalsh
from .task_kernels import GivenTaskKernel, TaskTable

# The name of features that were given without one.
FEATURES = "features"
_FORMS = (
    "a DataFrame with the tasks as index, a dict from task to features, an array with a row for each task in order, a "
    "pair (tasks, kernel matrix), or a dict from names to these"
)


def read_task_features(task_features: Any, tasks: np.ndarray | None) -> dict[str, TaskTable | GivenTaskKernel]:
    """What a user passes -> tables and kernels by name. `tasks` (T,) names the rows of arrays without labels."""
    if task_features is None:
        return {}
    if isinstance(task_features, Mapping) and not task_features:
        raise ValueError("task_features is an empty dict")
    if not isinstance(task_features, Mapping) or all(map(_is_row, task_features.values())):
        return _read(FEATURES, task_features, tasks)
    found: dict[str, TaskTable | GivenTaskKernel] = {}
    for name, value in task_features.items():
        found |= _read(str(name), value, tasks)
    return found


def plain_task_features(task_features: Any) -> Any:
    """Return the same task features without data frames, which model files do not hold."""
    if isinstance(task_features, Mapping):
        return {name: plain_task_features(value) for name, value in task_features.items()}
    is_frame = hasattr(task_features, "iloc") and hasattr(task_features, "columns")
    return next(iter(_read_frame(FEATURES, task_features).values())) if is_frame else task_features


def _is_row(value: Any) -> bool:
    """Whether a value is the features of one task."""
    if isinstance(value, TaskTable | GivenTaskKernel):
        return False
    if isinstance(value, tuple) and len(value) == 2 and np.ndim(value[0]) == 1:
        return False
    return not isinstance(value, Mapping) and as_table(value, "task_features") is None and np.ndim(value) <= 1


def _read(name: str, value: Any, tasks: np.ndarray | None) -> dict[str, TaskTable | GivenTaskKernel]:
    if isinstance(value, TaskTable | GivenTaskKernel):
        return {name: value}
    if isinstance(value, tuple) and len(value) == 2:
        return _read_kernels(name, *value)
    if hasattr(value, "iloc") and hasattr(value, "columns"):
        return _read_frame(name, value)
    if isinstance(value, Mapping):
        rows = as_array(list(value.values()), f"task_features {name!r}")
        return {name: _table(name, list(value), _two_dimensional(rows))}
    if as_table(value, "task_features") is not None:
        raise ValueError(f"task_features {name!r} is a table without an index that names the tasks: pass {_FORMS}")
    array = as_array(value, f"task_features {name!r}")
    if array.ndim not in (1, 2) or array.dtype.kind not in "biufOUS":
        raise ValueError(f"task_features {name!r} must be {_FORMS}")
    if tasks is None or len(array) != len(tasks):
        needed = "a table that names them" if tasks is None else f"{len(tasks)} tasks need a row each"
        raise ValueError(f"task_features {name!r} is an array of {len(array)} rows without names of tasks; {needed}")
    return {name: _table(name, tasks.tolist(), _two_dimensional(array))}


def _two_dimensional(array: np.ndarray) -> np.ndarray:
    return array[:, np.newaxis] if array.ndim == 1 else array


def _read_frame(name: str, frame: Any) -> dict[str, TaskTable | GivenTaskKernel]:
    """A DataFrame of pandas; one whose columns are its index is a kernel between tasks."""
    index = frame.index.tolist()
    if len(index) > 1 and len(index) == frame.shape[1] and set(index) == set(frame.columns):
        return _read_kernels(name, index, frame[index].to_numpy())
    table = as_table(frame, "task_features")
    assert table is not None
    return {name: TaskTable(_labels(name, index), *_columns(name, index, table.names, table.columns))}


def _table(name: str, labels: list, rows: np.ndarray) -> TaskTable:
    names = tuple(range(rows.shape[1]))
    return TaskTable(_labels(name, labels), *_columns(name, labels, names, tuple(rows.T)))


def _labels(name: str, labels: list) -> np.ndarray:
    found = check_labels(labels)
    if len(set(found.tolist())) < len(found):
        twice = next(label for label in found.tolist() if found.tolist().count(label) > 1)
        raise ValueError(f"task_features {name!r} has task {twice!r} more than once")
    return found


def _columns(name: str, labels: list, names: tuple, columns: tuple) -> tuple[tuple[str, ...], tuple[np.ndarray, ...]]:
    """Columns as numbers, or as text where they are not."""
    if not columns:
        raise ValueError(f"task_features {name!r} has no columns")
    read = []
    for column, values in zip(names, columns, strict=True):
        faults = missing(values) if values.dtype.kind != "f" else ~np.isfinite(values)
        if faults.any():
            task = labels[int(np.argmax(faults))]
            raise ValueError(f"task_features {name!r}, column {column!r}: the value of task {task!r} is missing")
        read.append(_numbers_or_text(values))
    return tuple(map(str, names)), tuple(read)


def _numbers_or_text(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind in "iuf" or (values.dtype.kind == "O" and all(_is_number(v) for v in values.tolist())):
        return values.astype(np.float64)
    return values.astype(str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _read_kernels(name: str, labels: Any, matrix: Any) -> dict[str, TaskTable | GivenTaskKernel]:
    """One kernel (P, P), or several (m, P, P), which are numbered."""
    found, array = _labels(name, list(labels)), as_array(matrix, f"task_features {name!r}")
    P = len(found)
    if array.dtype.kind not in "biuf" or array.ndim not in (2, 3) or array.shape[-2:] != (P, P):
        raise ValueError(f"task_features {name!r}: {P} tasks need a kernel of shape ({P}, {P}), got {array.shape}")
    stack = array.astype(np.float64).reshape(-1, P, P)
    names = [name] if array.ndim == 2 else [f"{name} {i}" for i in range(len(stack))]
    for each, kernel in zip(names, stack, strict=True):
        _check_kernel(each, kernel)
    return {each: GivenTaskKernel(found, kernel) for each, kernel in zip(names, stack, strict=True)}


def _check_kernel(name: str, matrix: np.ndarray) -> None:
    if not np.isfinite(matrix).all() or np.abs(matrix - matrix.T).max() > 1e-8 * np.abs(matrix).max():
        raise ValueError(f"task_features {name!r} is not a finite symmetric matrix")
    values = eigvalsh(0.5 * (matrix + matrix.T))
    if values[-1] <= 0:
        raise ValueError(f"task_features {name!r} is zero: it links no tasks")
    if values[0] < -1e-6 * values[-1]:
        raise ValueError(
            f"task_features {name!r} is not positive semi-definite: its smallest eigenvalue is {values[0]:.3g}, the "
            f"largest {values[-1]:.3g}; kernelkin.kernels.nearest_psd finds the nearest matrix that is"
        )
