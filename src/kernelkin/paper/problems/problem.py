"""The problems that models pose: machines plus a penalty on their kernel weights, a mixed norm, or the worst task."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from ...engines import Each, serially
from ..learners import DualSolution, Learner, Machine
from ..penalties import MixedNorm, Penalty, Relation, SimplexPenalty
from .machines import MachineDuals, SolvedMachines, Units, as_machines


@dataclass(frozen=True)
class Evaluation:
    """Machines, values and bounds at B.

    Attributes
    ----------
    B : (K, J) the kernel weights, or what else the problem is evaluated at.
    duals : the solutions of the machines.
    Q : (K, J) half the quadratic forms of the dual variables; the gradient of the machines' values is -Q.
    R : the penalty at B; 0 for problems whose term is one of the functions.
    loss, upper : sums of the machines' dual and primal values, bounds on sum L_m(B) from below and above.
    primal : upper bound on the objective at B, hence on the optimum.
    bound : lower bound on the optimum.
    curvature : (J, K, K) the Hessian of each machine's value in its kernel weights, where it was requested and each
        machine has one component.
    """

    B: np.ndarray
    duals: Any
    Q: np.ndarray
    R: float
    loss: float
    upper: float
    primal: float
    bound: float
    curvature: np.ndarray | None = None

    @classmethod
    def of(cls, B: np.ndarray, solved: SolvedMachines, primal: float, bound: float, R: float = 0.0) -> Evaluation:
        """From machines that were solved at B, and what a problem makes of them."""
        return cls(B, solved.duals, solved.Q, R, solved.lin - solved.quad, solved.upper, primal, bound)

    @property
    def dual_variables(self) -> Any:
        """Those of the machines, to start the next evaluation from."""
        return self.duals.variables

    @property
    def relative_gap(self) -> float:
        """Distance of this evaluation's own bounds, relative to its primal value."""
        return relative_gap(self.primal, self.bound)


def relative_gap(primal: float, bound: float) -> float:
    """Duality gap relative to the primal value; infinite where nothing is known."""
    if not math.isfinite(primal) or not math.isfinite(bound):
        return math.inf
    return max(primal - bound, 0.0) / max(abs(primal), sys.float_info.min)


# Whether an evaluation settles everything, so that its curvature need not be computed.
Enough = Callable[[Evaluation], bool]


class AnyProblem:
    """A convex problem on kernel machines, evaluated outside any solver.

    The `primal` of an evaluation is a true upper bound on the optimum (from each machine's primal value at the solution
    found, not its dual value), its `bound` a true lower bound, however roughly the machines were solved, and both leave
    margin for rounding. So the gap of the two is honest whatever a solver does.

    Attributes
    ----------
    grams, machines, learner : the Gram matrices, the machines on them, and the loss.
    """

    name: ClassVar[str]
    grams: Any
    machines: Sequence[Machine]
    learner: Learner

    def judge(self, B: np.ndarray, solved: SolvedMachines) -> Evaluation:
        """Bound the objective and the optimum by machines that were solved at B."""
        raise NotImplementedError

    def relation(self, B: np.ndarray) -> Relation:
        """Relationship of the components at B."""
        raise NotImplementedError

    def evaluate(
        self,
        B: np.ndarray,
        *,
        warm: Sequence[np.ndarray] | None = None,
        tol: float = 1e-3,
        each: Each = serially,
        curved: bool = False,
        enough: Enough | None = None,
        weights: np.ndarray | None = None,
        **arguments: Any,
    ) -> Evaluation:
        """Solve the machines at B, to relative gap `tol`, from the dual variables `warm`; bound the optimum.

        `curved` requests the curvature, where the problem has one; it is left out where all else is `enough`. Gram
        matrices are combined with `weights`, B by default. Other arguments are those of `judge`.
        """
        weights = B if weights is None else weights
        solved = as_machines(self.machines).solve(self.grams, self.learner, weights, warm, tol, each, curved)
        evaluation = self.judge(B, solved, **arguments)
        if solved.curvature is None or (enough is not None and enough(evaluation)):
            return evaluation
        return replace(evaluation, curvature=solved.curvature())

    def in_standard_units(self) -> tuple[Self, Units]:
        """The problem rescaled to order one, and the units that lead back.

        Raises ValueError where strengths, costs and the spread of the targets are out of all proportion.
        """
        units = Units.of(self.machines, self.learner, weights=False)
        return self._with(machines=units.machines(self.machines), learner=units.learner(self.learner)), units

    def _with(self, **changes: Any) -> Self:
        known: Any = self
        return replace(known, **changes)


# Penalties outside this range may have underflowed or overflowed in part.
_SMALL, _LARGE = 1e-250, 1e250


@dataclass(frozen=True)
class Problem(AnyProblem):
    """Machines plus a penalty of strength mu: minimise F(B) = sum of L_m(B) over machines + (mu/2) R(B), B >= 0."""

    grams: Any
    machines: Sequence[Machine]
    learner: Learner
    penalty: Penalty
    mu: float = 1.0
    name: ClassVar[str] = "penalised"

    def judge(self, B: np.ndarray, solved: SolvedMachines) -> Evaluation:
        """Bound F(B) and the optimum by machines that were solved at B (K, J)."""
        R = self.penalty.value(B)
        # The value is known already, unless it has lost digits on the way.
        cost = 0.5 * self.mu * R if _SMALL < R < _LARGE else self.penalty.cost(B, self.mu)
        bound = solved.lin + self.penalty.bound(solved.Q, B, self.mu) - solved.rounding
        return Evaluation.of(B, solved, solved.upper + cost, bound, R)

    def rescale(self, evaluation: Evaluation, s: float) -> Evaluation:
        """The evaluation of the same functions at s B, for s >= 1: no machine is solved.

        With a homogeneous learner, dual variables a/s on Grams s G are the same functions, and stay in their box.
        """
        duals = MachineDuals(
            DualSolution(d.a / s, d.intercept, d.lin / s, d.quad / s, d.primal - d.quad + d.quad / s)
            for d in evaluation.duals
        )
        B = s * evaluation.B
        return self.judge(B, SolvedMachines.of(B, duals, evaluation.Q / s**2))

    def in_standard_units(self) -> tuple[Self, Units]:
        """The problem rescaled to order one, and the units that lead back; an indicator's weights are left alone."""
        if self.penalty.is_indicator:
            return super().in_standard_units()
        units = Units.of(self.machines, self.learner)
        machines, learner = units.machines(self.machines), units.learner(self.learner)
        return self._with(machines=machines, learner=learner, mu=units.mu(self.mu)), units

    def relation(self, B: np.ndarray) -> Relation:
        """The penalty's relationship of the components at B (K, J)."""
        return self.penalty.relation(B)


@dataclass(frozen=True)
class MixedNormProblem(AnyProblem):
    """The problem of MK-MTFL: machines plus the mixed norm of their functions.

        minimise over w:   1/2 (sum_k (sum_t |w_tk|^p)^(1/p))^2 + sum_t loss_t

    With gamma on the simplex and |lambda_k| = 1 in the norm that is dual to p/2, this is

        min over gamma, max over lambda and a:   sum_t lin_t(a_t) - sum_tk (gamma_k / lambda_tk) Q_tk

    so that a point is a matrix of kernel weights B = gamma/lambda. For fixed gamma and a the best lambda is known, and
    the kernel's term is gamma_k N_k. So `sum_t lin_t(a_t) - max_k N_k(a)` bounds the optimum from below, at any
    feasible a; the primal value at any w bounds it from above. With p = 2, lambda is one: a shared kernel, with the
    1-norm.
    """

    grams: Any
    machines: Sequence[Machine]
    learner: Learner
    norm: MixedNorm
    name: ClassVar[str] = "mixed_norm"

    def judge(self, B: np.ndarray, solved: SolvedMachines) -> Evaluation:
        """Bound the objective and the optimum by machines that were solved at B = gamma/lambda (K, T)."""
        primal = solved.upper - solved.quad + self.norm.value(function_sizes(B, solved.Q))
        bound = solved.lin - self.norm.conjugate(np.sqrt(2.0 * solved.Q)) - solved.rounding
        return Evaluation.of(B, solved, primal, bound)

    def bounds_at(self, gamma: np.ndarray, evaluation: Evaluation) -> tuple[float, float]:
        """Lower and upper bound on the value at gamma (K,): the best lambda for this a, and this w."""
        B, Q = evaluation.B, evaluation.Q
        quad, used = float(np.vdot(B, Q)), gamma > 0
        norms = self.norm.kernel_norms(function_sizes(B, Q))
        upper = evaluation.upper - quad + 0.5 * float((norms[used] ** 2 / gamma[used]).sum())
        return evaluation.loss + quad - float(gamma @ self.norm.dual_terms(Q)), upper

    def relation(self, B: np.ndarray) -> Relation:
        """11'/T: all tasks share one selection of kernels."""
        return Relation.identical(B.shape[1])


def function_sizes(B: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """|w_tk| (K, T) of the functions of machines at weights B (K, T)."""
    return B * np.sqrt(2.0 * Q)


@dataclass(frozen=True)
class WorstTaskProblem(AnyProblem):
    """The problem of MKL-SA: one kernel mix for all tasks, best for the worst of them.

        min over gamma on the simplex, max over lambda on the simplex:   sum_t lambda_t L_t(gamma)

    with L_t the value of task t's machine on `sum_k gamma_k G_tk`. For any lambda and feasible a,
    `sum_t lambda_t lin_t(a_t) - max_k sum_t lambda_t Q_tk` bounds the saddle value from below; the largest primal value
    of a task, at any gamma, bounds it from above.
    """

    grams: Any
    machines: Sequence[Machine]
    learner: Learner
    name: ClassVar[str] = "worst_task"

    @property
    def penalty(self) -> SimplexPenalty:
        """The set that the kernel weights are chosen from."""
        return SimplexPenalty(self.grams.n_components)

    def judge(self, B: np.ndarray, solved: SolvedMachines, task_weights: np.ndarray | None = None) -> Evaluation:
        """Bound the saddle value by machines that were solved at the mix in all columns of B (K, T).

        `task_weights` (T,), on the simplex, is the lambda of the lower bound: all tasks alike by default.
        """
        T, R = self.grams.n_components, self.penalty.value(B)
        lam = np.full(T, 1.0 / T) if task_weights is None else task_weights / task_weights.sum()
        lins, _, primals = solved.duals.values
        primal = float(primals.max()) + solved.rounding + R
        lin = float(lam @ lins)
        bound = lin + self.penalty.bound(solved.Q * lam, B, 1.0) - solved.rounding
        return Evaluation.of(B, solved, primal, bound, R)

    def solve_task(
        self, gamma: np.ndarray, t: int, warm: np.ndarray | None, tol: float
    ) -> tuple[np.ndarray, DualSolution]:
        """Q_t (K,) and the machine of task t alone, on the mix gamma (K,)."""
        one = range(t, t + 1)
        B = self.penalty.expand(gamma[:, np.newaxis])
        dual = self.learner.solve(self.grams.combine(B, one)[0], self.machines[t], warm, tol)
        return self.grams.quadratic_forms([dual.a], one)[:, t], dual

    def relation(self, B: np.ndarray) -> Relation:
        """11'/T: all tasks share one mix."""
        return self.penalty.relation(B)
