"""Support vector regression: the epsilon-insensitive loss."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from .base import Curvature, DualSolution, Machine


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
        from .smo import solve_box

        return solve_box(gram, machine, -machine.C, machine.C, float(self.epsilon), a0, tol)

    def linearise(
        self, gram: np.ndarray, machine: Machine, a0: np.ndarray | None = None, tol: float = 1e-3
    ) -> tuple[DualSolution, Curvature]:
        """Solve, and bend where a is inside its box; see `free_curvature`."""
        from .free import free_curvature

        solution = self.solve(gram, machine, a0, tol)
        return solution, partial(free_curvature, gram, machine, solution.a)
