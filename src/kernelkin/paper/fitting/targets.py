"""Convert targets to machines: the coding of classes, the loss, and the cost of each row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from ...data.arrays import listing
from ...data.forms import TaskData
from ..couplings import Coupling, connected_tasks
from ..learners.machines import SVM, SVR, DualSolution, Learner, Machine, Ridge
from ..problems.panel import MachinePanel, PanelDuals

# Sets of positions of tasks that share parts of their functions.
Linked = Sequence[np.ndarray]


@dataclass(frozen=True)
class Classification:
    """Classification. A task with two classes has one output, positive for the second; otherwise one per class.

    Parameters
    ----------
    loss : {"hinge", "squared"}
    class_weight : dict, "balanced" or None
        "balanced" gives every class of a task the same total weight.
    """

    loss: str = "hinge"
    class_weight: Mapping | str | None = None

    def learner(self) -> Learner:
        return SVM() if self.loss == "hinge" else Ridge()

    def machines(self, data: TaskData, C: float, linked: Linked = ()) -> list[Machine]:
        machines, known = [], set()
        for rows, y, classes in zip(data.rows, data.y, task_classes(data, linked), strict=True):
            codes = np.searchsorted(classes, y)
            known.update(classes.tolist())
            positive = codes[:, np.newaxis] == (np.arange(len(classes)) if len(classes) > 2 else [1])
            weight = data.sample_weight[rows]
            cost = C * weight
            if self.class_weight is not None:
                cost = cost * weights_of_classes(self.class_weight, classes, codes, weight)[codes]
            y, costs = np.where(positive, 1.0, -1.0), np.repeat(cost[:, np.newaxis], positive.shape[1], axis=1)
            machines.append(Machine(y, costs, np.zeros(len(y), dtype=np.intp), n_groups=1))
        if self.class_weight is not None:
            check_class_weight(self.class_weight, known)
        return machines

    def panel(self, data: TaskData, C: float) -> MachinePanel:
        return MachinePanel.of(self.machines(data, C), data.rows, len(data.X))


@dataclass(frozen=True)
class Regression:
    """Regression.

    Parameters
    ----------
    loss : {"squared", "epsilon_insensitive"}
    epsilon : float
        Half the width of the interval without loss, for the epsilon-insensitive loss.
    fit_intercept : bool
    """

    loss: str = "squared"
    epsilon: float = 0.1
    fit_intercept: bool = True

    def learner(self) -> Learner:
        return Ridge() if self.loss == "squared" else SVR(self.epsilon)

    def machines(self, data: TaskData, C: float, linked: Linked = ()) -> list[Machine]:
        machines = []
        for rows, y in zip(data.rows, data.y, strict=True):
            values, cost = np.ascontiguousarray(y[:, np.newaxis], dtype=np.float64), C * data.sample_weight[rows]
            groups = np.zeros(len(y), dtype=np.intp)
            machines.append(Machine(values, cost[:, np.newaxis], groups, int(self.fit_intercept)))
        return machines

    def panel(self, data: TaskData, C: float) -> MachinePanel:
        n, weight = len(data.X), data.sample_weight
        rows = [None if len(kept) == n else kept for kept in data.rows]
        if any(kept is not None for kept in rows) or (weight != weight[0]).any():
            return MachinePanel.of(self.machines(data, C), data.rows, n)
        cost, starts = np.full((1, len(rows)), C * weight[0]), np.arange(len(rows) + 1)
        return MachinePanel(np.column_stack(data.y), cost, starts, rows, self.fit_intercept)

    def spread(self, data: TaskData) -> float:
        """Return the variance of the targets within tasks; 1 if it is zero, or only the rounding of means."""
        if data.form == "wide" and all(len(rows) == len(data.X) for rows in data.rows):
            w, Y = data.sample_weight, np.column_stack(data.y)
            total, weight = float((w @ np.square(Y - w @ Y / w.sum())).sum()), float(w.sum()) * Y.shape[1]
        else:
            total = weight = 0.0
            for rows, y in zip(data.rows, data.y, strict=True):
                w = data.sample_weight[rows]
                total += float(w @ (y - np.average(y, weights=w)) ** 2)
                weight += float(w.sum())
        return total / weight if total > 0 and any((y != y[0]).any() for y in data.y) else 1.0


Targets = Classification | Regression


def check_class_weight(class_weight: Mapping | str, known: set[Any]) -> None:
    """Raise if weights are given for classes that do not exist."""
    unknown = [label for label in class_weight if label not in known] if isinstance(class_weight, Mapping) else []
    # If other labels have no weight, labels that no task has were likely misspelt.
    if unknown and not known <= set(class_weight):
        every = listing(sorted(known))
        raise ValueError(f"class_weight has unknown classes {listing(unknown)}; the classes are {every}")


def weights_of_classes(
    class_weight: Mapping | str, classes: np.ndarray, codes: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Return the weight of each class of one task."""
    if isinstance(class_weight, str):
        totals = np.bincount(codes, weights=weight, minlength=len(classes))
        present = totals > 0
        return np.divide(totals.sum() / present.sum(), totals, out=np.ones(len(classes)), where=present)
    weights = [class_weight.get(label, 1.0) for label in classes.tolist()]
    for label, value in zip(classes.tolist(), weights, strict=True):
        if not isinstance(value, Real) or not 0 < float(value) < np.inf:
            raise ValueError(f"class_weight must be positive, but class {label!r} has {value!r}")
    return np.array(weights, dtype=np.float64)


def link_machines(
    machines: Sequence[Machine], couplings: Sequence[Coupling], tasks: np.ndarray, classes: bool = True
) -> list[Machine]:
    """Return one machine for each set of linked tasks, over the rows of all of them.

    Every task has an intercept, except that a classification task with a single class uses the intercept of the most
    similar task, by the couplings.
    """
    joined, widths = [], np.array([machine.y.shape[1] for machine in machines])
    if (widths != widths[0]).any():
        different = [tasks[0].item(), tasks[np.argmax(widths != widths[0])].item()]
        raise ValueError(f"with couplings, all tasks must have the same number of classes; {listing(different)} do not")
    for members in connected_tasks(couplings, len(machines)):
        parts = [machines[t] for t in members]
        owners = np.arange(len(parts))
        if classes:
            owners = _intercept_owners(parts, [coupling.factor[members] for coupling in couplings])
        kept, groups = np.unique(owners, return_inverse=True)
        y, C = np.vstack([part.y for part in parts]), np.vstack([part.C for part in parts])
        n_groups = len(kept) if any(part.n_groups for part in parts) else 0
        joined.append(Machine(y, C, np.repeat(groups, [len(part.y) for part in parts]), n_groups))
    return joined


def _intercept_owners(parts: Sequence[Machine], factors: Sequence[np.ndarray]) -> np.ndarray:
    """Return for each linked task the task whose intercept it uses: itself, or another if it has one class."""
    owners = np.arange(len(parts))
    alone = np.array([len(y) > 0 and (np.abs(y) == 1).all() and (y == y[0]).all() for y in (part.y for part in parts)])
    if not alone.any() or alone.all():
        return owners
    similarity = sum(factor @ factor.T for factor in factors)
    sizes = np.array([len(part.y) for part in parts])
    others = np.flatnonzero(~alone)
    for t in np.flatnonzero(alone):
        # Among equally similar tasks, the one with the most rows.
        owners[t] = others[np.lexsort((sizes[others], np.round(similarity[t, others], 9)))[-1]]
    return owners


def split_by_task(
    duals: Sequence[DualSolution], machines: Any, data: TaskData, couplings: Sequence[Coupling]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the dual variables (n_t, m) and the intercepts (m,) of each task, from those of the machines."""
    if isinstance(duals, PanelDuals):
        return duals.by_task()
    a: list[np.ndarray] = [np.empty(0)] * data.n_tasks
    intercepts: list[np.ndarray] = [np.empty(0)] * data.n_tasks
    groups = [machine.groups for machine in machines]
    linked = connected_tasks(couplings, data.n_tasks) if couplings else np.arange(data.n_tasks)[:, np.newaxis]
    for m, (members, dual) in enumerate(zip(linked, duals, strict=True)):
        start = 0
        for task in members:
            end = start + len(data.rows[task])
            a[task] = dual.a[start:end]
            intercepts[task] = dual.intercept[groups[m][start]] if len(dual.intercept) else np.zeros(dual.a.shape[1])
            start = end
    return a, intercepts


def task_classes(data: TaskData, linked: Linked = ()) -> list[np.ndarray]:
    """Return the classes of each task.

    Linked tasks have the same classes, those of the task with the most classes. Other tasks with one class get the most
    common set of classes that contains it.
    """
    own = [np.unique(y) for y in data.y]
    found = list(own)
    for members in linked:
        most = max((own[t] for t in members), key=len)
        for t in members if len(most) > 1 else ():
            if not np.isin(own[t], most).all():
                names = f"{data.labels[t].item()!r} has {listing(own[t])}, another task {listing(most)}"
                raise ValueError(f"coupled tasks must have the same classes; {names}")
            found[t] = most
    alone = [t for t, classes in enumerate(found) if len(classes) == 1]
    counts = Counter(tuple(each.tolist()) for each in own if len(each) > 1) if alone else Counter()
    for t in alone:
        wider = [each for each in counts if found[t].item() in each]
        if wider:
            found[t] = np.array(max(wider, key=counts.__getitem__))
    return found


def classes_of_outputs(y: np.ndarray, every: Sequence[np.ndarray], n_outputs: int) -> np.ndarray:
    """Return the classes of a task with this many outputs: those of y, or a larger set of another task.

    `every` are the classes of all tasks.
    """
    own, n_classes = np.unique(y), max(n_outputs, 2)
    if len(own) == n_classes:
        return own
    wider = [tuple(each.tolist()) for each in every if len(each) == n_classes and np.isin(own, each).all()]
    return np.array(max(wider, key=wider.count)) if wider else own
