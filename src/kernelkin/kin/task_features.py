"""Features of tasks and kernels between tasks: the parameter `task_features`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.arrays import as_array, as_table, listing, missing
from ..data.checks import check_labels
from ..decompositions import eigvalsh

# Default name of features.
FEATURES = "features"
# Widths of the Gaussian kernels on features, relative to the median distance of the training tasks.
FEATURE_WIDTHS = (0.5, 1.0)
_FORMS = (
    "a DataFrame with the tasks as index, a dict from task to features, an array with a row for each task in order, a "
    "pair (tasks, kernel matrix), or a dict from names to these"
)


@dataclass(frozen=True)
class TaskTable:
    """Features of the tasks `labels` (P,): columns (P,) of float64 or of text, and their names."""

    labels: np.ndarray
    names: tuple[str, ...]
    columns: tuple[np.ndarray, ...]

    def kernels(self, at: np.ndarray) -> list[np.ndarray]:
        """Return Gaussian kernels (P, T) of several widths between these tasks and the training tasks at (T,).

        Numbers are standardised on the training tasks; text becomes indicators of the categories in training.
        """
        features = np.column_stack([_encode(values, values[at]) for values in self.columns])
        squares = np.sum((features[:, np.newaxis] - features[at]) ** 2, axis=2)
        apart = squares[at][squares[at] > 1e-12]
        unit = float(np.median(apart)) if len(apart) else 1.0
        return [np.exp(-0.5 * squares / (unit * width**2)) for width in FEATURE_WIDTHS]


@dataclass(frozen=True)
class GivenTaskKernel:
    """A positive semi-definite matrix (P, P) between the tasks `labels` (P,)."""

    labels: np.ndarray
    matrix: np.ndarray

    def kernels(self, at: np.ndarray) -> list[np.ndarray]:
        """Return the kernel (P, T) of unit diagonal between these tasks and the training tasks at (T,)."""
        root = np.sqrt(np.diag(self.matrix))
        root = np.where(root > 0, root, 1.0)
        return [(self.matrix / np.outer(root, root))[:, at]]


TaskFeatures = TaskTable | GivenTaskKernel


def read_task_features(task_features: Any, tasks: np.ndarray | None) -> dict[str, TaskFeatures]:
    """Convert `task_features` to tables and kernels by name; `tasks` (T,) label the rows of arrays without labels."""
    if task_features is None:
        return {}
    if isinstance(task_features, Mapping) and not task_features:
        raise ValueError("task_features is an empty dict")
    if not isinstance(task_features, Mapping) or all(map(_is_row, task_features.values())):
        return {FEATURES: _read(FEATURES, task_features, tasks)}
    return {str(name): _read(str(name), value, tasks) for name, value in task_features.items()}


def read_task_kernels(task_features: Any, tasks: np.ndarray) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Return kernels (T + E, T) between all tasks (new ones last) and training tasks, and the new labels (E,)."""
    given = read_task_features(task_features, tasks)
    if not given:
        return (), np.empty(0, dtype=tasks.dtype)
    first = next(iter(given.values())).labels
    new = first[~np.isin(first, tasks)]
    every, found = np.concatenate([tasks, new]) if len(new) else tasks, []
    for name, each in given.items():
        index = {label: i for i, label in enumerate(each.labels.tolist())}
        if without := [task for task in every.tolist() if task not in index]:
            raise ValueError(f"task_features: {name!r} has no row for task {listing(without)}")
        at = np.array([index[task] for task in every.tolist()], dtype=np.intp)
        found += [values[at] for values in each.kernels(at[: len(tasks)])]
    return tuple(found), new


def plain_task_features(task_features: Any) -> Any:
    """Return the task features with DataFrames converted, because model files cannot store DataFrames."""
    if isinstance(task_features, Mapping):
        return {name: plain_task_features(value) for name, value in task_features.items()}
    return _read_frame(FEATURES, task_features) if _is_frame(task_features) else task_features


def _encode(values: np.ndarray, training: np.ndarray) -> np.ndarray:
    """Encode values (P,) as (P, 1) or (P, categories); categories not in training become zeros."""
    if values.dtype.kind == "f":
        spread = float(training.std())
        scale = spread if spread > 1e-12 * np.abs(training).max() else 1.0
        return ((values - training.mean()) / scale)[:, np.newaxis]
    return (values[:, np.newaxis] == np.array(list(dict.fromkeys(training.tolist())))).astype(np.float64)


def _is_frame(value: Any) -> bool:
    return hasattr(value, "iloc") and hasattr(value, "columns")


def _is_row(value: Any) -> bool:
    """Return True if a value contains the features of one task."""
    is_pair = isinstance(value, tuple) and len(value) == 2 and np.ndim(value[0]) == 1
    if is_pair or isinstance(value, TaskFeatures | Mapping):
        return False
    return as_table(value, "task_features") is None and np.ndim(value) <= 1


def _read(name: str, value: Any, tasks: np.ndarray | None) -> TaskFeatures:
    if isinstance(value, TaskFeatures):
        return value
    if isinstance(value, tuple) and len(value) == 2:
        return _read_kernel(name, *value)
    if _is_frame(value):
        return _read_frame(name, value)
    if isinstance(value, Mapping):
        return _table(name, list(value), as_array(list(value.values()), f"task_features {name!r}"))
    if as_table(value, "task_features") is not None:
        raise ValueError(f"task_features {name!r} is a table without an index that names the tasks: pass {_FORMS}")
    array = as_array(value, f"task_features {name!r}")
    if array.ndim not in (1, 2) or array.dtype.kind not in "biufOUS":
        raise ValueError(f"task_features {name!r} must be {_FORMS}")
    if tasks is None or len(array) != len(tasks):
        needed = "a table that names them" if tasks is None else f"{len(tasks)} tasks need a row each"
        raise ValueError(f"task_features {name!r} is an array of {len(array)} rows without names of tasks; {needed}")
    return _table(name, tasks.tolist(), array)


def _read_frame(name: str, frame: Any) -> TaskFeatures:
    """Read a pandas DataFrame; if its columns equal its index, it is a kernel between tasks."""
    index = frame.index.tolist()
    if len(index) > 1 and len(index) == frame.shape[1] and set(index) == set(frame.columns):
        return _read_kernel(name, index, frame[index].to_numpy())
    table = as_table(frame, "task_features")
    assert table is not None
    return TaskTable(_labels(name, index), *_columns(name, index, table.names, table.columns))


def _table(name: str, labels: list, rows: np.ndarray) -> TaskTable:
    columns = tuple(rows.reshape(len(rows), -1).T)
    return TaskTable(_labels(name, labels), *_columns(name, labels, tuple(range(len(columns))), columns))


def _labels(name: str, labels: list) -> np.ndarray:
    found = check_labels(labels)
    if len(set(found.tolist())) < len(found):
        twice = next(label for label in found.tolist() if found.tolist().count(label) > 1)
        raise ValueError(f"task_features {name!r} contains task {twice!r} more than once")
    return found


def _columns(name: str, labels: list, names: tuple, columns: tuple) -> tuple[tuple[str, ...], tuple[np.ndarray, ...]]:
    """Return columns as numbers if possible, else as text."""
    if not columns:
        raise ValueError(f"task_features {name!r} has no columns")
    read = []
    for column, values in zip(names, columns, strict=True):
        faults = missing(values) if values.dtype.kind != "f" else ~np.isfinite(values)
        if faults.any():
            task = labels[int(np.argmax(faults))]
            raise ValueError(f"task_features {name!r}, column {column!r}: the value of task {task!r} is missing")
        numbers = (int, float, np.number)
        is_number = values.dtype.kind in "iuf" or (
            values.dtype.kind == "O" and all(isinstance(v, numbers) and not isinstance(v, bool) for v in values)
        )
        read.append(values.astype(np.float64 if is_number else str))
    return tuple(map(str, names)), tuple(read)


def _read_kernel(name: str, labels: Any, matrix: Any) -> GivenTaskKernel:
    found, array = _labels(name, list(labels)), as_array(matrix, f"task_features {name!r}")
    P = len(found)
    if array.dtype.kind not in "biuf" or array.shape != (P, P):
        raise ValueError(f"task_features {name!r}: {P} tasks need a kernel of shape ({P}, {P}), got {array.shape}")
    kernel = array.astype(np.float64)
    if not np.isfinite(kernel).all() or np.abs(kernel - kernel.T).max() > 1e-8 * np.abs(kernel).max():
        raise ValueError(f"task_features {name!r} is not a finite symmetric matrix")
    values = eigvalsh(0.5 * (kernel + kernel.T))
    if values[-1] <= 0:
        raise ValueError(f"task_features {name!r} is zero: it links no tasks")
    if values[0] < -1e-6 * values[-1]:
        raise ValueError(
            f"task_features {name!r} is not positive semi-definite: its smallest eigenvalue is {values[0]:.3g}, the "
            f"largest {values[-1]:.3g}; use kernelkin.kernels.nearest_psd to make it positive semi-definite"
        )
    return GivenTaskKernel(found, kernel)
