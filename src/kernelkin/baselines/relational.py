"""The shell of MTFL and MTRL: the estimators' interface around the problem of `spectral`."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import StrOptions

from ..data import TaskData
from ..estimators.iterative import WatchedEstimator
from ..estimators.kinds import MultiKernelClassifier
from ..estimators.targets import stack_intercepts
from ..grams.expansion import make_expansion
from ..grams.functions import Share, TaskFunctions
from ..objective import Objective
from ..penalties import effective_rank
from ..solvers import Solution
from .pooled import PooledKernel, pool_kernels
from .spectral import SpectralForm, SpectralObjective, SpectralPenalty, spectral_form, unit_root
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

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, tasks: Any = None, sample_weight: Any = None) -> OneKernelEstimator:
        """Learn the functions of all tasks together.

        Parameters
        ----------
        X : array or DataFrame (n, d); (n, n, K) with ``kernels="precomputed"``
            The rows of all tasks.
        y : array (n,), or (n, T) with NaN for missing labels
            Targets. With two dimensions every column is a task on the same rows.
        tasks : array (n,), optional
            The task of each row; any labels. Not needed with `task_column`, with wide y, or for one task.
        sample_weight : array (n,), optional
            Weights of rows; weighting a row by 2 equals repeating it.
        """
        data = self._read(X, y, tasks, sample_weight)
        machines = self._machines(data)
        pool = pool_kernels(data, self._fit_kernels(data), self.normalize)
        form = spectral_form(pool, data.rows, machines)
        objective = SpectralObjective(form, form.machines, self._learner(), self._spectral_penalty(), 1.0)
        solution = self._solve(objective)
        self._store_spectral(data, pool, form, solution)
        return self

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

    def _penalty(self, n_tasks: int, n_couplings: int) -> SpectralPenalty:
        return self._spectral_penalty()
