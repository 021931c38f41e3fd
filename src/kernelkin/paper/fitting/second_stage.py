"""The machines of all tasks at known kernel weights: one task at a time, or on the Gram matrices that tasks share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ...data import TaskData, tiny_tasks
from ...engines import Workers
from ...kernels import FittedKernel, Scaling, mirror
from ...memory import Need, fit_need, machines_need
from ...uncertainty import Uncertainty
from ..couplings import Coupling, read_couplings, width
from ..functions import task_functions
from ..grams import BLOCK_BYTES, GramStack, KernelBank, RowKernels, TaskGrams, plan_grams
from ..learners import Learner, Machine
from ..penalties import FixedWeights
from ..problems import Problem
from ..solvers import solve
from .base import Fitted, RunOptions
from .fit import Fit, Shape, check_unknown_tasks, input_index, machines_uncertainty
from .held_out import Refits
from .nystroem import N_LANDMARKS, fit_nystroem
from .targets import Classification, Targets, stack_intercepts

# What `Fit` has to say of machines at given weights; kernel weights and relationship are those of stage 1.
_OF_MACHINES = (
    "objective_",
    "duality_gap_",
    "dual_coef_",
    "intercept_",
    "functions_",
    "couplings_",
    "coupling_weights_",
    "part_shares_",
    "input_index_",
    "uncertainty_",
)


@dataclass(frozen=True)
class TaskMachine:
    """The machine of one task: how its kernels are scaled, coefficients (n, m), intercepts (m,), objective and gap."""

    scaling: Scaling
    a: np.ndarray
    intercept: np.ndarray
    objective: float = 0.0
    gap: float = 0.0


@dataclass(frozen=True, kw_only=True)
class SecondStage:
    """Specification of one kernel machine for each task at given kernel weights.

    Coupled tasks, and tasks that share precomputed Grams, are fitted together, by a `Fit` with `FixedWeights`. A
    coupling's kernel weights are the mean of its tasks' own, and it is as strong as the tasks' own parts; together they
    have a mean diagonal of one.

    Parameters
    ----------
    targets, C, couplings, task_features, unknown_tasks, normalize : as in `Fit`
    max_exact : int
        Tasks of more rows use Nystroem features and one of scikit-learn's linear machines.
    tol : float
        The relative duality gap of exact machines, and the tolerance of the linear ones.
    """

    targets: Targets
    C: float = 1.0
    couplings: Any = None
    task_features: Any = None
    unknown_tasks: str = "error"
    normalize: str | None = "trace"
    max_exact: int = 2000
    tol: float = 1e-3

    def memory(self, data: TaskData, values: RowKernels, n_jobs: int) -> Need:
        """Return an upper bound on the memory that `run` takes."""
        linked = width(self.fit_couplings(data))
        plan = plan_grams(data, values.kernels, self.normalize, linked)
        if linked or self._shares_grams(data, values):
            return fit_need(plan, self.targets.learner().name, n_jobs)
        columns = [n if n <= self.max_exact else min(N_LANDMARKS, self.max_exact) for n in plan.machines]
        return machines_need(plan, columns, BLOCK_BYTES, n_jobs)

    def run(self, data: TaskData, values: RowKernels, weights: np.ndarray, seed: int, options: RunOptions) -> Fitted:
        """Fit the machines at weights (T, K); `seed` places the landmarks of Nystroem features."""
        faults = tiny_tasks(data, classification=isinstance(self.targets, Classification))
        couplings = self.fit_couplings(data)
        check_unknown_tasks(self.unknown_tasks, couplings, data)
        if couplings or (self._shares_grams(data, values) and not faults):
            return self._run_together(data, values, weights, options)
        if len(faults) == data.n_tasks:
            raise ValueError(next(iter(faults.values())))
        machines = self._solve_tasks(data, values, weights, faults, seed, options)
        attributes = self._attributes(data, values, weights, faults, machines)
        attributes["uncertainty_"] = self._uncertainty(data, values, weights, seed, attributes)
        return Fitted(attributes)

    def _shares_grams(self, data: TaskData, values: RowKernels) -> bool:
        """Whether all tasks use one set of precomputed Grams, which are then checked and scaled once."""
        return values.kernels is None and data.form == "wide" and max(map(len, data.rows)) <= self.max_exact

    def _uncertainty(
        self, data: TaskData, values: RowKernels, weights: np.ndarray, seed: int, attributes: dict[str, Any]
    ) -> Uncertainty:
        """Return held-out values at the weights of the first stage, in closed form where all machines are exact."""
        classification = isinstance(self.targets, Classification)
        if attributes["unfitted_tasks_"] or max(map(len, data.rows)) > self.max_exact:
            kernels = None if values.kernels is None else list(values.kernels)
            source = Refits(_AtWeights(self, kernels, weights, seed), data, classification)
            return Uncertainty(source, data, classification=classification)
        fit = self.exact_fit(partial(_fixed_weights, weights.T), _given_kernels(values))
        return machines_uncertainty(fit.plan(data, values.kernels), weights.T, attributes)

    def exact_fit(self, penalty: Callable[[Shape], FixedWeights], kernels: Any) -> Fit:
        """Return the specification of exact machines; their kernel weights are those of the penalty."""
        return Fit(
            targets=self.targets,
            penalty=penalty,
            kernels=kernels,
            C=self.C,
            couplings=self.couplings,
            task_features=self.task_features,
            unknown_tasks=self.unknown_tasks,
            normalize=self.normalize,
            tol=self.tol,
        )

    def fit_couplings(self, data: TaskData) -> tuple[Coupling, ...]:
        """Return the couplings of the tasks of these data."""
        return read_couplings(self.couplings, data, task_features=self.task_features)

    def _solve_tasks(
        self,
        data: TaskData,
        values: RowKernels,
        weights: np.ndarray,
        faults: dict[int, str],
        seed: int,
        options: RunOptions,
    ) -> list[TaskMachine]:
        """Return the machine of each task; one that is zero for tasks that cannot have one."""
        usable = [t for t in range(data.n_tasks) if t not in faults]
        machines = dict(zip(usable, self.targets.machines(data.select(np.array(usable)), self.C), strict=True))
        learner, every = self.targets.learner(), np.arange(len(data.X))
        shared = values.scaling(every, data.sample_weight, self.normalize) if data.form == "wide" else None

        def one(t: int) -> TaskMachine:
            rows = data.rows[t]
            if t not in machines:
                zero = Scaling(np.ones(values.n_kernels)) if shared is None else shared
                return TaskMachine(zero, np.zeros((len(rows), 1)), np.zeros(1))
            values.check(rows)
            if shared is not None:
                return self._solve(values, shared, every, rows, weights[t], learner, machines[t], seed)
            scaling = values.scaling(rows, data.sample_weight[rows], self.normalize)
            own = np.arange(len(rows))
            return self._solve(values, scaling, rows, own, weights[t], learner, machines[t], seed)

        with Workers(options.n_jobs) as workers:
            return workers.map(one, range(data.n_tasks))

    def _solve(
        self,
        values: RowKernels,
        scaling: Scaling,
        base: np.ndarray,
        at: np.ndarray,
        b: np.ndarray,
        learner: Learner,
        machine: Machine,
        seed: int,
    ) -> TaskMachine:
        """Solve one machine at kernel weights b (K,), on the rows base[at] of those its scaling was fitted on."""
        if len(at) > self.max_exact:
            rng = np.random.default_rng(seed)
            landmarks = np.sort(rng.choice(len(at), min(N_LANDMARKS, self.max_exact), replace=False))
            cross = values.combined(b, scaling, base, at, at[landmarks])
            a, intercept = fit_nystroem(cross, landmarks, learner, machine, self.tol, seed)
            return TaskMachine(scaling, a, intercept, np.nan, np.nan)
        gram = values.combined(b, scaling, base, at, at)
        mirror(gram)
        # The combined kernel as the one kernel of a problem: rescaled, solved and certified as all others are.
        grams = TaskGrams([GramStack(gram[np.newaxis])])
        problem, units = Problem(grams, [machine], learner, FixedWeights(np.ones((1, 1))), 1.0).in_standard_units()
        solution = solve(problem, tol=self.tol, units=units)
        dual = solution.duals[0]
        return TaskMachine(scaling, dual.a, dual.intercept.sum(axis=0), solution.primal, solution.gap)

    def _attributes(
        self,
        data: TaskData,
        values: RowKernels,
        weights: np.ndarray,
        faults: dict[int, str],
        machines: Sequence[TaskMachine],
    ) -> dict[str, Any]:
        scalings = tuple(machine.scaling for machine in machines)
        bank = KernelBank(values.names, values.kernels, scalings[:1] if data.form == "wide" else scalings)
        a, intercepts = [machine.a for machine in machines], [machine.intercept for machine in machines]
        attributes = {
            "objective_": float(sum(machine.objective for machine in machines)),
            "duality_gap_": float(sum(machine.gap for machine in machines)),
            "dual_coef_": a,
            "intercept_": stack_intercepts(intercepts),
            "functions_": task_functions(data, bank, weights.T, a, intercepts),
            "couplings_": (),
            "coupling_weights_": np.zeros((0, values.n_kernels)),
            "nystroem_tasks_": data.labels[[len(rows) > self.max_exact for rows in data.rows]],
            "unfitted_tasks_": {data.labels[t].item(): fault for t, fault in faults.items()},
        }
        return attributes | self._classes(data, faults) | input_index(self.unknown_tasks, data)

    def _classes(self, data: TaskData, faults: dict[int, str]) -> dict[str, Any]:
        """Return what is known about the targets; a task without a machine has all classes."""
        known = self.targets.attributes(data)
        if "task_classes_" in known:
            classes = known["classes_"]
            known["task_classes_"] = [classes if t in faults else own for t, own in enumerate(known["task_classes_"])]
        return known

    def _run_together(self, data: TaskData, values: RowKernels, weights: np.ndarray, options: RunOptions) -> Fitted:
        fixed = mean_weights(weights, self.fit_couplings(data))
        fit = self.exact_fit(lambda shape: fixed, _given_kernels(values))
        fitted = fit.plan(data, values.kernels).run(replace(options, verbose=0, callback=None))
        kept = {name: fitted.attributes[name] for name in _OF_MACHINES if name in fitted.attributes}
        kept |= {"nystroem_tasks_": data.labels[:0], "unfitted_tasks_": {}} | self.targets.attributes(data)
        return Fitted(kept, fitted.warnings)


@dataclass(frozen=True)
class _AtWeights:
    """The second stage on other rows of the same tasks, as a specification."""

    stage: SecondStage
    kernels: list[FittedKernel] | None
    weights: np.ndarray
    seed: int

    def plan(self, data: TaskData) -> _AtWeightsPlan:
        return _AtWeightsPlan(self, data)


@dataclass(frozen=True)
class _AtWeightsPlan:
    at: _AtWeights
    data: TaskData

    def memory(self, n_jobs: int = 1) -> Need:
        return self.at.stage.memory(self.data, self._values(), n_jobs)

    def run(self, options: RunOptions) -> Fitted:
        return self.at.stage.run(self.data, self._values(), self.at.weights, self.at.seed, options)

    def _values(self) -> RowKernels:
        return RowKernels.of(self.data.X, self.at.kernels, self.at.stage.normalize)


def _given_kernels(values: RowKernels) -> str | None:
    """What `Fit` is given as kernels: those that are fitted already go to its plan."""
    return None if values.kernels is not None else "precomputed"


def _fixed_weights(B: np.ndarray, shape: Shape) -> FixedWeights:
    return FixedWeights(B)


def mean_weights(weights: np.ndarray, couplings: Sequence[Coupling]) -> FixedWeights:
    """Return the weights (K, J) of tasks and couplings, from those (T, K) of the tasks."""
    own = weights.T
    touched = [np.square(coupling.factor).sum(axis=1) for coupling in couplings]
    shared = [own @ weight / weight.sum() for weight in touched]
    return FixedWeights(np.column_stack([own, *shared]) / (1 + len(couplings)))
