"""MKL-SA (Bucak, Jin and Jain): one kernel mix for all tasks, good for the worst of them, by stochastic approximation.

    min over gamma on the simplex, max over lambda on the simplex:   sum_t lambda_t L_t(gamma)

with L_t the value of task t's machine on `sum_k gamma_k G_tk`: the best mix for the worst task. For the hinge loss, put
a = lambda_t alpha: the terms of a task are then `lin_t(a) - (1/lambda_t) sum_k gamma_k Q_tk(a)`, the saddle point of
MK-MTFL with lambda_tk = lambda_t, where the box of a task shrinks with its lambda.

Each round draws a task from lambda, solves its machine alone, and moves gamma along Q_t and lambda along the task's
value; both moves estimate the gradients without bias. The answer is the average over rounds. For any lambda and
feasible a, `sum_t lambda_t lin_t(a_t) - max_k sum_t lambda_t Q_tk` bounds the saddle value from below.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from ..estimators.iterative import WatchedEstimator
from ..estimators.kinds import MultiKernelClassifier
from ..estimators.on_grams import GramEstimator
from ..learners import DualSolution
from ..objective import Evaluation, Objective
from ..penalties import Penalty
from ..solvers import Run, Solution, Status
from ..solvers.base import Finished
from .simplex import mirror_step, uniform


class OnSimplex(Penalty):
    """The weights are on the simplex, and the same for all tasks."""

    name: ClassVar[str] = "simplex"

    def value_and_gradient(self, B: np.ndarray) -> tuple[float, np.ndarray]:
        """0 and zeros."""
        return 0.0, np.zeros_like(B)

    def bound(self, Q: np.ndarray, B: np.ndarray, mu: float) -> float:
        """-max_k sum_t Q_tk."""
        return -float(Q.sum(axis=1).max())

    def relation(self, B: np.ndarray) -> np.ndarray:
        """11'/T: the tasks share one mix."""
        return np.full((B.shape[1], B.shape[1]), 1.0 / B.shape[1])


@dataclass
class _TaskWeights:
    """The lambda (T,) at which an evaluation is bounded; a solver moves it."""

    value: np.ndarray


@dataclass(frozen=True)
class WorstTask(Objective):
    """The value of the worst task's machine, and its lower bound at lambda."""

    lam: _TaskWeights = field(kw_only=True)

    def evaluate(self, B: np.ndarray, **how: Any) -> Evaluation:
        found = super().evaluate(B, **how)
        lam = self.lam.value
        lin = float(lam @ [dual.lin for dual in found.duals])
        primal = max(dual.primal for dual in found.duals)
        return replace(found, primal=primal, bound=lin + self.penalty.bound(found.Q * lam, B, self.mu))

    def solve_task(
        self, gamma: np.ndarray, t: int, warm: np.ndarray | None, tol: float
    ) -> tuple[np.ndarray, DualSolution]:
        """Q_t (K,) and the machine of one task alone, on the mix gamma (K,)."""
        one = range(t, t + 1)
        dual = self.learner.solve(self.grams.combine(_for_all(gamma, self), one)[0], self.machines[t], warm, tol)
        return self.grams.quadratic_forms([dual.a], one)[:, t], dual


@dataclass(frozen=True)
class StochasticApproximation:
    """Rounds of one task each. After 1, 2, 4, ... passes of T rounds all machines are solved and the gap is measured.

    Parameters
    ----------
    rng : draws the tasks.
    """

    rng: np.random.RandomState
    name: ClassVar[str] = "stochastic"

    def minimise(self, run: Run, B: np.ndarray | None = None, max_iter: int = 100) -> Solution:
        objective = run.objective
        assert isinstance(objective, WorstTask)
        walk, passes = _Walk(objective, self.rng, 0.1 * run.tol), 1
        run.accuracy = 0.1 * run.tol
        try:
            while True:
                walk.go(passes * objective.grams.n_components)
                objective.lam.value = walk.lam.mean
                run.evaluate(_for_all(walk.gamma.mean, objective))
                if passes >= max_iter:
                    run.finish(Status.MAX_ITER)
                passes = min(2 * passes, max_iter)
        except Finished:
            pass
        return run.solution()


class _Walk:
    """The rounds.

    What is known of the tasks that are not drawn, from when they last were, is part of the estimates, which stay
    without bias: only what has changed since is weighed by the chance of the draw.
    """

    def __init__(self, objective: WorstTask, rng: np.random.RandomState, tol: float) -> None:
        K, T = objective.grams.n_kernels, objective.grams.n_components
        self.objective, self.rng, self.tol, self.rounds = objective, rng, tol, 0
        self.gamma, self.lam = _MirrorAverage(K), _MirrorAverage(T)
        self.Q, self.L = np.zeros((K, T)), np.zeros(T)
        self.warm: list[np.ndarray | None] = [None] * T

    def go(self, until: int) -> None:
        T = len(self.L)
        while self.rounds < until:
            # The first pass takes the tasks in turn. A tenth of the draws goes evenly to all.
            chance = 0.9 * self.lam.value + 0.1 / T
            t = self.rounds if self.rounds < T else int(self.rng.choice(T, p=chance / chance.sum()))
            self.round(t, chance[t])

    def round(self, t: int, chance: float) -> None:
        q, dual = self.objective.solve_task(self.gamma.value, t, self.warm[t], self.tol)
        self.warm[t] = dual.a
        slope, values = self.Q @ self.lam.value, self.L.copy()
        if self.rounds >= len(self.L):
            slope += self.lam.value[t] / chance * (q - self.Q[:, t])
            values[t] += (dual.dual - self.L[t]) / chance
            self.gamma.step(slope)
            self.lam.step(values)
        self.Q[:, t], self.L[t] = q, dual.dual
        self.rounds += 1


class _MirrorAverage:
    """A point of the simplex that climbs along slopes, its step set by those seen so far, and its weighted average."""

    def __init__(self, size: int) -> None:
        self.value = self.mean = uniform(size)
        self.squares, self.count = 0.0, 0

    def step(self, slope: np.ndarray) -> None:
        slope = slope - 0.5 * (slope.max() + slope.min())
        self.squares += float(np.abs(slope).max()) ** 2
        if self.squares > 0:
            self.value = mirror_step(self.value, slope * np.sqrt(2 * np.log(len(slope)) / self.squares))
        self.count += 1
        # Later rounds count more: the i-th by i.
        self.mean = self.mean + 2.0 / (self.count + 1) * (self.value - self.mean)


def _for_all(gamma: np.ndarray, objective: Objective) -> np.ndarray:
    """The mix gamma (K,) for every task: B (K, T)."""
    return np.repeat(gamma[:, np.newaxis], objective.grams.n_components, axis=1)


@dataclass(eq=False, repr=False, kw_only=True)
class MKLSAClassifier(WatchedEstimator, GramEstimator, MultiKernelClassifier):
    """MKL-SA: one mix of kernels for all tasks, best for the worst of them, learned one task at a time.

    Made for many tasks: a round solves the machine of one task, drawn by how hard the tasks are.

    Parameters
    ----------
    max_iter : int
        Passes of T rounds; a pass costs what solving all machines once does.
    random_state : int, RandomState or None
        Draws the tasks.
    tol : float
        The relative duality gap to reach.
    kernels, C, normalize, loss, class_weight, task_column, n_jobs, verbose, callback
        As for `MKMTRLClassifier`.

    Attributes
    ----------
    kernel_weights_ : array (T, K), every row gamma; the others as for `MKMTRLClassifier`.
    objective_ : the value of the worst task's machine.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MKLSAClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, tasks = rng.normal(size=(90, 3)), np.repeat(["a", "b", "c"], 30)
    >>> y = X[:, 0] > 0
    >>> model = MKLSAClassifier(random_state=0, tol=0.1).fit(X, y, tasks=tasks)
    >>> float(model.kernel_weights_[0].sum().round(6))
    1.0
    """

    random_state: Any = None
    tol: float = 1e-2

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MultiKernelClassifier._parameter_constraints,
        **WatchedEstimator._watched_constraints,
        "random_state": ["random_state"],
    }

    def _penalty(self, n_tasks: int, n_couplings: int) -> OnSimplex:
        return OnSimplex()

    def _solve(self, objective: Objective) -> Solution:
        parts = (objective.grams, objective.machines, objective.learner, objective.penalty, objective.mu)
        weights = _TaskWeights(uniform(objective.grams.n_components))
        solver = StochasticApproximation(check_random_state(self.random_state))
        return self._run(solver, WorstTask(*parts, lam=weights))
