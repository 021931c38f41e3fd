"""Held-out values of kernel machines at the kernel weights that all rows have taught.

Only the machines are solved without the rows, not the problem of the weights: that costs about as much as one fit where
fits take a while, and a few times as much where they are quick.

Ridge machines have a closed form for leaving out single rows. With P the matrix that maps targets to dual variables,
`a = P y`, the residual of row i without it is `a_i / P_ii`, and its predictive variance is `1 / P_ii` times that of the
process. Other machines, and ridge machines that are solved together, are solved anew in five folds inside every task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data import Fold
from ..memory import check_memory
from ..paper.couplings import connected_tasks
from ..paper.grams import Grams, KernelBank
from ..paper.learners import DualSolution, Learner, Machine, Ridge
from ..paper.learners.ridge import Bordered, Groups
from ..paper.problems import MachinePanel, panel_values, solve_machines
from .held_out import HeldOut, LeftOutTasks, calibration_folds
from .left_out import leave_out_tasks
from .variance import ProcessVariance

if TYPE_CHECKING:
    from ..paper.fitting import FitPlan

# Machines of more rows have deviations that do not depend on the row: their variance takes too long.
MAX_ROWS = 3000


@dataclass(frozen=True)
class MachinesHeldOut:
    """The machines of a plan at kernel weights B (K, J), in the user's units."""

    plan: FitPlan
    B: np.ndarray
    classification: bool

    def held_out(self) -> HeldOut:
        plan = self.plan
        check_memory(plan.memory())
        grams, bank = plan.scale(plan.raw_grams(), overwrite=True)
        B, members = plan.units.weights(self.B), connected_tasks(plan.couplings, plan.data.n_tasks)
        is_ridge = isinstance(plan.learner, Ridge)
        folds = calibration_folds(plan.data, classification=self.classification)
        if isinstance(plan.machines, MachinePanel):
            return replace(self._panel_held_out(grams, B, folds), new_tasks=leave_out_tasks(plan, grams, B, None))
        values: list[np.ndarray] = [np.empty(0)] * plan.data.n_tasks
        deviations, centers = [np.ones(len(y)) for y in plan.data.y], list(values)
        final: list[np.ndarray] = list(values)
        for batch in grams.batches():
            for m, gram in zip(batch, grams.combine(B, batch), strict=True):
                machine = plan.machines[m]
                deviation = np.ones(machine.y.shape)
                if is_ridge:
                    found, deviation = leave_one_out(gram, machine)
                    center = _centers_without_rows(machine)
                    last = _group_means(machine.y, machine, machine.C)
                else:
                    found, center, last = _without_folds(gram, machine, plan.learner, plan.fit.tol, members[m], folds)
                found, center, last = (self._in_user_units(part, m) for part in (found, center, last))
                for t, part, scale in _by_task(members[m], plan.data.rows, found, deviation[:, 0]):
                    values[t], deviations[t] = part, scale
                for t, part, mean in _by_task(members[m], plan.data.rows, center, last):
                    centers[t], final[t] = part, mean[0]
        process = None
        if is_ridge and not self.classification and self._has_variance(bank, members):
            process = self._variance(bank, B)
        new_tasks = leave_out_tasks(plan, grams, B, process)
        if self.classification:
            known = HeldOut.constant(values)
            return replace(known, centers=centers, final_centers=final, new_tasks=new_tasks)
        if process is None:
            return replace(HeldOut.constant(values), new_tasks=new_tasks)
        return HeldOut(values, deviations, process, new_tasks=new_tasks)

    def left_out(self) -> dict[str, LeftOutTasks]:
        """Return values of tasks that are left out whole, as new tasks are predicted; their deviations are constant."""
        check_memory(self.plan.memory())
        grams, _ = self.plan.scale(self.plan.raw_grams(), overwrite=True)
        return leave_out_tasks(self.plan, grams, self.plan.units.weights(self.B), None)

    def _panel_held_out(self, grams: Grams, B: np.ndarray, folds: Sequence[Fold]) -> HeldOut:
        """The same for machines that are solved together, in every fold too; their deviations are constant."""
        plan, data, panel = self.plan, self.plan.data, self.plan.machines
        assert isinstance(panel, MachinePanel)
        found, center = np.full(panel.y.shape, np.nan), np.zeros(panel.y.shape)
        duals: Any = None
        for fold in folds:
            held = np.zeros(panel.y.shape, dtype=bool)
            for t, part in enumerate(fold.held):
                columns, _ = panel.place(t)
                held[data.rows[t][part], columns] = True
            kept = panel.without(held)
            duals = solve_machines(grams, kept, plan.learner, B, warm=duals, tol=0.1 * plan.fit.tol).duals
            found[held] = panel_values(grams, B, duals)[held]
            center[held] = np.broadcast_to(kept.means(), panel.y.shape)[held]
        values = self._tasks_of_panel(found)
        if not self.classification:
            return HeldOut.constant(values)
        final = [part[0] for part in self._tasks_of_panel(np.broadcast_to(panel.means(), panel.y.shape))]
        return replace(HeldOut.constant(values), centers=self._tasks_of_panel(center), final_centers=final)

    def _tasks_of_panel(self, values: np.ndarray) -> list[np.ndarray]:
        """Return values (n, O) of a panel in the user's units, (n_t, m_t) for each task."""
        panel, units = self.plan.machines, self.plan.units
        assert isinstance(panel, MachinePanel)
        return [
            np.ldexp(panel.task(values, task), units.target) + (offsets[0] if len(offsets) else 0.0)
            for task, offsets in enumerate(units.offsets)
        ]

    def _in_user_units(self, values: np.ndarray, m: int) -> np.ndarray:
        machine, units = self.plan.machines[m], self.plan.units
        values = np.ldexp(values, units.target)
        return values + units.offsets[m][machine.groups] if machine.n_groups else values

    def _has_variance(self, bank: KernelBank, members: Sequence[np.ndarray]) -> bool:
        largest = max(sum(len(self.plan.data.rows[t]) for t in tasks) for tasks in members)
        return bank.kernels is not None and largest <= MAX_ROWS

    def _variance(self, bank: KernelBank, B: np.ndarray) -> ProcessVariance:
        plan, data = self.plan, self.plan.data
        assert bank.kernels is not None
        cost = np.concatenate([machine.C[:, 0] for machine in plan.machines])
        rows = np.concatenate([np.concatenate([data.rows[t] for t in m]) for m in self._members()])
        return ProcessVariance(
            X=data.X,
            rows=data.rows,
            is_wide=data.form == "wide",
            kernels=bank.kernels,
            scalings=bank.scalings,
            link_scaling=bank.link_scaling,
            B=B,
            couplings=plan.couplings,
            costs=self._costs(),
            # Costs are C times the weights of the rows.
            noise=float(np.median(data.sample_weight[rows] / cost)),
            has_intercept=plan.machines[0].n_groups > 0,
        )

    def _members(self) -> list[np.ndarray]:
        return connected_tasks(self.plan.couplings, self.plan.data.n_tasks)

    def _costs(self) -> tuple[np.ndarray, ...]:
        """Return the costs of the rows of each task."""
        costs: list[np.ndarray] = [np.empty(0)] * self.plan.data.n_tasks
        for members, machine in zip(self._members(), self.plan.machines, strict=True):
            for t, part, _ in _by_task(members, self.plan.data.rows, machine.C[:, 0], machine.C[:, 0]):
                costs[t] = part
        return tuple(costs)


def leave_one_out(gram: Any, machine: Machine) -> tuple[np.ndarray, np.ndarray]:
    """Return the values (n, m) of a ridge machine at each row without it, and their deviations, up to a factor."""
    values, deviations = np.empty(machine.y.shape), np.empty(machine.y.shape)
    groups = Groups(machine.groups, machine.n_groups)
    systems: dict[bytes, tuple[Bordered, np.ndarray]] = {}
    for o, cost in enumerate(machine.C.T):
        key = cost.tobytes()
        if key not in systems:
            system = Bordered(gram, cost, groups)
            systems[key] = system, system.diagonal()
        system, diagonal = systems[key]
        # A row that alone determines its intercept has no value without it.
        safe = np.where(diagonal > 1e-10 * cost, diagonal, np.nan)
        values[:, o] = machine.y[:, o] - system.solve(machine.y[:, o : o + 1])[:, 0] / safe
        deviations[:, o] = np.sqrt(1.0 / safe)
    return values, deviations


def _group_means(values: np.ndarray, machine: Machine, weight: np.ndarray) -> np.ndarray:
    """Return the weighted means of values (n, m) over the rows with the intercept of each row, (n, m)."""
    sums, totals = (_group_sums(part, machine) for part in (weight * values, weight))
    return np.divide(sums, totals, out=np.zeros(sums.shape), where=totals > 0)


def _group_sums(values: np.ndarray, machine: Machine) -> np.ndarray:
    groups = machine.groups if machine.n_groups else np.zeros(len(values), dtype=np.intp)
    sums = np.zeros((groups.max() + 1, values.shape[1]))
    np.add.at(sums, groups, values)
    return sums[groups]


def _centers_without_rows(machine: Machine) -> np.ndarray:
    """Return the mean values (n, m) of ridge machines without each row, which are those of the targets, by their costs.

    (The sums of dual variables are zero, and these are the residuals times the costs.)
    """
    weighted = machine.C * machine.y
    left = _group_sums(machine.C, machine) - machine.C
    sums = _group_sums(weighted, machine) - weighted
    return np.divide(sums, left, out=np.zeros(left.shape), where=left > 0)


def _positions(members: np.ndarray, folds: Sequence[Fold]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return for each fold the rows that a machine keeps and those that are held out, among the rows of its tasks."""
    starts = np.cumsum([0, *(len(folds[0].kept[t]) + len(folds[0].held[t]) for t in members)])
    return [
        (
            np.concatenate([start + fold.kept[t] for start, t in zip(starts, members, strict=False)]),
            np.concatenate([start + fold.held[t] for start, t in zip(starts, members, strict=False)]),
        )
        for fold in folds
    ]


def _without_folds(
    gram: Any, machine: Machine, learner: Learner, tol: float, members: np.ndarray, folds: Sequence[Fold]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the values (n, m) of a machine at the rows of each fold, without these; and means over training rows.

    The means are those of the machines that the values are of, and those of the machine with all rows.
    """
    gram = np.asarray(gram)
    values, centers = np.full(machine.y.shape, np.nan), np.zeros(machine.y.shape)
    for kept, held in _positions(members, folds):
        if not len(held):
            continue
        part = replace(machine, y=machine.y[kept], C=machine.C[kept], groups=machine.groups[kept])
        dual = learner.solve(np.ascontiguousarray(gram[np.ix_(kept, kept)]), part, tol=tol)
        found = _values(gram[:, kept], dual, machine)
        values[held] = found[held]
        used = np.zeros(machine.y.shape)
        used[kept] = 1.0
        centers[held] = _group_means(found, machine, used)[held]
    whole = _values(gram, learner.solve(gram, machine, tol=tol), machine)
    return values, centers, _group_means(whole, machine, np.ones(whole.shape))


def _values(gram: np.ndarray, dual: DualSolution, machine: Machine) -> np.ndarray:
    """Return the values (n, m) of a solution at all rows, gram (n, kept)."""
    values = gram @ dual.a
    return values + dual.intercept[machine.groups] if machine.n_groups else values


def _by_task(
    members: np.ndarray, rows: Sequence[np.ndarray], values: np.ndarray, others: np.ndarray
) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """Split arrays over the rows of a machine by its tasks."""
    ends = np.cumsum([len(rows[t]) for t in members])[:-1]
    return list(zip(members.tolist(), np.split(values, ends), np.split(others, ends), strict=True))
