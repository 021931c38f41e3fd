"""The second stage as an estimator has it: the machines of all tasks at kernel weights that are known."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils._param_validation import Interval

from ...couplings import Coupling, connected_tasks, width
from ...data import TaskData, listing, task_fault
from ...grams import CoupledGrams, KernelBank, Use, build_grams, plan_grams, task_functions
from ...grams.rows import RowKernels
from ...kernels import Scaling
from ...kernels.distances import thin
from ...memory import Need
from ...objective import solve_batch
from ...parallel import Workers, count_workers
from ..coupled import CoupledEstimator
from ..targets import link_machines, stack_intercepts, tasks_of_machines
from .memory import second_stage_need
from .second_stage import SecondStage

# Of one task: how its kernels are scaled, dual variables, intercepts, primal value and gap.
_Solved = tuple[Scaling, np.ndarray, np.ndarray, float, float]


@dataclass(eq=False, repr=False, kw_only=True)
class MachineStage(CoupledEstimator):
    """An estimator whose machines are fitted when the kernel weights have been learned, one task at a time."""

    max_exact: int = 2000
    verbose: int = 0

    _stage_constraints: ClassVar[dict[str, Any]] = {
        **CoupledEstimator._coupled_constraints,
        "max_exact": [Interval(Integral, 2, None, closed="left")],
        "verbose": ["verbose"],
    }

    def _machine_need(self, data: TaskData, values: RowKernels) -> Need:
        """The memory that `_store_machines` takes."""
        use = Use(self._learner().name, count_workers(self.n_jobs))
        linked = width(self._couplings(data))
        if linked:
            return plan_grams(data, values.kernels, self.normalize, linked).need(use)
        return second_stage_need(data, values, self.max_exact, use.factorises, use.n_jobs)

    def _store_machines(self, data: TaskData, values: RowKernels) -> None:
        """Fit the machines, one task at a time; tasks that are not fit for one are noted, refused when asked for."""
        faults = [self._fault(label, y) for label, y in zip(data.labels.tolist(), data.y, strict=True)]
        sound = [t for t, fault in enumerate(faults) if fault is None]
        if not sound:
            raise ValueError(faults[0])
        couplings = self._couplings(data)
        self._faults = {t: fault for t, fault in enumerate(faults) if fault is not None}
        if couplings:
            self._store_coupled_machines(data, values, couplings)
            return
        self._store_couplings((), np.zeros((values.n_kernels, 0)))
        scalings, a, intercepts, primals, gaps = zip(*self._solve_tasks(data, values, sound), strict=True)
        self.objective_, self.duality_gap_ = float(sum(primals)), float(sum(gaps))
        bank = KernelBank(values.names, values.kernels, scalings[:1] if data.form == "wide" else scalings)
        self.functions_ = task_functions(data, bank, self.kernel_weights_.T, a, intercepts)
        self.dual_coef_ = list(a)
        self.intercept_ = stack_intercepts(intercepts)
        self._spread_classes(sound)
        self._note_nystroem(data)

    def _solve_tasks(self, data: TaskData, values: RowKernels, sound: list[int]) -> list[_Solved]:
        """The machine of each task; of tasks that are not sound, one that says zero."""
        machines = dict(zip(sound, self._machines(data.select(np.array(sound))), strict=True))
        stage = SecondStage(self._learner(), self.max_exact, self.tol, self._seed)
        every = np.arange(len(data.X))
        if data.form == "wide":
            values.check(self._tested(np.flatnonzero(data.sample_weight > 0)))
        shared = values.scaling(every, data.sample_weight, self.normalize) if data.form == "wide" else None

        def one(t: int) -> _Solved:
            rows, b = data.rows[t], self.kernel_weights_[t]
            if t not in machines:
                nothing = Scaling(np.ones(values.n_kernels)) if shared is None else shared
                return nothing, np.zeros((len(rows), 1)), np.zeros(1), 0.0, 0.0
            if shared is not None:
                return shared, *stage.solve(values, shared, every, rows, b, machines[t])
            values.check(self._tested(rows))
            scaling = values.scaling(rows, data.sample_weight[rows], self.normalize)
            return scaling, *stage.solve(values, scaling, rows, np.arange(len(rows)), b, machines[t])

        with Workers(self.n_jobs) as workers:
            return workers.map(one, range(data.n_tasks))

    def _tested(self, rows: np.ndarray) -> np.ndarray:
        """The rows on which kernels are checked: all that make a Gram; Nystroem features are sound by construction."""
        return rows if len(rows) <= self.max_exact else rows[thin(len(rows))]

    def _store_coupled_machines(self, data: TaskData, values: RowKernels, couplings: tuple[Coupling, ...]) -> None:
        """Fit linked tasks as one machine. A coupling's kernel weights are the mean of its tasks' own.

        Own part and couplings are equally strong, and together have a mean diagonal of one, as a single kernel has.
        """
        for fault in self._faults.values():
            raise ValueError(fault)
        own = self.kernel_weights_.T
        touched = [np.square(coupling.factor).sum(axis=1) for coupling in couplings]
        shared = np.column_stack([own @ weight / weight.sum() for weight in touched])
        B = np.hstack([own, shared]) / (1 + len(couplings))
        grams, bank = build_grams(data, values.kernels, self.normalize, couplings)
        machines = link_machines(self._machines(data), connected_tasks(couplings, data.n_tasks), data.labels)
        with Workers(self.n_jobs) as workers:
            duals = [
                dual
                for batch in grams.batches()
                for dual in solve_batch(grams, machines, self._learner(), B, batch, tol=self.tol, each=workers.map)
            ]
        self.objective_ = sum(dual.primal for dual in duals)
        self.duality_gap_ = sum(max(dual.gap, 0.0) for dual in duals)
        assert isinstance(grams, CoupledGrams)
        self.part_shares_ = grams.part_shares(B, [dual.a for dual in duals])
        self.dual_coef_, intercepts = tasks_of_machines(duals, data, couplings)
        self.intercept_ = stack_intercepts(intercepts)
        self.functions_ = task_functions(data, bank, B, self.dual_coef_, intercepts, couplings)
        self._store_couplings(couplings, B[:, data.n_tasks :])
        self.nystroem_tasks_ = data.labels[:0]

    def _spread_classes(self, sound: list[int]) -> None:
        """Give `task_classes_`, which has the tasks with a machine, a place for every task."""
        if is_classifier(self) and self._faults:
            mine = dict(zip(sound, self.__dict__["task_classes_"], strict=True))
            self.__dict__["task_classes_"] = [mine.get(t, self.classes_) for t in range(len(self.tasks_))]

    def _note_nystroem(self, data: TaskData) -> None:
        large = [t for t, rows in enumerate(data.rows) if len(rows) > self.max_exact]
        self.nystroem_tasks_ = data.labels[large]
        if self.verbose and large:
            print(f"[kernelkin] Nystroem features for {listing(self.nystroem_tasks_)}", flush=True)

    def _fault(self, label: Any, y: np.ndarray) -> str | None:
        name = "the data" if self.data_form_ == "single" else f"task {label!r}"
        return task_fault(name, y, classification=is_classifier(self))
