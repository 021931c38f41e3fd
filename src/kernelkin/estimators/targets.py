"""From targets to machines: how classes are coded, and what each row costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real

import numpy as np

from ..couplings import Coupling, connected_tasks
from ..data import LARGEST, TaskData, listing
from ..learners import DualSolution, Machine


def class_machines(
    data: TaskData, C: float, class_weight: Mapping | str | None
) -> tuple[list[Machine], list[np.ndarray]]:
    """One machine for each task, and the classes of each task.

    A task of two classes has one output, positive for the second class. A task of more has one output for each class
    against the rest.
    """
    machines, task_classes = [], []
    for rows, y in zip(data.rows, data.y, strict=True):
        classes, codes = np.unique(y, return_inverse=True)
        positive = codes[:, np.newaxis] == (np.arange(len(classes)) if len(classes) > 2 else [1])
        weight = data.sample_weight[rows]
        cost = C * weight * _class_weights(class_weight, classes, codes, weight)[codes]
        machines.append(_machine(np.where(positive, 1.0, -1.0), cost, fit_intercept=True))
        task_classes.append(classes)
    if isinstance(class_weight, Mapping):
        _check_labels(class_weight, {label for classes in task_classes for label in classes.tolist()})
    return machines, task_classes


def regression_machines(data: TaskData, C: float, fit_intercept: bool) -> list[Machine]:
    """One machine with one output for each task."""
    return [
        _machine(y[:, np.newaxis], C * data.sample_weight[rows], fit_intercept)
        for rows, y in zip(data.rows, data.y, strict=True)
    ]


def target_variance(data: TaskData) -> float:
    """The mean over all rows of the squared distance from the mean of the row's task; 1 where all of them are zero."""
    total = weight = 0.0
    for rows, y in zip(data.rows, data.y, strict=True):
        w = data.sample_weight[rows]
        total += float(w @ (y - np.average(y, weights=w)) ** 2)
        weight += float(w.sum())
    return total / weight if total > 0 else 1.0


def _machine(y: np.ndarray, cost: np.ndarray, fit_intercept: bool) -> Machine:
    # Dual variables are of this size, and the bound has their fourth power.
    largest = float(cost.max()) * max(float(np.abs(y).max()), 1.0)
    if largest > LARGEST:
        raise ValueError(
            f"C, sample_weight and y reach {largest:.3g} as a product; above {LARGEST:g} a fit overflows: rescale them"
        )
    return Machine(
        y=np.ascontiguousarray(y, dtype=np.float64),
        C=np.repeat(cost[:, np.newaxis], y.shape[1], axis=1),
        groups=np.zeros(len(y), dtype=np.intp),
        n_groups=int(fit_intercept),
    )


def _class_weights(
    class_weight: Mapping | str | None, classes: np.ndarray, codes: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """The weight of each class of one task; "balanced" gives every class of the task the same total."""
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str):
        totals = np.bincount(codes, weights=weight)
        return totals.sum() / (len(classes) * totals)
    weights = [class_weight.get(label, 1.0) for label in classes.tolist()]
    for label, value in zip(classes.tolist(), weights, strict=True):
        if not isinstance(value, Real) or not 0 < float(value) < np.inf:
            raise ValueError(f"class_weight must be positive, but that of class {label!r} is {value!r}")
    return np.array(weights, dtype=np.float64)


def _check_labels(class_weight: Mapping, classes: set) -> None:
    """Refuse weights of labels that no task has while other labels have no weight: they were likely misspelt."""
    unknown = [label for label in class_weight if label not in classes]
    if unknown and not classes <= set(class_weight):
        known = listing(sorted(classes))
        raise ValueError(f"class_weight has {listing(unknown)}, which no task has; the classes are {known}")


def link_machines(machines: Sequence[Machine], linked: Sequence[np.ndarray], tasks: np.ndarray) -> list[Machine]:
    """One machine for each set of linked tasks, over the rows of all of them, with an intercept for each task."""
    joined = []
    for members in linked:
        parts = [machines[t] for t in members]
        if len({part.y.shape[1] for part in parts}) > 1:
            raise ValueError(f"coupled tasks must have the same classes; {listing(tasks[members])} do not")
        sizes = [len(part.y) for part in parts]
        joined.append(
            Machine(
                y=np.vstack([part.y for part in parts]),
                C=np.vstack([part.C for part in parts]),
                groups=np.repeat(np.arange(len(parts)), sizes),
                n_groups=sum(part.n_groups for part in parts),
            )
        )
    return joined


def tasks_of_machines(
    duals: Sequence[DualSolution], data: TaskData, couplings: Sequence[Coupling]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The dual variables (n_t, m) and the intercepts (m,) of each task, from those of the machines."""
    a: list[np.ndarray] = [np.empty(0)] * data.n_tasks
    intercepts: list[np.ndarray] = [np.empty(0)] * data.n_tasks
    for members, dual in zip(connected_tasks(couplings, data.n_tasks), duals, strict=True):
        start = 0
        for g, task in enumerate(members):
            end = start + len(data.rows[task])
            a[task] = dual.a[start:end]
            intercepts[task] = dual.intercept[g] if len(dual.intercept) else np.zeros(dual.a.shape[1])
            start = end
    return a, intercepts


def stack_intercepts(intercepts: Sequence[np.ndarray]) -> np.ndarray | list[np.ndarray]:
    """Intercepts (m,) of each task -> (T,) where every task has one output, else a list."""
    return np.concatenate(intercepts) if max(map(len, intercepts)) == 1 else list(intercepts)
