"""Estimators that are fitted on Gram matrices: pose the problem, build the Grams, solve, store."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..couplings import Coupling, connected_tasks, width
from ..data import TaskData
from ..grams import GramPlan, Grams, KernelBank, Use, build_grams, plan_grams, task_functions
from ..kernels import FittedKernel
from ..objective import Objective
from ..parallel import count_workers
from ..penalties import Penalty, effective_rank
from ..solvers import Solution
from .base import MultiKernelEstimator
from .shell import Prepared
from .targets import link_machines, stack_intercepts, tasks_of_machines


@dataclass(eq=False, repr=False, kw_only=True)
class GramEstimator(MultiKernelEstimator):
    """An estimator that holds the Gram matrices of all tasks while it is fitted.

    A subclass says which penalty holds the kernel weights (`_penalty`), and how the problem that machines and penalty
    pose is solved (`_solve`).
    """

    @abstractmethod
    def _penalty(self, n_tasks: int, n_couplings: int) -> Penalty:
        """The term that holds the kernel weights; raises where its parameters do not fit the tasks."""

    @abstractmethod
    def _solve(self, objective: Objective) -> Solution:
        """Find kernel weights and machines."""

    def _couplings(self, data: TaskData) -> tuple[Coupling, ...]:
        """The parts of the function that tasks share."""
        return ()

    def _prepare(self, data: TaskData) -> Prepared:
        data, aside = self._set_aside(data)
        couplings = self._couplings(data)
        pose = self._pose(data, couplings)
        kernels = self._fit_kernels(data)
        plan = plan_grams(data, kernels, self.normalize, width(couplings))
        return Prepared(
            plan.need(self._use()), partial(self._learn_on_grams, data, aside, couplings, pose, kernels, plan)
        )

    def _learn_on_grams(
        self,
        data: TaskData,
        aside: TaskData | None,
        couplings: Sequence[Coupling],
        pose: Callable[[Grams], Objective],
        kernels: Sequence[FittedKernel] | None,
        plan: GramPlan,
    ) -> None:
        grams, bank = build_grams(data, kernels, self.normalize, couplings, plan)
        self._store(data, bank, couplings, self._solve(pose(grams)))
        if aside is not None:
            self._score_aside(aside)

    def _use(self) -> Use:
        """What the Grams are for."""
        return Use(self._learner().name, count_workers(self.n_jobs))

    def _set_aside(self, data: TaskData) -> tuple[TaskData, TaskData | None]:
        """The tasks to fit, and those to hold out."""
        return data, None

    def _score_aside(self, aside: TaskData) -> None:
        """Measure the fit on tasks that were held out."""

    def _pose(self, data: TaskData, couplings: Sequence[Coupling]) -> Callable[[Grams], Objective]:
        """Everything about the problem but its Grams, so that what is wrong shows before these are computed."""
        penalty = self._penalty(data.n_tasks, len(couplings))
        machines, strength = self._machines(data), self._strength(data)
        if couplings:
            machines = link_machines(machines, connected_tasks(couplings, data.n_tasks), data.labels)
        return lambda grams: Objective(grams, machines, self._learner(), penalty, strength)

    def _store(self, data: TaskData, bank: KernelBank, couplings: Sequence[Coupling], solution: Solution) -> None:
        self.tasks_ = data.labels
        self.data_form_ = data.form
        self.kernels_ = bank.names if bank.kernels is None else bank.kernels
        self.kernel_names_ = np.array(bank.names)
        self.kernel_weights_ = solution.B[:, : data.n_tasks].T.copy()
        Omega = solution.Omega[: data.n_tasks, : data.n_tasks]
        self.task_relationship_ = Omega / np.trace(Omega)
        root = np.sqrt(np.maximum(np.diag(Omega), np.finfo(float).tiny))
        # In place: there may be many tasks.
        self.task_correlation_ = np.divide(Omega, root)
        np.divide(self.task_correlation_, root[:, np.newaxis], out=self.task_correlation_)
        self.objective_ = solution.primal
        self.duality_gap_ = solution.gap
        self.effective_rank_ = effective_rank(solution.B)
        self.history_ = solution.history
        self.n_iter_ = len(solution.history["iteration"])
        self.dual_coef_, intercepts = tasks_of_machines(solution.duals, data, couplings)
        self.intercept_ = stack_intercepts(intercepts)
        self.functions_ = task_functions(data, bank, solution.B, self.dual_coef_, intercepts, couplings)

    def _strength(self, data: TaskData) -> float:
        """The factor mu of the penalty."""
        return 1.0
