"""The problems of the models: machines plus a penalty on kernel weights, a norm of functions, or the worst task."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from ...decompositions import eigvalsh
from ...engines.threads import Each, serially
from ..grams.row_kernels import PivotFeatures, PooledKernel
from ..learners.machines import DualSolution, Learner, Machine
from ..penalties.norms import MixedNorm, SimplexPenalty, SpectralNorm
from ..penalties.relation import Penalty
from .machines import MachineList, SolvedMachines, Units, standard_units


@dataclass(frozen=True)
class Evaluation:
    """Machines, values and bounds at B."""

    B: np.ndarray  # (K, J) the kernel weights, or what else the problem is evaluated at
    duals: Any  # the solutions of the machines
    Q: np.ndarray  # (K, J) half the quadratic forms of the dual variables; the gradient of the machines' values is -Q
    R: float  # the penalty at B; 0 for problems whose term is one of the functions
    # loss, upper: sums of the machines' dual and primal values, bounds on sum L_m(B) from below and above.
    loss: float
    upper: float
    primal: float  # upper bound on the objective at B, hence on the optimum
    bound: float  # lower bound on the optimum
    # (J, K, K) the Hessian of each machine's value in its kernel weights, if requested and machines have one component.
    curvature: np.ndarray | None = None

    @property
    def relative_gap(self) -> float:
        """Distance of this evaluation's own bounds, relative to its primal value."""
        return relative_gap(self.primal, self.bound)


def relative_gap(primal: float, bound: float) -> float:
    """Duality gap relative to the primal value; infinite if a bound is not finite."""
    if not math.isfinite(primal) or not math.isfinite(bound):
        return math.inf
    return max(primal - bound, 0.0) / max(abs(primal), sys.float_info.min)


class AnyProblem:
    """A convex problem on kernel machines, evaluated outside any solver.

    The `primal` of an evaluation is a true upper bound on the optimum (from each machine's primal value at the solution
    found, not its dual value), its `bound` a true lower bound, even if the machines were not solved accurately. Both
    include a margin for rounding. So the gap is valid for every solver.

    Attributes
    ----------
    grams, machines, learner : the Gram matrices, the machines on them, and the loss.
    """

    name: ClassVar[str]
    grams: Any
    machines: Any
    learner: Learner

    def judge(self, B: np.ndarray, solved: SolvedMachines) -> Evaluation:
        """Return bounds on the objective and the optimum, from machines solved at B."""
        raise NotImplementedError

    def evaluate(
        self,
        B: np.ndarray,
        *,
        warm: Any = None,
        tol: float = 1e-3,
        each: Each = serially,
        curved: bool = False,
        enough: Callable[[Evaluation], bool] | None = None,
        weights: np.ndarray | None = None,
        **arguments: Any,
    ) -> Evaluation:
        """Solve the machines at B, to relative gap `tol`, from the solutions `warm`; bound the optimum.

        `curved` requests the curvature, if the problem has one; it is not computed if the bounds are already `enough`.
        Gram matrices are combined with `weights`, B by default. Other arguments are those of `judge`.
        """
        weights = B if weights is None else weights
        solved = self.machines.solve(self.grams, self.learner, weights, warm, tol, each, curved)
        evaluation = self.judge(B, solved, **arguments)
        if solved.curvature is None or (enough is not None and enough(evaluation)):
            return evaluation
        return replace(evaluation, curvature=solved.curvature())

    def in_standard_units(self) -> tuple[Self, Units]:
        """Return the problem rescaled to order one, and its units; kernel weights only where a penalty is homogeneous.

        Raises ValueError if mu, C and the standard deviation of the targets differ by too many orders of magnitude.
        """
        known: Any = self
        homogeneous = hasattr(known, "mu") and not known.penalty.is_indicator
        mu = known.mu if homogeneous else None
        machines, learner, mu, units = standard_units(self.machines, self.learner, mu, weights=homogeneous)
        further = {"mu": mu} if homogeneous else {}
        return replace(known, machines=machines, learner=learner, **further), units


# Penalties outside this range may have underflowed or overflowed in part.
_SMALL, _LARGE = 1e-250, 1e250


@dataclass(frozen=True)
class Problem(AnyProblem):
    """Machines plus a penalty of strength mu: minimise F(B) = sum of L_m(B) over machines + (mu/2) R(B), B >= 0."""

    grams: Any
    machines: Any
    learner: Learner
    penalty: Penalty
    mu: float = 1.0
    name: ClassVar[str] = "penalised"

    def judge(self, B: np.ndarray, solved: SolvedMachines) -> Evaluation:
        """Return bounds on F(B) and on the optimum, from machines solved at B (K, J)."""
        R = self.penalty.value_and_gradient(B)[0]
        # `cost` is only needed if R may have underflowed or overflowed.
        cost = 0.5 * self.mu * R if _SMALL < R < _LARGE else self.penalty.cost(B, self.mu)
        bound = solved.lin + self.penalty.bound(solved.Q, B, self.mu)
        primal, bound = solved.upper + cost, bound - solved.rounding
        return Evaluation(B, solved.duals, solved.Q, R, solved.loss, solved.upper, primal, bound)


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
    machines: Any
    learner: Learner
    norm: MixedNorm
    name: ClassVar[str] = "mixed_norm"

    def judge(self, B: np.ndarray, solved: SolvedMachines) -> Evaluation:
        """Bound the objective and the optimum by machines that were solved at B = gamma/lambda (K, T)."""
        primal = solved.upper - solved.quad + self.norm.value(B * np.sqrt(2.0 * solved.Q))
        bound = solved.lin - self.norm.conjugate(np.sqrt(2.0 * solved.Q)) - solved.rounding
        return Evaluation(B, solved.duals, solved.Q, 0.0, solved.loss, solved.upper, primal, bound)

    def bounds_at(self, gamma: np.ndarray, evaluation: Evaluation) -> tuple[float, float]:
        """Lower and upper bound on the value at gamma (K,): the best lambda for this a, and this w."""
        B, Q = evaluation.B, evaluation.Q
        quad, used = float(np.vdot(B, Q)), gamma > 0
        norms = self.norm.kernel_norms(B * np.sqrt(2.0 * Q))
        upper = evaluation.upper - quad + 0.5 * float((norms[used] ** 2 / gamma[used]).sum())
        return evaluation.loss + quad - float(gamma @ self.norm.dual_terms(Q)), upper


@dataclass(frozen=True)
class WorstTaskProblem(AnyProblem):
    """The problem of MKL-SA: one vector of kernel weights for all tasks that is best for the worst task.

        min over gamma on the simplex, max over lambda on the simplex:   sum_t lambda_t L_t(gamma)

    with L_t the value of task t's machine on `sum_k gamma_k G_tk`. For any lambda and feasible a,
    `sum_t lambda_t lin_t(a_t) - max_k sum_t lambda_t Q_tk` bounds the saddle value from below; the largest primal value
    of a task, at any gamma, bounds it from above.
    """

    grams: Any
    machines: Any
    learner: Learner
    name: ClassVar[str] = "worst_task"
    penalty: ClassVar[SimplexPenalty] = SimplexPenalty()  # the set that the kernel weights are chosen from

    def judge(self, B: np.ndarray, solved: SolvedMachines, task_weights: np.ndarray | None = None) -> Evaluation:
        """Bound the saddle value by machines that were solved at the mix in all columns of B (K, T).

        `task_weights` (T,), on the simplex, is the lambda of the lower bound: all tasks alike by default.
        """
        T, R = self.grams.n_components, self.penalty.value(B)
        lam = np.full(T, 1.0 / T) if task_weights is None else task_weights / task_weights.sum()
        lins, _, primals = solved.values
        primal = float(primals.max()) + solved.rounding + R
        bound = float(lam @ lins) + self.penalty.bound(solved.Q * lam, B, 1.0) - solved.rounding
        return Evaluation(B, solved.duals, solved.Q, R, solved.loss, solved.upper, primal, bound)

    def solve_task(
        self, gamma: np.ndarray, t: int, warm: np.ndarray | None, tol: float
    ) -> tuple[np.ndarray, DualSolution]:
        """Q_t (K,) and the machine of task t alone, on the mix gamma (K,)."""
        one, B = range(t, t + 1), np.repeat(gamma[:, np.newaxis], self.grams.n_components, axis=1)
        dual = self.learner.solve(self.grams.combine(B, one)[0], self.machines[t], warm, tol)
        return self.grams.quadratic_forms([dual.a], one)[:, t], dual


class FeatureForm:
    """Form of `SpectralProblem` over r features: A is (r, r), and every task has its own machine.

    Both forms serve as the Gram matrices of the problem and contain its machines; `unpack`, `coefficients` and
    `task_covariance` return what a fitted model needs.
    """

    def __init__(self, features: Any, rows: Sequence[np.ndarray], machines: Sequence[Machine]) -> None:
        self.features, self.machines = features, MachineList(machines)
        self.Phi = [np.ascontiguousarray(features.Phi[kept]) for kept in rows]
        self.n_kernels = self.n_components = features.Phi.shape[1]
        self.gram_bytes = [0] * len(machines)

    def combine(self, B: np.ndarray, machines: range, each: Each = serially) -> Sequence[np.ndarray]:
        grams = each(lambda t: self.Phi[t] @ B @ self.Phi[t].T, machines)
        return [0.5 * (gram + gram.T) for gram in grams]  # exactly symmetric

    def quadratic_forms(self, a: Sequence[np.ndarray], machines: range, each: Each = serially) -> np.ndarray:
        V = self._directions(a)
        return 0.5 * V @ V.T

    def _directions(self, a: Sequence[np.ndarray]) -> np.ndarray:
        """V (r, O)."""
        return np.hstack([Phi.T @ part for Phi, part in zip(self.Phi, a, strict=True)])

    def unpack(self, duals: Sequence[DualSolution]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The dual variables (n_t, m_t) and intercepts (m_t,) of each task."""
        return [dual.a for dual in duals], [dual.intercept.sum(axis=0) for dual in duals]

    def coefficients(self, duals: Sequence[DualSolution], A: np.ndarray) -> np.ndarray:
        """(n, O): every output as a sum over the pooled rows."""
        return self.features.dual(A @ self._directions([dual.a for dual in duals]))

    def task_covariance(self, duals: Sequence[DualSolution], A: np.ndarray) -> np.ndarray:
        """W'W (O, O)."""
        W = A @ self._directions([dual.a for dual in duals])
        return W.T @ W


class GramForm:
    """Form of `SpectralProblem` over outputs: A is (O, O), and all outputs are one machine with an intercept for each.

    Its rows are pairs of a row and an output, output by output.
    """

    def __init__(self, gram: np.ndarray, rows: Sequence[np.ndarray], machines: Sequence[Machine]) -> None:
        self.shapes, self.n_rows = [machine.y.shape for machine in machines], len(gram)
        widths = [m for _, m in self.shapes]
        sizes = np.repeat([len(kept) for kept in rows], widths)
        self.position = np.concatenate([np.tile(kept, m) for kept, m in zip(rows, widths, strict=True)])
        self.output = np.repeat(np.arange(len(sizes)), sizes)
        self.gram = gram[np.ix_(self.position, self.position)]
        y, C = (
            np.concatenate([part.T.ravel() for part in parts])[:, np.newaxis]
            for parts in ([machine.y for machine in machines], [machine.C for machine in machines])
        )
        n_groups = sum(machine.n_groups * m for machine, m in zip(machines, widths, strict=True))
        self.machines = MachineList([Machine(y, C, self.output, n_groups)])
        self.n_kernels = self.n_components = len(sizes)
        self.gram_bytes = [0]

    def combine(self, B: np.ndarray, machines: range, each: Each = serially) -> Sequence[np.ndarray]:
        joint = B[np.ix_(self.output, self.output)]
        joint *= self.gram
        return [joint]

    def quadratic_forms(self, a: Sequence[np.ndarray], machines: range, each: Each = serially) -> np.ndarray:
        spread = np.zeros((len(self.output), self.n_components))
        spread[np.arange(len(self.output)), self.output] = a[0][:, 0]
        S = spread.T @ (self.gram @ spread)
        return 0.25 * (S + S.T)

    def unpack(self, duals: Sequence[DualSolution]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        ends = np.cumsum([n * m for n, m in self.shapes])
        blocks = np.split(duals[0].a[:, 0], ends[:-1])
        constants = duals[0].intercept[:, 0] if len(duals[0].intercept) else np.zeros(self.n_components)
        a = [np.ascontiguousarray(block.reshape(m, n).T) for block, (n, m) in zip(blocks, self.shapes, strict=True)]
        return a, np.split(constants, np.cumsum([m for _, m in self.shapes])[:-1])

    def coefficients(self, duals: Sequence[DualSolution], A: np.ndarray) -> np.ndarray:
        spread = np.zeros((self.n_rows, self.n_components))
        spread[self.position, self.output] = duals[0].a[:, 0]
        return spread @ A

    def task_covariance(self, duals: Sequence[DualSolution], A: np.ndarray) -> np.ndarray:
        return A @ (2.0 * self.quadratic_forms([duals[0].a], range(1))) @ A


SpectralForm = FeatureForm | GramForm


def spectral_form(
    pool: PooledKernel, features: PivotFeatures | None, rows: Sequence[np.ndarray], machines: Sequence[Machine]
) -> SpectralForm:
    """Return the form over features if there are few, otherwise that over tasks. `rows` are each task's rows of X."""
    positions = [np.searchsorted(pool.rows, kept) for kept in rows]
    if features is not None:
        return FeatureForm(features, positions, machines)
    return GramForm(pool.gram(), positions, machines)


# Machines with at most this many rows are solved to this relative gap. Solvers take many steps, and errors of machines
# would add up: a row of weight two would give a different fit than the same row twice.
_FEW_ROWS, _EXACT = 200, 1e-12


@dataclass(frozen=True)
class SpectralProblem(AnyProblem):
    """The problem of MTFL and MTRL: one kernel for all tasks, and a norm of the singular values of their functions.

    With the tasks' functions as the columns of W, in the feature space of the kernel,

        minimise over W:   sum_t loss_t(w_t) + (l1/2) |W|_F^2 + (l2/2) |W|_*^2

    and |W|_*^2 is the minimum of tr(W' inv(D) W) over D >= 0, tr D <= 1, or of tr(W inv(Omega) W') over Omega >= 0,
    tr Omega <= 1. D is a covariance of features (MTFL), Omega one of tasks (MTRL); the problem is the same, and a point
    of it is D or Omega, whichever the form is written in. The machines work with the metric `A = D inv(l1 D + l2 I)`.
    With V = (sum over rows i of task t of a_i phi(x_i))_t, W = A V (or V A), and Q is half of VV' (or V'V).
    """

    grams: SpectralForm
    machines: Any
    learner: Learner
    norm: SpectralNorm
    name: ClassVar[str] = "spectral"

    def evaluate(self, B: np.ndarray, *, tol: float = 1e-3, **options: Any) -> Evaluation:
        """Solve every machine at the covariance B = D (r, r) of trace one; small machines exactly."""
        tol = _EXACT if max(len(machine.y) for machine in self.machines) <= _FEW_ROWS else tol
        return super().evaluate(B, tol=tol, weights=self.norm.metric(B), **options)

    def judge(self, B: np.ndarray, solved: SolvedMachines) -> Evaluation:
        """Bound the objective and the optimum by machines that were solved at the metric of B = D (r, r)."""
        # The norms of machines are tr(W' inv(A) W); a trace above one, even by rounding, must be penalised.
        excess = max(float(np.trace(B)) - 1.0, 0.0)
        conjugate = self.norm.conjugate(np.sqrt(np.maximum(2.0 * eigvalsh(solved.Q), 0.0)))
        primal, bound = solved.upper + excess * solved.quad, solved.lin - conjugate - solved.rounding
        return Evaluation(B, solved.duals, solved.Q, 0.0, solved.loss, solved.upper, primal, bound)
