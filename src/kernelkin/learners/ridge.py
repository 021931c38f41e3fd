"""Kernel ridge regression: the squared loss, solved exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from .base import DualSolution, HessianFunction, Machine
from .bordered import Bordered, Groups


@dataclass(frozen=True)
class Ridge:
    """Squared loss: primal ``1/2 |w|^2 + sum_i C_i/2 (y_i - f_i - c)^2``."""

    name: ClassVar[str] = "ridge"
    homogeneous: ClassVar[bool] = False

    def solve(
        self, gram: np.ndarray, machine: Machine, a0: np.ndarray | None = None, tol: float = 1e-3
    ) -> DualSolution:
        """Maximise ``y'a - sum_i a_i^2/(2 C_i) - 1/2 a'Ga`` with zero sums; see `Learner`.

        The solution is exact, so ``a0`` and ``tol`` are not used. Outputs with equal costs share one factorisation.
        """
        return self.linearise(gram, machine, a0, tol)[0]

    def loss(self, machine: Machine, f: np.ndarray) -> float:
        """Cost of values f (n, m); see `Learner`."""
        return 0.5 * float(np.sum(machine.C * np.square(machine.y - f)))

    def linearise(
        self, gram: np.ndarray, machine: Machine, a0: np.ndarray | None = None, tol: float = 1e-3
    ) -> tuple[DualSolution, HessianFunction]:
        """Solve and return the Hessian with respect to the kernel weights, which uses the same factorisations."""
        n, m = machine.y.shape
        a, intercept = np.zeros((n, m)), np.zeros((machine.n_groups, m))
        lin = quad = primal = 0.0
        systems: list[tuple[Bordered, np.ndarray, np.ndarray]] = []
        for columns in _equal_columns(machine.C):
            cost = machine.C[:, columns[0]]
            rows = np.flatnonzero(cost > 0)
            if len(rows) == 0:
                continue
            part = gram if len(rows) == n else _take(gram, rows)
            y, groups = machine.y[np.ix_(rows, columns)], Groups(machine.groups[rows], machine.n_groups)
            system = Bordered(part, cost[rows], groups)
            systems.append((system, rows, columns))
            solution = system.solve(y)
            a[np.ix_(rows, columns)] = solution
            intercept[:, columns], values = _evaluate(part, y, cost[rows], groups, solution)
            lin, quad, primal = lin + values[0], quad + values[1], primal + values[2]
        return DualSolution(a, intercept, lin, quad, primal), partial(_hessian, systems)


def _take(gram: Any, rows: np.ndarray) -> Any:
    """The Gram of some rows, with its structure if it has one."""
    return gram.take(rows) if hasattr(gram, "solver") else gram[np.ix_(rows, rows)]


def _hessian(systems: Sequence[tuple[Bordered, np.ndarray, np.ndarray]], images: np.ndarray) -> np.ndarray:
    """The sum over outputs of V'PV, where P maps a change of the right-hand side to the change of a."""
    H = np.zeros((len(images), len(images)))
    for system, rows, columns in systems:
        for column in columns:
            H += system.energy(images[:, rows, column].T)
    return H


def _equal_columns(C: np.ndarray) -> list[np.ndarray]:
    """C (n, m) -> the columns of each distinct cost vector."""
    if np.all(C[:, :1] == C):
        return [np.arange(C.shape[1])]
    labels = np.unique(C, axis=1, return_inverse=True)[1].ravel()
    return [np.flatnonzero(labels == label) for label in range(labels.max() + 1)]


def _evaluate(
    gram: np.ndarray, y: np.ndarray, cost: np.ndarray, groups: Groups, a: np.ndarray
) -> tuple[np.ndarray, tuple[float, float, float]]:
    """The best intercepts (n_groups, m) at a, and (lin, quad, primal) summed over outputs."""
    f = gram @ a
    residual = y - f
    weight = groups.sums(cost[:, None])
    intercept = groups.sums(cost[:, None] * residual) / np.where(weight > 0, weight, 1.0)
    residual -= groups.spread(intercept)
    quad = 0.5 * float(np.sum(a * f))
    lin = float(np.sum(y * a) - 0.5 * np.sum(a**2 / cost[:, None]))
    return intercept, (lin, quad, quad + 0.5 * float(np.sum(cost[:, None] * residual**2)))
