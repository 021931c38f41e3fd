"""Machines plus a penalty on their kernel weights.

minimise over B >= 0:   F(B) = sum of L_m(B) over machines + (mu/2) R(B)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from ..engines import Each, serially
from ..grams import Grams
from ..learners import DualSolution, Learner, Machine
from ..penalties import Penalty, Relation
from .base import AnyProblem, Enough
from .evaluation import Evaluation
from .machines import SolvedMachines, solve_machines
from .units import Units

# Penalties outside this range may have underflowed or overflowed in part.
_SMALL, _LARGE = 1e-250, 1e250


@dataclass(frozen=True)
class Problem(AnyProblem):
    """Gram matrices, the machines on them, a learner, and a penalty of strength mu on the kernel weights."""

    grams: Grams
    machines: Sequence[Machine]
    learner: Learner
    penalty: Penalty
    mu: float = 1.0
    name: ClassVar[str] = "penalised"

    def evaluate(
        self,
        B: np.ndarray,
        *,
        warm: Sequence[np.ndarray] | None = None,
        tol: float = 1e-3,
        each: Each = serially,
        curved: bool = False,
        enough: Enough | None = None,
    ) -> Evaluation:
        """Solve every machine at B (K, J), to relative gap `tol`, from the dual variables `warm`.

        `curved` requests the curvature, which is left out where all else is `enough`.
        """
        solved = solve_machines(
            self.grams, self.machines, self.learner, B, warm=warm, tol=tol, each=each, curved=curved
        )
        evaluation = self.judge(B, solved)
        if solved.curvature is None or (enough is not None and enough(evaluation)):
            return evaluation
        return replace(evaluation, curvature=solved.curvature())

    def rescale(self, evaluation: Evaluation, s: float) -> Evaluation:
        """The evaluation of the same functions at s B, for s >= 1: no machine is solved.

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
        B = s * evaluation.B
        return self.judge(B, SolvedMachines.of(B, duals, evaluation.Q / s**2))

    def in_standard_units(self) -> tuple[Self, Units]:
        """The problem rescaled to order one, and the units that lead back; an indicator's weights are left alone."""
        free = not self.penalty.is_indicator
        units = Units.of(self.machines, self.learner, weights=free)
        machines, learner = units.machines(self.machines), units.learner(self.learner)
        return replace(self, machines=machines, learner=learner, mu=units.mu(self.mu) if free else self.mu), units

    def relation(self, B: np.ndarray) -> Relation:
        """The penalty's relationship of the components at B (K, J)."""
        return self.penalty.relation(B)

    def revised(self, B: np.ndarray, tol: float) -> Self:
        """The problem with the penalty's next upper bound, made at B (K, J)."""
        penalty = self.penalty.revised(B, tol)
        return self if penalty is self.penalty else replace(self, penalty=penalty)

    def kernel_relation(self) -> np.ndarray | None:
        """The penalty's relationship (K, K) of the kernels; None where it is not learned."""
        return self.penalty.kernel_relation(self.grams.n_kernels)

    def judge(self, B: np.ndarray, solved: SolvedMachines) -> Evaluation:
        """Bound the objective and the optimum by machines that were solved at B (K, J)."""
        R = self.penalty.value(B)
        # The value is known already, unless it has lost digits on the way.
        cost = 0.5 * self.mu * R if _SMALL < R < _LARGE else self.penalty.cost(B, self.mu)
        return Evaluation(
            B=B,
            duals=solved.duals,
            Q=solved.Q,
            R=R,
            loss=solved.loss,
            upper=solved.upper,
            primal=solved.upper + cost,
            bound=solved.lin + self.penalty.bound(solved.Q, B, self.mu) - solved.rounding,
        )
