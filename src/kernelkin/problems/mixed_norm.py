"""The problem of MK-MTFL.

    minimise over w:   1/2 (sum_k (sum_t |w_tk|^p)^(1/p))^2 + sum_t loss_t

With gamma on the simplex and |lambda_k| = 1 in the norm that is dual to p/2, this is

    min over gamma, max over lambda and a:   sum_t lin_t(a_t) - sum_tk (gamma_k / lambda_tk) Q_tk

so that a point is a matrix of kernel weights B = gamma/lambda. For fixed gamma and a the best lambda is known, and the
kernel's term is gamma_k N_k. So `sum_t lin_t(a_t) - max_k N_k(a)` bounds the optimum from below, at any feasible a; the
primal value at any w bounds it from above. With p = 2, lambda is one: a shared kernel, with the 1-norm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from ..engines import Each, serially
from ..grams import Grams
from ..learners import Learner, Machine
from ..penalties import MixedNorm, Relation
from .base import AnyProblem, Enough
from .evaluation import Evaluation
from .machines import SolvedMachines, solve_machines
from .units import Units


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
