"""The problems that models pose: machines plus a penalty on their kernel weights, a mixed norm, or the worst task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, Self

import numpy as np

from ..engines import Each, serially
from ..grams import Grams
from ..learners import DualSolution, Learner, Machine
from ..penalties import MixedNorm, Penalty, Relation, SimplexPenalty
from .machines import SolvedMachines, solve_machines
from .units import Evaluation, Units

# Whether an evaluation settles everything, so that its curvature need not be computed.
Enough = Callable[[Evaluation], bool]


class AnyProblem(Protocol):
    """A convex problem on kernel machines, evaluated outside any solver.

    The `primal` of an evaluation is a true upper bound on the optimum (from each machine's primal value at the solution
    found, not its dual value), its `bound` a true lower bound, however roughly the machines were solved, and both leave
    margin for rounding. So the gap of the two is honest whatever a solver does.
    """

    name: ClassVar[str]

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
        """Solve the machines at B, to relative gap `tol`, from the dual variables `warm`; bound the optimum.

        `curved` requests the curvature, where the problem has one; it is left out where all else is `enough`.
        """
        ...

    def in_standard_units(self) -> tuple[Self, Units]:
        """The problem rescaled to order one, and the units that lead back.

        Raises ValueError where strengths, costs and the spread of the targets are out of all proportion.
        """
        ...

    def relation(self, B: np.ndarray) -> Relation:
        """Relationship of the components at B."""
        ...

    def revised(self, B: np.ndarray, tol: float) -> Self:
        """The problem to solve next, at a solution B of this one; itself where its penalty is convex."""
        return self

    def kernel_relation(self) -> np.ndarray | None:
        """Relationship (K, K) of the kernels; None where it is not learned."""
        return None


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


@dataclass(frozen=True)
class MixedNormProblem(AnyProblem):
    """Gram matrices, the machines on them, a learner, and the mixed norm of their functions."""

    grams: Grams
    machines: Sequence[Machine]
    learner: Learner
    norm: MixedNorm
    name: ClassVar[str] = "mixed_norm"

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
        """Solve every machine at B = gamma/lambda (K, T); there is no curvature to request."""
        return self.judge(B, solve_machines(self.grams, self.machines, self.learner, B, warm=warm, tol=tol, each=each))

    def judge(self, B: np.ndarray, solved: SolvedMachines) -> Evaluation:
        """Bound the objective and the optimum by machines that were solved at B (K, T)."""
        return Evaluation(
            B=B,
            duals=solved.duals,
            Q=solved.Q,
            R=0.0,
            loss=solved.loss,
            upper=solved.upper,
            primal=solved.errors + self.norm.value(function_sizes(B, solved.Q)),
            bound=solved.lin - self.norm.conjugate(np.sqrt(2.0 * solved.Q)) - solved.rounding,
        )

    def bounds_at(self, gamma: np.ndarray, evaluation: Evaluation) -> tuple[float, float]:
        """Lower and upper bound on the value at gamma (K,): the best lambda for this a, and this w."""
        B, Q = evaluation.B, evaluation.Q
        quad, used = float(np.vdot(B, Q)), gamma > 0
        norms = self.norm.kernel_norms(function_sizes(B, Q))
        upper = evaluation.upper - quad + 0.5 * float((norms[used] ** 2 / gamma[used]).sum())
        return evaluation.loss + quad - float(gamma @ self.norm.dual_terms(Q)), upper

    def in_standard_units(self) -> tuple[Self, Units]:
        """The problem with targets of order one, and the units that lead back."""
        units = Units.of(self.machines, self.learner, weights=False)
        machines, learner = units.machines(self.machines), units.learner(self.learner)
        return replace(self, machines=machines, learner=learner), units

    def relation(self, B: np.ndarray) -> Relation:
        """11'/T: all tasks share one selection of kernels."""
        return Relation.identical(B.shape[1])


def function_sizes(B: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """|w_tk| (K, T) of the functions of machines at weights B (K, T)."""
    return B * np.sqrt(2.0 * Q)


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
