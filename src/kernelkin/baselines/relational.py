"""The shell of MTFL and MTRL: the estimators' interface around the problem of `spectral`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions

from ..data import TaskData
from ..estimators.iterative import WatchedEstimator
from ..estimators.kinds import MultiKernelClassifier
from ..estimators.shell import Prepared
from ..estimators.targets import stack_intercepts
from ..grams.expansion import make_expansion
from ..grams.functions import Share, TaskFunctions
from ..kernels import FittedKernel
from ..learners import Machine
from ..objective import Objective
from ..penalties import effective_rank
from ..solvers import Solution
from .pooled import Features, PooledKernel, needs_stack, pool_kernels
from .spectral import SpectralForm, SpectralObjective, SpectralPenalty, spectral_form, unit_root
from .spectral_memory import SpectralPlan, plan_spectral
from .spectral_solvers import SPECTRAL_SOLVERS


@dataclass(eq=False, repr=False, kw_only=True)
class OneKernelEstimator(WatchedEstimator):
    """Tasks that share a feature space: that of the average of the base kernels."""

    solver: str = "joint"

    _one_kernel_constraints: ClassVar[dict[str, Any]] = {
        **WatchedEstimator._watched_constraints,
        "solver": [StrOptions(set(SPECTRAL_SOLVERS))],
    }

    @abstractmethod
    def _spectral_penalty(self) -> SpectralPenalty:
        """The two strengths."""

    def _prepare(self, data: TaskData) -> Prepared:
        machines, kernels = self._machines(data), self._fit_kernels(data)
        plan = plan_spectral(data, kernels, machines, self._learner().name)
        if needs_stack(kernels, self.normalize):
            # Nothing can be said of its rank before all of it is there.
            need = plan.need(stacked=True)
            return Prepared(need, lambda: self._learn(data, machines, self._pool(data, kernels, plan)))
        pooled = self._pool(data, kernels, plan)
        return Prepared(plan.need(pooled[1]), lambda: self._learn(data, machines, pooled))

    def _pool(
        self, data: TaskData, kernels: Sequence[FittedKernel] | None, plan: SpectralPlan
    ) -> tuple[PooledKernel, Features | None]:
        """The kernel of all tasks, and its features where these are the smaller side."""
        pool = pool_kernels(data, kernels, self.normalize)
        return pool, pool.features(plan.max_rank)

    def _learn(self, data: TaskData, machines: Sequence[Machine], pooled: tuple[PooledKernel, Features | None]) -> None:
        form = spectral_form(*pooled, data.rows, machines)
        objective = SpectralObjective(form, form.machines, self._learner(), self._spectral_penalty(), 1.0)
        self._store_spectral(data, pooled[0], form, self._solve(objective))

    def _solve(self, objective: Objective) -> Solution:
        return self._run(SPECTRAL_SOLVERS[self.solver](), objective)

    def _store_spectral(self, data: TaskData, pool: PooledKernel, form: SpectralForm, solution: Solution) -> None:
        K, A = len(pool.bank.names), solution.B
        self.tasks_ = data.labels
        self.data_form_ = data.form
        self.kernels_ = pool.bank.names if pool.bank.kernels is None else pool.bank.kernels
        self.kernel_names_ = np.array(pool.bank.names)
        self.kernel_weights_ = np.full((data.n_tasks, K), 1.0 / K)
        self._store_relation(data, form.task_covariance(solution.duals, A))
        self.objective_ = solution.primal
        self.duality_gap_ = solution.gap
        self.history_ = solution.history
        self.n_iter_ = len(solution.history["iteration"])
        self.dual_coef_, intercepts = form.unpack(solution.duals)
        self.intercept_ = stack_intercepts(intercepts)
        coefficients = form.coefficients(solution.duals, A)
        weights = np.full((K, coefficients.shape[1]), 1.0 / K)
        expansion = make_expansion(
            data.X,
            pool.rows,
            pool.bank.kernels,
            pool.bank.scalings[0],
            coefficients,
            weights,
            np.concatenate(intercepts),
        )
        ends = np.cumsum([len(c) for c in intercepts]).tolist()
        shares = tuple(
            (Share(0, slice(end - len(c), end), np.ones(1)),) for end, c in zip(ends, intercepts, strict=True)
        )
        self.functions_ = TaskFunctions((expansion,), shares, K)

    def _store_relation(self, data: TaskData, covariance: np.ndarray) -> None:
        """From W'W (O, O) to the relationship of tasks; an output of one class is compared with those of that class."""
        among_outputs = unit_root(covariance)
        self.effective_rank_ = effective_rank(among_outputs)
        Omega = np.zeros((data.n_tasks, data.n_tasks))
        task, label = self._outputs(data)
        same = label[:, np.newaxis] == label
        np.add.at(Omega, np.ix_(task, task), np.where(same, among_outputs, 0.0))
        self.task_relationship_ = Omega
        root = np.sqrt(np.maximum(np.diag(Omega), np.finfo(float).tiny))
        self.task_correlation_ = Omega / np.outer(root, root)

    def _outputs(self, data: TaskData) -> tuple[np.ndarray, np.ndarray]:
        """The task and the class of each output; regression has one output for each task, of no class."""
        if not isinstance(self, MultiKernelClassifier):
            return np.arange(data.n_tasks), np.zeros(data.n_tasks)
        positive = [classes if len(classes) > 2 else classes[1:] for classes in self.task_classes_]
        task = np.repeat(np.arange(data.n_tasks), [len(classes) for classes in positive])
        return task, np.searchsorted(self.classes_, np.concatenate(positive))
