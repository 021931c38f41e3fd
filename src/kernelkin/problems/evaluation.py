"""What solving every machine of a problem at one point returns."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..learners import DualSolution
from .machines import BlockDuals
from .panel import PanelDuals


@dataclass(frozen=True)
class Evaluation:
    """Machines, values and bounds at B.

    Attributes
    ----------
    B : (K, J) the kernel weights, or what else the problem is evaluated at.
    duals : the solution of each machine.
    Q : (K, J) half the quadratic forms of the dual variables; the gradient of the machines' values is -Q.
    R : the penalty at B; 0 for problems whose term is one of the functions.
    loss, upper : sums of the machines' dual and primal values, bounds on sum L_m(B) from below and above.
    primal : upper bound on the objective at B, hence on the optimum.
    bound : lower bound on the optimum.
    curvature : (J, K, K) the Hessian of each machine's value in its kernel weights, where it was requested and each
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

    @property
    def dual_variables(self) -> Sequence[Any]:
        """Those of each machine, to start the next evaluation from."""
        return self.duals if isinstance(self.duals, PanelDuals | BlockDuals) else [dual.a for dual in self.duals]

    @property
    def relative_gap(self) -> float:
        """Distance of this evaluation's own bounds, relative to its primal value."""
        return relative_gap(self.primal, self.bound)


def relative_gap(primal: float, bound: float) -> float:
    """Duality gap relative to the primal value; infinite where nothing is known."""
    if not math.isfinite(primal) or not math.isfinite(bound):
        return math.inf
    return max(primal - bound, 0.0) / max(abs(primal), sys.float_info.min)
