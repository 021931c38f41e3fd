"""The referee: primal value, lower bound and gap of the whole problem, computed outside any solver.

    minimise over B >= 0:   F(B) = sum of L_m(B) over machines + (mu/2) R(B)

`Objective.evaluate` solves the machines at one B. Its `primal` is a true upper bound on the optimum (each machine's
primal value at the solution found, not its dual value), its `bound` a true lower bound, however roughly the machines
were solved, and both leave room for rounding. So the gap of the two is honest whatever a solver does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from .grams import Grams, SeparateGrams
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
    R : the penalty at B.
    loss, upper : sums of the machines' dual and primal values, bounds on sum L_m(B) from below and above.
    primal : upper bound on F(B), hence on the optimum.
    bound : lower bound on the optimum of F.
    curvature : (J, K, K) the Hessian of each machine's value in its kernel weights, where it was asked for and each
        machine has one component.
    """

    B: np.ndarray
    duals: Sequence[DualSolution]
    Q: np.ndarray
    R: float
    loss: float
    upper: float
    primal: float
    bound: float
    curvature: np.ndarray | None = None


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
        curved: bool = False,
        enough: Callable[[Evaluation], bool] | None = None,
    ) -> Evaluation:
        """Solve every machine at B (K, J), to relative gap `tol`, from the dual variables `warm`.

        `curved` asks for the curvature, unless all else is `enough`.
        """
        Q = np.zeros_like(B)
        duals: list[DualSolution] = []
        bends: list[np.ndarray] = []
        bend = None
        for batch in self.grams.batches():
            if bend is not None:
                # Now, as the next batch may write over the Grams of this one; and they are to be let go.
                bends, bend = bends + bend(), None
            if curved and self._separate is not None:
                solved, part, bend = self._linearise(self._separate, B, batch, warm, tol, each)
            else:
                solved = solve_batch(self.grams, self.machines, self.learner, B, batch, warm=warm, tol=tol, each=each)
                part = self.grams.quadratic_forms([dual.a for dual in solved], batch, each)
            Q += part
            duals += solved
        evaluation = self._judge(B, duals, Q)
        if bend is None or (enough is not None and enough(evaluation)):
            return evaluation
        return replace(evaluation, curvature=np.array([*bends, *bend()]))

    def rescale(self, evaluation: Evaluation, s: float) -> Evaluation:
        """What the functions of an evaluation are worth at s B, for s >= 1: no machine is solved.

        With a homogeneous learner, dual variables a/s on Grams s G are the same functions, and stay in their box.
        """
        duals = [
            DualSolution(
                a=dual.a / s,
                intercept=dual.intercept,
                lin=dual.lin / s,
                quad=dual.quad / s,
                primal=dual.primal - dual.quad + dual.quad / s,
            )
            for dual in evaluation.duals
        ]
        return self._judge(s * evaluation.B, duals, evaluation.Q / s**2)

    def _judge(self, B: np.ndarray, duals: Sequence[DualSolution], Q: np.ndarray) -> Evaluation:
        lin, quad = sum(dual.lin for dual in duals), float(np.vdot(B, Q))
        # The same number twice, added up in two ways: what they differ by is the rounding of both bounds.
        rounding = abs(sum(dual.quad for dual in duals) - quad)
        upper = sum(dual.primal for dual in duals) + rounding
        R = self.penalty.value(B)
        return Evaluation(
            B=B,
            duals=duals,
            Q=Q,
            R=R,
            loss=lin - quad,
            upper=upper,
            primal=upper + 0.5 * self.mu * R,
            bound=lin + self.penalty.bound(Q, B, self.mu) - rounding,
        )

    @cached_property
    def _separate(self) -> SeparateGrams | None:
        """The Grams, where each machine has one component; asked once, as a protocol is slow to answer."""
        return self.grams if isinstance(self.grams, SeparateGrams) else None

    def _linearise(
        self,
        grams: SeparateGrams,
        B: np.ndarray,
        batch: range,
        warm: Sequence[np.ndarray] | None,
        tol: float,
        each: Each,
    ) -> tuple[list[DualSolution], np.ndarray, Callable[[], list[np.ndarray]]]:
        """The solutions of one batch, their Q (K, J), and what computes the Hessian (K, K) of each machine."""
        solved = _run_batch(grams, self.machines, self.learner.linearise, B, batch, warm, tol, each)
        duals = [dual for dual, _ in solved]
        Q, images = grams.images([dual.a for dual in duals], batch, each)
        return duals, Q, lambda: each(lambda i: solved[i][1](images[i]), range(len(batch)))


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
    return _run_batch(grams, machines, learner.solve, B, batch, warm, tol, each)


def _run_batch(
    grams: Grams,
    machines: Sequence[Machine],
    learn: Callable[..., Any],
    B: np.ndarray,
    batch: range,
    warm: Sequence[np.ndarray] | None,
    tol: float,
    each: Each,
) -> list[Any]:
    combined = grams.combine(B, batch, each)

    def one(i: int) -> Any:
        m = batch[i]
        return learn(combined[i], machines[m], None if warm is None else warm[m], tol)

    return each(one, range(len(batch)))
