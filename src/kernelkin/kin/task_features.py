"""Features of tasks and kernels between tasks: the parameter `task_features`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.arrays import as_array, as_table, listing, missing
from ..data.checks import check_labels
from ..decompositions import eigvalsh

# Widths of the Gaussian kernels on features, relative to the median distance of the training tasks.
FEATURE_WIDTHS = (0.5, 1.0)


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


def read_task_features(task_features: Any) -> TaskFeatures:
    """Return a DataFrame with the tasks as index, or a pair (tasks, kernel matrix), in a form that files can hold.

    A DataFrame whose columns equal its index is a kernel between tasks.
    """
    if isinstance(task_features, TaskFeatures):
        return task_features
    if isinstance(task_features, tuple) and len(task_features) == 2:
        return _read_kernel(*task_features)
    if not (hasattr(task_features, "iloc") and hasattr(task_features, "columns")):
        raise TypeError(
            "task_features must be a pandas DataFrame with the tasks as index, or a pair (tasks, kernel matrix); got "
            f"{type(task_features).__name__}"
        )
    index = task_features.index.tolist()
    if len(index) > 1 and len(index) == task_features.shape[1] and set(index) == set(task_features.columns):
        return _read_kernel(index, task_features[index].to_numpy())
    return _read_table(task_features)


def read_task_kernels(task_features: Any, tasks: np.ndarray) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Return kernels (T + E, T) between all tasks (new ones last) and training tasks, and the new labels (E,)."""
    if task_features is None:
        return (), np.empty(0, dtype=tasks.dtype)
    given = read_task_features(task_features)
    index = {label: i for i, label in enumerate(given.labels.tolist())}
    if without := [task for task in tasks.tolist() if task not in index]:
        raise ValueError(f"task_features has no row for task {listing(without)}")
    new = given.labels[~np.isin(given.labels, tasks)]
    at = np.array([index[task] for task in [*tasks.tolist(), *new.tolist()]], dtype=np.intp)
    return tuple(values[at] for values in given.kernels(at[: len(tasks)])), new


def join_task_features(first: Any, more: Any) -> TaskTable:
    """Return a table of task features extended by more tasks; a kernel between tasks cannot be extended."""
    table, other = read_task_features(first), read_task_features(more)
    if not isinstance(table, TaskTable) or not isinstance(other, TaskTable):
        raise ValueError(
            "task_features is a kernel between tasks: pass the kernel of all tasks, including new ones, to the "
            "estimator before the fit"
        )
    if table.names != other.names:
        names = f"{listing(other.names)} here, and {listing(table.names)} in training"
        raise ValueError(f"task_features has the columns {names}")
    fresh = ~np.isin(other.labels, table.labels)
    pairs = zip(table.columns, other.columns, strict=True)
    columns = tuple(np.concatenate([old, added[fresh]]) for old, added in pairs)
    return TaskTable(np.concatenate([table.labels, other.labels[fresh]]), table.names, columns)


def _encode(values: np.ndarray, training: np.ndarray) -> np.ndarray:
    """Encode values (P,) as (P, 1) or (P, categories); categories not in training become zeros."""
    if values.dtype.kind == "f":
        spread = float(training.std())
        scale = spread if spread > 1e-12 * np.abs(training).max() else 1.0
        return ((values - training.mean()) / scale)[:, np.newaxis]
    return (values[:, np.newaxis] == np.array(list(dict.fromkeys(training.tolist())))).astype(np.float64)


def _read_table(frame: Any) -> TaskTable:
    """Return the columns of a DataFrame as numbers if possible, else as text."""
    table = as_table(frame.infer_objects(), "task_features")
    assert table is not None
    if not table.columns:
        raise ValueError("task_features has no columns")
    labels, columns = _labels(frame.index.tolist()), []
    for name, values in zip(table.names, table.columns, strict=True):
        is_number = values.dtype.kind in "iuf"
        values = values.astype(np.float64) if is_number else values
        faults = ~np.isfinite(values) if is_number else missing(values)
        if faults.any():
            task = labels.tolist()[int(np.argmax(faults))]
            raise ValueError(f"task_features, column {name!r}: the value of task {task!r} is missing")
        columns.append(values if is_number else values.astype(str))
    return TaskTable(labels, tuple(map(str, table.names)), tuple(columns))


def _read_kernel(labels: Any, matrix: Any) -> GivenTaskKernel:
    found, array = _labels(list(labels)), as_array(matrix, "task_features")
    P = len(found)
    if array.dtype.kind not in "biuf" or array.shape != (P, P):
        raise ValueError(f"task_features: {P} tasks need a kernel of shape ({P}, {P}), got {array.shape}")
    kernel = array.astype(np.float64)
    if not np.isfinite(kernel).all() or np.abs(kernel - kernel.T).max() > 1e-8 * np.abs(kernel).max():
        raise ValueError("task_features is not a finite symmetric matrix")
    values = eigvalsh(0.5 * (kernel + kernel.T))
    if values[-1] <= 0:
        raise ValueError("task_features is zero: it links no tasks")
    if values[0] < -1e-6 * values[-1]:
        raise ValueError(
            f"task_features is not positive semi-definite: its smallest eigenvalue is {values[0]:.3g}, the largest "
            f"{values[-1]:.3g}; use kernelkin.kernels.nearest_psd to make it positive semi-definite"
        )
    return GivenTaskKernel(found, kernel)


def _labels(labels: list) -> np.ndarray:
    found = check_labels(labels)
    if len(set(found.tolist())) < len(found):
        twice = next(label for label in found.tolist() if found.tolist().count(label) > 1)
        raise ValueError(f"task_features contains task {twice!r} more than once")
    return found
