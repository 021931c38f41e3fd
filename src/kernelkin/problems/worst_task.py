"""The problem of MKL-SA: one kernel mix for all tasks, best for the worst of them.

    min over gamma on the simplex, max over lambda on the simplex:   sum_t lambda_t L_t(gamma)

with L_t the value of task t's machine on `sum_k gamma_k G_tk`. For any lambda and feasible a,
`sum_t lambda_t lin_t(a_t) - max_k sum_t lambda_t Q_tk` bounds the saddle value from below; the largest primal value of
a task, at any gamma, bounds it from above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from ..engines import Each, serially
from ..grams import Grams
from ..learners import DualSolution, Learner, Machine
from ..penalties import Relation, SimplexPenalty
from .base import AnyProblem, Enough
from .evaluation import Evaluation
from .machines import solve_machines
from .units import Units


@dataclass(frozen=True)
class WorstTaskProblem(AnyProblem):
    """Gram matrices, the machine of each task on them, and a learner."""

    grams: Grams
    machines: Sequence[Machine]
    learner: Learner
    name: ClassVar[str] = "worst_task"

    @property
    def penalty(self) -> SimplexPenalty:
        """The set that the kernel weights are chosen from."""
        return SimplexPenalty(self.grams.n_components)

    def evaluate(
        self,
        B: np.ndarray,
        *,
        task_weights: np.ndarray | None = None,
        warm: Sequence[np.ndarray] | None = None,
        tol: float = 1e-3,
        each: Each = serially,
        curved: bool = False,
        enough: Enough | None = None,
    ) -> Evaluation:
        """Solve every machine at the mix in all columns of B (K, T).

        `task_weights` (T,), on the simplex, is the lambda of the lower bound: all tasks alike by default.
        """
        solved = solve_machines(self.grams, self.machines, self.learner, B, warm=warm, tol=tol, each=each)
        T = self.grams.n_components
        lam = np.full(T, 1.0 / T) if task_weights is None else task_weights / task_weights.sum()
        R = self.penalty.value(B)
        return Evaluation(
            B=B,
            duals=solved.duals,
            Q=solved.Q,
            R=R,
            loss=solved.loss,
            upper=solved.upper,
            primal=max(dual.primal for dual in solved.duals) + solved.rounding + R,
            bound=float(lam @ [dual.lin for dual in solved.duals])
            + self.penalty.bound(solved.Q * lam, B, 1.0)
            - solved.rounding,
        )

    def solve_task(
        self, gamma: np.ndarray, t: int, warm: np.ndarray | None, tol: float
    ) -> tuple[np.ndarray, DualSolution]:
        """Q_t (K,) and the machine of task t alone, on the mix gamma (K,)."""
        one = range(t, t + 1)
        B = self.penalty.expand(gamma[:, np.newaxis])
        dual = self.learner.solve(self.grams.combine(B, one)[0], self.machines[t], warm, tol)
        return self.grams.quadratic_forms([dual.a], one)[:, t], dual

    def in_standard_units(self) -> tuple[Self, Units]:
        """The problem with targets of order one, and the units that lead back."""
        units = Units.of(self.machines, self.learner, weights=False)
        machines, learner = units.machines(self.machines), units.learner(self.learner)
        return replace(self, machines=machines, learner=learner), units

    def relation(self, B: np.ndarray) -> Relation:
        """11'/T: all tasks share one mix."""
        return self.penalty.relation(B)
