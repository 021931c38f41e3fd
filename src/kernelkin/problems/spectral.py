"""The problem of MTFL and MTRL: one kernel for all tasks, and a norm of the singular values of all tasks' functions.

With the tasks' functions as the columns of W, in the feature space of the kernel,

    minimise over W:   sum_t loss_t(w_t) + (l1/2) |W|_F^2 + (l2/2) |W|_*^2

and `|W|_*^2 = min { tr(W' inv(D) W) : D >= 0, tr D <= 1 } = min { tr(W inv(Omega) W') : Omega >= 0, tr Omega <= 1 }`.
D is a covariance of features (MTFL), Omega one of tasks (MTRL); the problem is the same, and a point of it is D or
Omega, whichever the form is written in. The machines work with the metric `A = D inv(l1 D + l2 I)`. With V = (sum over
rows i of task t of a_i phi(x_i))_t, W = A V (or V A), and Q is half of VV' (or V'V).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from ..decompositions import eigh, eigvalsh
from ..engines import Each, serially
from ..learners import Learner
from ..penalties import Relation, SpectralNorm
from .base import AnyProblem, Enough
from .evaluation import Evaluation
from .machines import solve_machines
from .spectral_forms import SpectralForm
from .units import Units

# All outputs are one machine, and solvers take many steps to the best D. What is left open of a machine would grow with
# every one of them, and a row of weight two would come out as another fit than the row twice. So machines of so many
# rows at most are solved to this relative gap.
_SMALL = 200
_EXACT = 1e-12


@dataclass(frozen=True)
class SpectralProblem(AnyProblem):
    """Machines in one of the two forms, a learner, and the spectral norm of their functions."""

    form: SpectralForm
    learner: Learner
    norm: SpectralNorm
    name: ClassVar[str] = "spectral"

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
        """Solve every machine at the covariance B = D (r, r) of trace one; there is no curvature to request."""
        tol = _EXACT if max(len(machine.y) for machine in self.form.machines) <= _SMALL else tol
        solved = solve_machines(
            self.form, self.form.machines, self.learner, self.norm.metric(B), warm=warm, tol=tol, each=each
        )
        # The machines' norms are tr(W' inv(A) W); a trace above one, be it by rounding, has to be paid for.
        excess = max(float(np.trace(B)) - 1.0, 0.0)
        conjugate = self.norm.conjugate(np.sqrt(np.maximum(2.0 * eigvalsh(solved.Q), 0.0)))
        return Evaluation(
            B=B,
            duals=solved.duals,
            Q=solved.Q,
            R=0.0,
            loss=solved.loss,
            upper=solved.upper,
            primal=solved.upper + excess * solved.quad,
            bound=solved.lin - conjugate - solved.rounding,
        )

    def metric(self, B: np.ndarray) -> np.ndarray:
        """The metric A (r, r) of the covariance B = D, which the forms' functions are made with."""
        return self.norm.metric(B)

    def in_standard_units(self) -> tuple[Self, Units]:
        """The problem with targets of order one, and the units that lead back: units of the form's own machines."""
        units = Units.of(self.form.machines, self.learner, weights=False)
        form = self.form.with_machines(units.machines(self.form.machines))
        return replace(self, form=form, learner=units.learner(self.learner)), units

    def relation(self, B: np.ndarray) -> Relation:
        """D itself."""
        values, vectors = eigh(B)
        return Relation(vectors, np.maximum(values, 0.0), 0.0)
