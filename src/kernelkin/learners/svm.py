"""Support vector machine: the hinge loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .base import DualSolution, HessianFunction, Machine
from .hessian import box_hessian
from .smo import solve_box


@dataclass(frozen=True)
class SVM:
    """Hinge loss: primal ``1/2 |w|^2 + sum_i C_i max(0, 1 - y_i (f_i + c))`` with y in {-1, +1}."""

    name: ClassVar[str] = "svm"
    homogeneous: ClassVar[bool] = True

    def solve(
        self, gram: np.ndarray, machine: Machine, a0: np.ndarray | None = None, tol: float = 1e-3
    ) -> DualSolution:
        """Maximise ``y'a - 1/2 a'Ga`` over ``0 <= y_i a_i <= C_i`` with zero sums; see `Learner`."""
        bound = machine.y * machine.C
        return solve_box(gram, machine, np.minimum(bound, 0.0), np.maximum(bound, 0.0), 0.0, a0, tol)

    def loss(self, machine: Machine, f: np.ndarray) -> float:
        """Cost of values f (n, m); see `Learner`."""
        return float(np.sum(machine.C * np.maximum(0.0, 1.0 - machine.y * f)))

    def linearise(
        self, gram: np.ndarray, machine: Machine, a0: np.ndarray | None = None, tol: float = 1e-3
    ) -> tuple[DualSolution, HessianFunction]:
        """Solve and return the Hessian with respect to the kernel weights; see `box_hessian`."""
        solution = self.solve(gram, machine, a0, tol)
        return solution, box_hessian(gram, machine, solution.a)
