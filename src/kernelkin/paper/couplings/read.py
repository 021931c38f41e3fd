"""What a user passes as `couplings` and `task_features`, as couplings of the tasks of training data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...data import TaskData, as_array, listing
from .coupling import Coupling, block_factor, group_factor, matrix_factor
from .targets import target_similarity
from .task_features import read_task_features
from .task_kernels import TaskKernel, TaskTable

COMMON, TARGETS = "common", "targets"


def read_couplings(
    couplings: Any, data: TaskData, sharing: float = 1.0, task_features: Any = None
) -> tuple[Coupling, ...]:
    """What a user passes -> couplings of the tasks of these data, charged as `sharing` says.

    None: none. "common": one function for all tasks. "targets": tasks share as far as their targets are alike on rows
    that both have. A dict: names to "common" or "targets", to group labels (one for each task, in the order of
    `data.labels`, or a dict from task to label; tasks with the same label share a function) or to T x T matrices.
    Features of tasks add a coupling for each kernel between tasks.
    """
    features = [coupling.charged(sharing) for coupling in _of_features(task_features, data)]
    found = (*_read(couplings, data, sharing), *features)
    names = [coupling.name for coupling in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"couplings and task_features have the same name: {listing(twice)}")
    return found


def new_kernels(
    couplings: Sequence[Coupling], tables: Mapping[str, TaskTable] | None, known: np.ndarray
) -> tuple[np.ndarray, list[TaskKernel | None]]:
    """Return tasks with features that are not among `known`, and their kernel values for each coupling by features.

    `tables` None stands for the features that the couplings were made from. A new task needs all features.
    """
    kernels = [coupling.kernel for coupling in couplings]
    if tables is not None:
        _check_names(tables, {kernel.source for kernel in kernels if kernel is not None})
        kernels = [None if kernel is None else kernel.at(tables[kernel.source]) for kernel in kernels]
    given = [kernel.labels.tolist() for kernel in kernels if kernel is not None]
    in_all = set(given[0]).intersection(*given[1:]) - set(known.tolist()) if given else set()
    if not in_all:
        return known[:0], []
    labels = np.array([label for label in given[0] if label in in_all])
    return labels, [None if kernel is None else kernel.take(labels) for kernel in kernels]


def _check_names(tables: Mapping[str, TaskTable], needed: set[str]) -> None:
    if set(tables) != needed:
        had = listing(sorted(needed)) if needed else "none"
        raise ValueError(f"task_features must have what the fit had ({had}), and it has {listing(sorted(tables))}")


def _read(couplings: Any, data: TaskData, sharing: float) -> list[Coupling]:
    if couplings is None:
        return []
    if isinstance(couplings, str) and couplings in _NAMED:
        couplings = {couplings: couplings}
    if not isinstance(couplings, Mapping):
        got = repr(couplings) if isinstance(couplings, str) else type(couplings).__name__
        raise ValueError(f"couplings must be None, 'common', 'targets' or a dict, got {got}")
    return [Coupling(str(name), _factor(name, value, data)).charged(sharing) for name, value in couplings.items()]


def _of_features(task_features: Any, data: TaskData) -> list[Coupling]:
    return [
        Coupling(kernel.name, block_factor(kernel.matrix(data.labels)), kernel)
        for name, given in read_task_features(task_features, data.labels).items()
        for kernel in given.kernels(name, data.labels)
    ]


def _common_factor(data: TaskData) -> np.ndarray:
    return np.ones((data.n_tasks, 1))


def _target_factor(data: TaskData) -> np.ndarray:
    return matrix_factor(TARGETS, target_similarity(data), data.labels)


_NAMED: dict[str, Callable[[TaskData], np.ndarray]] = {
    COMMON: _common_factor,
    TARGETS: _target_factor,
}


def _factor(name: Any, value: Any, data: TaskData) -> np.ndarray:
    tasks = data.labels
    if isinstance(value, str) and value in _NAMED:
        return _NAMED[value](data)
    if isinstance(value, Mapping):
        unnamed = [task for task in tasks.tolist() if task not in value]
        if unnamed:
            raise ValueError(f"coupling {name!r} has no label for task {listing(unnamed)}")
        value = [value[task] for task in tasks.tolist()]
    array = as_array(value, f"coupling {name!r}")
    if array.ndim == 1:
        return group_factor(name, array, tasks)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"coupling {name!r} is neither one label for each task nor a matrix of real numbers")
    return matrix_factor(name, array.astype(np.float64), tasks)
