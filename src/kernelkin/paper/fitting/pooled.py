"""Tasks that share the feature space of the average kernel, with a norm of all functions together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ...data.forms import TaskData
from ...engines.threads import Workers
from ...kernels.families import is_precomputed, source_kernels
from ...kernels.kernel import FittedKernel
from ...memory import SOLVER_ARRAYS, Need, base_bytes, memory_limit
from ..functions import Share, TaskFunctions, make_expansion
from ..grams.row_kernels import TESTED_ROWS, PivotFeatures, PooledKernel, needs_stack
from ..learners.machines import Learner, Machine
from ..penalties.norms import SpectralNorm, unit_root
from ..penalties.relation import Relation, effective_rank
from ..problems.problem import SpectralForm, SpectralProblem, spectral_form
from ..solvers.driver import Solution, Solver, solve
from .fit import Fitted, RunOptions, count_clipping, solution_attributes
from .targets import Targets

_ADVICE = (
    "use a kernel with few features (linear, or polynomial on few columns) where there are many tasks; or fewer rows; "
    "or the TwoStageMKMTRL estimators, which hold no matrix over the rows of all tasks"
)


@dataclass(frozen=True, kw_only=True)
class PooledFit:
    """Specification of tasks whose functions, as the columns of W, minimise losses plus a norm of W's singular values.

    The model has one kernel: the average of `kernels`, scaled on the rows of all tasks together. Others as in `Fit`.
    """

    targets: Targets
    norm: SpectralNorm
    kernels: Any = None
    C: float = 1.0
    normalize: str | None = "trace"
    solver: str | Solver | None = None
    tol: float = 1e-3
    max_iter: int = 100

    def plan(self, data: TaskData) -> PooledPlan:
        """Apply to data."""
        machines, learner = self.targets.machines(data, self.C), self.targets.learner()
        kernels = None if is_precomputed(self.kernels) else source_kernels(self.kernels, data)
        plan = PooledPlan(self, data, kernels, machines, learner)
        # If all Gram matrices are needed at once, the rank is not known before they are computed.
        return plan if needs_stack(kernels, self.normalize) else plan._replace(pool=plan.make_pool())


class PooledPlan(NamedTuple):
    """A specification applied to data.

    `pool` is the kernel of all tasks and, where these are the smaller side, its explicit features; None until made.
    """

    fit: PooledFit
    data: TaskData
    kernels: Sequence[FittedKernel] | None
    machines: Sequence[Machine]
    learner: Learner
    pool: tuple[PooledKernel, PivotFeatures | None] | None = None

    @property
    def n_rows(self) -> int:
        return len(self.data.X) if self.data.form == "wide" else sum(map(len, self.data.rows))

    @property
    def n_outputs(self) -> int:
        return sum(machine.y.shape[1] for machine in self.machines)

    def make_pool(self) -> tuple[PooledKernel, PivotFeatures | None]:
        """Build the kernel, and its explicit features if there are at most as many as outputs."""
        pool = PooledKernel(self.data, self.kernels, self.fit.normalize)
        return pool, pool.features(min(self.n_outputs, memory_limit() // (8 * self.n_rows)))

    def memory(self, n_jobs: int = 1) -> Need:
        """Bound the memory of rows, kernels, and matrices over the rows of all tasks or over explicit features."""
        shapes, n, outputs = [machine.y.shape for machine in self.machines], self.n_rows, self.n_outputs
        K = self.data.X.shape[2] if self.kernels is None else len(self.kernels)
        total = sum(rows * m for rows, m in shapes)
        held = 16 * (K + 4) * (n if self.pool is None else min(n, TESTED_ROWS + 1)) ** 2
        held += 0 if self.kernels is None else 48 * n * self.data.X.shape[1]
        if self.pool is None or self.pool[1] is None:
            work = 6 * total**2 + 4 * total * outputs + SOLVER_ARRAYS * outputs**2
        else:
            rank = self.pool[1].Phi.shape[1]
            work = 4 * sum(rows**2 for rows, _ in shapes) + n * (5 * rank + 3 * outputs) + SOLVER_ARRAYS * rank**2
        return Need(base_bytes(len(shapes), total) + held + 8 * work, _ADVICE)

    def run(self, options: RunOptions) -> Fitted:
        """Solve, and keep the functions."""
        pool, features = self.make_pool() if self.pool is None else self.pool
        form = spectral_form(pool, features, self.data.rows, self.machines)
        problem, units = SpectralProblem(form, form.machines, self.learner, self.fit.norm).in_standard_units()
        limits: dict[str, Any] = {"tol": self.fit.tol, "max_iter": self.fit.max_iter, "units": units}
        shown: dict[str, Any] = {"verbose": options.verbose, "callback": options.callback}
        with Workers(options.n_jobs) as workers:
            solution = solve(problem, self.fit.solver, each=workers.map, **limits, **shown)
        return self._fitted(pool, form, solution, options)

    def _fitted(self, pool: PooledKernel, form: SpectralForm, solution: Solution, options: RunOptions) -> Fitted:
        data, K, bank = self.data, len(pool.bank.names), pool.bank
        a, intercepts = form.unpack(solution.duals)
        metric = self.fit.norm.metric(solution.B)
        outputs = unit_root(form.task_covariance(solution.duals, metric))
        attributes, warnings = solution_attributes(self.fit, data, bank, solution, options, a, intercepts)
        attributes |= {
            "kernel_weights_": np.full((data.n_tasks, K), 1.0 / K),
            "relation_": self._relation(outputs, attributes),
            "effective_rank_": effective_rank(outputs),
            "functions_": self._functions(pool, form.coefficients(solution.duals, metric), intercepts),
        }
        if pool.bank.clipped:
            warnings += count_clipping(attributes, self.fit, data, solution.duals)
        return Fitted(attributes, tuple(warnings))

    def _functions(
        self, pool: PooledKernel, coefficients: np.ndarray, intercepts: Sequence[np.ndarray]
    ) -> TaskFunctions:
        """Return the functions of all tasks, as one expansion over the pooled rows."""
        K = len(pool.bank.names)
        kernels, scaling, weights = pool.bank.kernels, pool.bank.scalings[0], np.full((K, coefficients.shape[1]), 1 / K)
        every = np.concatenate(intercepts)
        expansion = make_expansion(self.data.X, pool.rows, kernels, scaling, coefficients, weights, every)
        ends = np.cumsum([0, *map(len, intercepts)]).tolist()
        shares = tuple((Share(0, slice(start, end), np.ones(1)),) for start, end in pairwise(ends))
        return TaskFunctions((expansion,), shares, K)

    def _relation(self, outputs: np.ndarray, known: dict[str, Any]) -> Relation:
        """Return the task relationship from that of outputs (O, O), summed over outputs of the same class."""
        T = self.data.n_tasks
        task, label = np.arange(T), np.zeros(T, dtype=np.intp)
        if "classes_" in known:
            positive = [classes if len(classes) > 2 else classes[1:] for classes in known["task_classes_"]]
            task = np.repeat(task, [len(classes) for classes in positive])
            label = np.searchsorted(known["classes_"], np.concatenate(positive))
        Omega = np.zeros((T, T))
        np.add.at(Omega, np.ix_(task, task), np.where(label[:, np.newaxis] == label, outputs, 0.0))
        return Relation.of_matrix(Omega)
