"""Support vector regression: the epsilon-insensitive loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .base import DualSolution, HessianFunction, Machine
from .hessian import box_hessian
from .smo import solve_box


@dataclass(frozen=True)
class SVR:
    """Epsilon-insensitive loss: primal ``1/2 |w|^2 + sum_i C_i max(0, |y_i - f_i - c| - epsilon)``.

    Parameters
    ----------
    epsilon : float
        Half the width of the tube without loss, not negative.
    """

    epsilon: float = 0.1
    name: ClassVar[str] = "svr"
    homogeneous: ClassVar[bool] = True

    def solve(
        self, gram: np.ndarray, machine: Machine, a0: np.ndarray | None = None, tol: float = 1e-3
    ) -> DualSolution:
        """Maximise ``y'a - epsilon |a|_1 - 1/2 a'Ga`` over ``|a_i| <= C_i`` with zero sums; see `Learner`."""
        return solve_box(gram, machine, -machine.C, machine.C, float(self.epsilon), a0, tol)

    def loss(self, machine: Machine, f: np.ndarray) -> float:
        """Cost of values f (n, m); see `Learner`."""
        return float(np.sum(machine.C * np.maximum(0.0, np.abs(machine.y - f) - self.epsilon)))

    def linearise(
        self, gram: np.ndarray, machine: Machine, a0: np.ndarray | None = None, tol: float = 1e-3
    ) -> tuple[DualSolution, HessianFunction]:
        """Solve and return the Hessian with respect to the kernel weights; see `box_hessian`."""
        solution = self.solve(gram, machine, a0, tol)
        return solution, box_hessian(gram, machine, solution.a)
