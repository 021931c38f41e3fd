"""Values at the rows of tasks that are left out whole, as tasks that were not in training are predicted.

All is at the kernel weights and couplings that all tasks have taught: the machines are solved without the rows of some
tasks, which then have the parts that they share with the others, and an intercept that follows from the others'. So
what is learned from these values about new tasks takes nothing from their own rows but those few weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data import TaskData
from ..paper.couplings import Coupling, connected_tasks
from ..paper.functions import InputIndex
from ..paper.grams import Grams
from ..paper.grams.blocks import BlockLowRank
from ..paper.learners import Machine
from ..paper.learners.ridge import indicators
from ..paper.problems import MachinePanel, panel_values, solve_machines
from ..paper.task_features import level_weights
from .held_out import SEED, HeldOut, HeldOutSource, LeftOutTasks
from .variance import Posterior, ProcessVariance

if TYPE_CHECKING:
    from ..paper.fitting import FitPlan

# Up to so many tasks are left out one at a time; more of them in five groups.
MAX_SINGLE, N_GROUPS = 10, 5


@dataclass(frozen=True)
class NewTaskRule:
    """How a task that was not in training is predicted.

    Attributes
    ----------
    name : "common", by what all tasks share; "features", also by what similar tasks share.
    used : (couplings,) those in which it has a share.
    similarity : (T, T) between tasks, by which its level is predicted; None where that is the mean.
    """

    name: str
    used: np.ndarray
    similarity: np.ndarray | None

    def levels(self, kept: np.ndarray, held: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """Return the weights (held, kept) of the levels (kept, m) of some tasks in those of others."""
        if self.similarity is None:
            return np.full((len(held), len(kept)), 1.0 / len(kept))
        return level_weights(self.similarity[np.ix_(kept, kept)], self.similarity[np.ix_(held, kept)], levels)


def new_task_rules(couplings: Sequence[Coupling], tasks: np.ndarray) -> list[NewTaskRule]:
    """Return the ways in which couplings predict new tasks; none where tasks share nothing with all others."""
    common = np.array([coupling.is_common for coupling in couplings], dtype=bool)
    kernels = [coupling.kernel for coupling in couplings]
    by_features = np.array([kernel is not None for kernel in kernels], dtype=bool)
    rules = [NewTaskRule("common", common, None)] if common.any() else []
    if by_features.any():
        matrices = [kernel.take(tasks).values for kernel in kernels if kernel is not None]
        rules.append(NewTaskRule("features", common | by_features, np.mean(matrices, axis=0)))
    return rules


def task_groups(n_tasks: int) -> list[np.ndarray]:
    """Return the tasks that are left out together, always the same ones."""
    order = np.random.default_rng(SEED).permutation(n_tasks)
    return [np.sort(part) for part in np.array_split(order, n_tasks if n_tasks <= MAX_SINGLE else N_GROUPS)]


def leave_out_tasks(
    plan: FitPlan, grams: Grams, B: np.ndarray, process: ProcessVariance | None
) -> dict[str, LeftOutTasks]:
    """Leave out the tasks of a plan at weights B (K, J), in its units -> values in the user's, by the rule's name."""
    T, outputs = plan.data.n_tasks, _n_outputs(plan)
    rules = new_task_rules(plan.couplings, plan.data.labels)
    if not rules or T < 2 or outputs is None:
        return {}
    panel = isinstance(plan.machines, MachinePanel)
    fits = [(_panel_without if panel else _machines_without)(plan, grams, B, held) for held in task_groups(T)]
    found = {}
    for rule in rules:
        shared = B.copy()
        shared[:, T:][:, ~rule.used] = 0.0
        parts = _panel_values(plan, grams, shared, fits) if panel else _machine_values(plan, grams, shared, fits)
        values = [np.ldexp(part, plan.units.target) for part in parts]
        for fit in fits:
            weights = rule.levels(fit.kept, fit.held, fit.levels[fit.kept])
            for t, level in zip(fit.held.tolist(), weights @ fit.levels[fit.kept], strict=True):
                values[t] = values[t] + level
        deviations = [np.ones(len(y)) for y in plan.data.y]
        if process is not None:
            deviations = _deviations(plan, grams, B, shared, rule, fits, process)
        found[rule.name] = LeftOutTasks(values, deviations)
    return found


@dataclass(frozen=True)
class _Fit:
    """The machines without some tasks.

    Attributes
    ----------
    held, kept : the tasks that were left out, and the others.
    duals : dual variables (n_m, m) of each machine, zero for rows that were left out; or the solution of a panel.
    levels : (T, m) intercepts in the user's units; zero for tasks that were left out.
    """

    held: np.ndarray
    kept: np.ndarray
    duals: Any
    levels: np.ndarray


def _n_outputs(plan: FitPlan) -> int | None:
    """Return the number of outputs, where it is the same for all tasks."""
    if isinstance(plan.machines, MachinePanel):
        widths = set(np.diff(plan.machines.starts).tolist())
    else:
        widths = {machine.y.shape[1] for machine in plan.machines}
    return widths.pop() if len(widths) == 1 else None


def _machines_without(plan: FitPlan, grams: Grams, B: np.ndarray, held: np.ndarray) -> _Fit:
    """Solve the machines without the rows of some tasks."""
    T = plan.data.n_tasks
    kept = np.setdiff1d(np.arange(T), held)
    duals, levels = [], np.zeros((T, plan.machines[0].y.shape[1]))
    members_of = connected_tasks(plan.couplings, T)
    for m, gram in enumerate(grams.combine(B, range(grams.n_machines))):
        machine, members = plan.machines[m], members_of[m]
        tasks = np.repeat(members, [len(plan.data.rows[t]) for t in members])
        rows = np.flatnonzero(~np.isin(tasks, held))
        a = np.zeros(machine.y.shape)
        if len(rows):
            used, groups = np.unique(machine.groups[rows], return_inverse=True)
            part = replace(machine, y=machine.y[rows], C=machine.C[rows], groups=groups)
            part = replace(part, n_groups=len(used) if machine.n_groups else 0)
            dual = plan.learner.solve(_sub_gram(gram, ~np.isin(members, held), rows), part, tol=plan.fit.tol)
            a[rows] = dual.a
            if machine.n_groups:
                first = np.unique(tasks[rows], return_index=True)
                at = used[groups[first[1]]]
                levels[first[0]] = np.ldexp(dual.intercept[groups[first[1]]], plan.units.target)
                levels[first[0]] += plan.units.offsets[m][at]
        duals.append(a)
    return _Fit(held, kept, duals, levels)


def _sub_gram(gram: Any, tasks: np.ndarray, rows: np.ndarray) -> Any:
    """Return the Gram matrix of some of a machine's tasks (a mask), which have these of its rows."""
    if isinstance(gram, BlockLowRank):
        return gram.select(np.flatnonzero(tasks).tolist())
    return np.ascontiguousarray(np.asarray(gram)[np.ix_(rows, rows)])


def _machine_values(plan: FitPlan, grams: Grams, B: np.ndarray, fits: Sequence[_Fit]) -> list[np.ndarray]:
    """Return what other tasks give to each task (n_t, m), in the units of the plan."""
    values: list[np.ndarray] = [np.empty(0)] * plan.data.n_tasks
    members_of = connected_tasks(plan.couplings, plan.data.n_tasks)
    for m, gram in enumerate(grams.combine(B, range(grams.n_machines))):
        ends = np.cumsum([len(plan.data.rows[t]) for t in members_of[m]])
        for fit in fits:
            parts = np.split(gram @ fit.duals[m], ends[:-1])
            for t, part in zip(members_of[m].tolist(), parts, strict=True):
                if t in fit.held:
                    values[t] = part
    return values


def _panel_without(plan: FitPlan, grams: Grams, B: np.ndarray, held: np.ndarray) -> _Fit:
    panel, T = plan.machines, plan.data.n_tasks
    assert isinstance(panel, MachinePanel)
    kept = panel.without(np.broadcast_to(np.isin(panel.component, held), panel.y.shape))
    duals: Any = solve_machines(grams, kept, plan.learner, B, tol=0.1 * plan.fit.tol).duals
    levels = np.zeros((T, np.diff(panel.starts)[0]))
    if panel.has_intercept:
        for t, offsets in enumerate(plan.units.offsets):
            levels[t] = np.ldexp(duals.intercept[panel.place(t)[0]], plan.units.target) + offsets[0]
    return _Fit(held, np.setdiff1d(np.arange(T), held), duals, levels)


def _panel_values(plan: FitPlan, grams: Grams, B: np.ndarray, fits: Sequence[_Fit]) -> list[np.ndarray]:
    """The same as `_machine_values`, for machines that are solved together."""
    panel = plan.machines
    assert isinstance(panel, MachinePanel)
    values: list[np.ndarray] = [np.empty(0)] * plan.data.n_tasks
    for fit in fits:
        every = panel_values(grams, B, fit.duals) - fit.duals.intercept
        for t in fit.held.tolist():
            values[t] = panel.task(every, t)
    return values


def _deviations(
    plan: FitPlan,
    grams: Grams,
    B: np.ndarray,
    shared: np.ndarray,
    rule: NewTaskRule,
    fits: Sequence[_Fit],
    process: ProcessVariance,
) -> list[np.ndarray]:
    """Return the deviations (n_t,) of each task without its rows; `shared` are the weights of what new tasks have."""
    data, T = plan.data, plan.data.n_tasks
    variances = [process.new_prior(data.X[rows]) for rows in data.rows]
    members_of = connected_tasks(plan.couplings, T)
    whole = [np.array(gram) for gram in grams.combine(B, range(grams.n_machines))]
    for m, cross in enumerate(grams.combine(shared, range(grams.n_machines))):
        tasks = np.repeat(members_of[m], [len(data.rows[t]) for t in members_of[m]])
        cross = np.asarray(cross)
        for fit in fits:
            weights = rule.levels(fit.kept, fit.held, fit.levels[fit.kept])
            rows = np.flatnonzero(~np.isin(tasks, fit.held))
            if not len(rows):
                continue
            machine = _posterior(whole[m], plan.machines[m], tasks, rows)
            present = np.unique(tasks[rows])
            for t, weight in zip(fit.held.tolist(), weights[:, np.isin(fit.kept, present)], strict=True):
                own = np.flatnonzero(tasks == t)
                at = cross[np.ix_(own, rows)] if len(own) else np.zeros((len(variances[t]), len(rows)))
                variances[t] = variances[t] + machine.change(at, weight)
    return [np.sqrt(process.noise + np.maximum(variance, 0.0)) for variance in variances]


def _posterior(gram: np.ndarray, machine: Machine, tasks: np.ndarray, rows: np.ndarray) -> Posterior:
    """Return what some rows of a machine say, with an intercept for each task."""
    groups = np.unique(tasks[rows], return_inverse=True)[1]
    n_groups = groups.max() + 1 if machine.n_groups else 0
    return Posterior(gram[np.ix_(rows, rows)], machine.C[rows, 0], indicators(groups, n_groups))


@dataclass(frozen=True)
class WithNearest:
    """Held-out values of a fit, and those of each task by the function of the task that is most like it.

    The functions are those of the whole fit. Where couplings link the two tasks, the other's function has learned a
    little from the rows that it predicts here.

    Attributes
    ----------
    source : of the held-out values.
    functions : of the fit.
    data : training data, in the units of the functions.
    classification : whether the targets are classes.
    index : finds the most similar task by inputs, where tasks have no features.
    """

    source: HeldOutSource
    functions: Any
    data: TaskData
    classification: bool = False
    index: InputIndex | None = None

    def held_out(self) -> HeldOut:
        held, data = self.source.held_out(), self.data
        if data.n_tasks < 2 or (self.classification and len({np.unique(y).tobytes() for y in data.y}) > 1):
            return held
        similarity = self.functions.task_similarities(data.labels)
        codes = [np.full(len(rows), self._nearest(t, similarity)) for t, rows in enumerate(data.rows)]
        values = self.functions.values(data.X[np.concatenate(data.rows)], np.concatenate(codes))
        parts = np.split(values, np.cumsum([len(rows) for rows in data.rows])[:-1])
        left = LeftOutTasks(parts, [np.ones(len(part)) for part in parts])
        return replace(held, new_tasks={**held.new_tasks, "nearest": left})

    def _nearest(self, task: int, similarity: np.ndarray | None) -> int:
        """Return the other task that is most like a task: by features (T, T) where there are any, or by inputs."""
        if similarity is not None:
            return int(np.argmax(np.where(np.arange(self.data.n_tasks) == task, -np.inf, similarity[task])))
        assert self.index is not None
        return self.index.nearest(self.data.X[self.data.rows[task]], besides=task)
