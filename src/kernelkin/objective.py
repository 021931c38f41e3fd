"""The referee: primal value, lower bound and gap of the whole problem, computed outside any solver.

    minimise over B >= 0:   F(B) = sum of L_m(B) over machines + (mu/2) R(B)

`Objective.evaluate` solves the machines at one B. Its `primal` is a true upper bound on the optimum (each machine's
primal value at the solution found, not its dual value), its `bound` a true lower bound, however roughly the machines
were solved. So the gap of the two is honest whatever a solver does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .grams import Grams
from .learners import DualSolution, Learner, Machine
from .parallel import Each, serially
from .penalties import Penalty


@dataclass(frozen=True)
class Evaluation:
    """What solving every machine at B tells.

    Attributes
    ----------
    B : (K, J) the kernel weights.
    duals : the solution of each machine.
    Q : (K, J) half the quadratic forms of the dual variables; the gradient of the machines' values is -Q.
    loss, upper : sums of the machines' dual and primal values, bounds on sum L_m(B) from below and above.
    primal : upper bound on F(B), hence on the optimum.
    bound : lower bound on the optimum of F.
    """

    B: np.ndarray
    duals: Sequence[DualSolution]
    Q: np.ndarray
    loss: float
    upper: float
    primal: float
    bound: float


@dataclass(frozen=True)
class Objective:
    """The problem: Gram matrices, the machines on them, a learner, and a penalty on the kernel weights."""

    grams: Grams
    machines: Sequence[Machine]
    learner: Learner
    penalty: Penalty
    mu: float

    def evaluate(
        self,
        B: np.ndarray,
        *,
        warm: Sequence[np.ndarray] | None = None,
        tol: float = 1e-3,
        each: Each = serially,
    ) -> Evaluation:
        """Solve every machine at B (K, J), to relative gap `tol`, from the dual variables `warm`."""
        Q = np.zeros_like(B)
        duals: list[DualSolution] = []
        for batch in self.grams.batches():
            solved = solve_batch(self.grams, self.machines, self.learner, B, batch, warm=warm, tol=tol, each=each)
            Q += self.grams.quadratic_forms([dual.a for dual in solved], batch, each)
            duals += solved
        lin = sum(dual.lin for dual in duals)
        upper = sum(dual.primal for dual in duals)
        return Evaluation(
            B=B,
            duals=duals,
            Q=Q,
            loss=lin - float(np.vdot(B, Q)),
            upper=upper,
            primal=upper + 0.5 * self.mu * self.penalty.value(B),
            bound=lin + self.penalty.bound(Q, B, self.mu),
        )


def solve_batch(
    grams: Grams,
    machines: Sequence[Machine],
    learner: Learner,
    B: np.ndarray,
    batch: range,
    *,
    warm: Sequence[np.ndarray] | None = None,
    tol: float = 1e-3,
    each: Each = serially,
) -> list[DualSolution]:
    """Solve the machines of one batch at kernel weights B (K, J)."""
    combined = grams.combine(B, batch, each)

    def solve(i: int) -> DualSolution:
        m = batch[i]
        return learner.solve(combined[i], machines[m], None if warm is None else warm[m], tol)

    return each(solve, range(len(batch)))
