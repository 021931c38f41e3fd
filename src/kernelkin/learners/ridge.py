"""Kernel ridge regression: the squared loss, solved exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.blas import dsyr2k
from scipy.linalg.lapack import dpotrf, dpotrs

from .base import DualSolution, Machine


@dataclass(frozen=True)
class Ridge:
    """Squared loss: primal ``1/2 |w|^2 + sum_i C_i/2 (y_i - f_i - c)^2``."""

    name: ClassVar[str] = "ridge"

    def solve(
        self, gram: np.ndarray, machine: Machine, a0: np.ndarray | None = None, tol: float = 1e-3
    ) -> DualSolution:
        """Maximise ``y'a - sum_i a_i^2/(2 C_i) - 1/2 a'Ga`` with zero sums; see `Learner`.

        The solution is exact, so ``a0`` and ``tol`` are not used. Outputs with equal costs share one factorisation.
        """
        n, m = machine.y.shape
        a, intercept = np.zeros((n, m)), np.zeros((machine.n_groups, m))
        lin = quad = primal = 0.0
        for columns in _equal_columns(machine.C):
            cost = machine.C[:, columns[0]]
            rows = np.flatnonzero(cost > 0)
            if len(rows) == 0:
                continue
            part = gram if len(rows) == n else np.asarray(gram)[np.ix_(rows, rows)]
            y, groups = machine.y[np.ix_(rows, columns)], _indicators(machine.groups[rows], machine.n_groups)
            solution = _solve_bordered(part, y, cost[rows], groups)
            a[np.ix_(rows, columns)] = solution
            intercept[:, columns], values = _evaluate(part, y, cost[rows], groups, solution)
            lin, quad, primal = lin + values[0], quad + values[1], primal + values[2]
        return DualSolution(a, intercept, lin, quad, primal)


def _equal_columns(C: np.ndarray) -> list[np.ndarray]:
    """C (n, m) -> the columns of each distinct cost vector."""
    if np.all(C[:, :1] == C):
        return [np.arange(C.shape[1])]
    labels = np.unique(C, axis=1, return_inverse=True)[1].ravel()
    return [np.flatnonzero(labels == label) for label in range(labels.max() + 1)]


def _indicators(groups: np.ndarray, n_groups: int) -> np.ndarray:
    """groups (n,) -> Z (n, n_groups), one where a row has that intercept."""
    return (groups[:, None] == np.arange(n_groups)).astype(float)


def _solve_bordered(gram: np.ndarray, y: np.ndarray, cost: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Solve ``(G + diag(1/C)) a + Z c = y, Z'a = 0`` for a (n, m).

    With a = sqrt(C) x the sums say that x is orthogonal to sqrt(C) Z, so x solves the system projected to that
    complement. Unlike elimination through the inverse of G + diag(1/C), nothing of the size of C cancels.
    """
    root = np.sqrt(cost)[:, None]
    present = groups[:, groups.any(axis=0)]
    basis = root * present
    basis /= np.linalg.norm(basis, axis=0)
    # A Gram with structure solves faster than its entries would.
    solve = _eliminate if hasattr(gram, "solver") else _project
    a = root * solve(gram, root, root * y, basis)
    # What rounding left of the sums is spread evenly: twice, for the last bit.
    for _ in range(2 if present.size else 0):
        a -= present @ ((present.T @ a) / present.sum(axis=0)[:, None])
    return a


def _project(gram: np.ndarray, root: np.ndarray, target: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """The x orthogonal to `basis` that solves the projected system, from the entries of the Gram."""
    scaled = root * gram
    scaled *= root.T
    if basis.size:
        image = scaled @ basis
        image -= 0.5 * basis @ (basis.T @ image)
        # In place and in the upper triangle alone: passes over the matrix take nearly as long as its factorisation.
        scaled = dsyr2k(-1.0, basis, image, beta=1.0, c=scaled.T, lower=1, overwrite_c=1).T
        target -= basis @ (basis.T @ target)
    return _solve_shifted(scaled, target)


def _eliminate(gram: Any, root: np.ndarray, target: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """The same x from a structured Gram's own solver, by eliminating the intercepts."""
    solve = gram.solver(root)
    both = solve(np.hstack([target, basis]))
    x, border = both[:, : target.shape[1]], both[:, target.shape[1] :]
    return x - border @ np.linalg.solve(basis.T @ border, basis.T @ x) if basis.size else x


def _solve_shifted(scaled: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Solve ``(I + S) x = r`` for positive semi-definite S (n, n), of which the upper triangle is read, and r (n, m).

    The eigenvalues are at least one, so the Cholesky factor exists unless C is so large that the rounding of G shows;
    then the eigenvalues of S that should be zero are set to zero.
    """
    shifted = scaled.copy()
    shifted[np.diag_indices_from(shifted)] += 1.0
    factor, failed = dpotrf(shifted.T, lower=1, clean=0, overwrite_a=1)
    if not failed:
        return dpotrs(factor, target, lower=1)[0]
    values, vectors = eigh(scaled, lower=False)
    return vectors @ ((vectors.T @ target) / (1.0 + np.maximum(values, 0.0))[:, None])


def _evaluate(
    gram: np.ndarray, y: np.ndarray, cost: np.ndarray, groups: np.ndarray, a: np.ndarray
) -> tuple[np.ndarray, tuple[float, float, float]]:
    """The best intercepts (n_groups, m) at a, and (lin, quad, primal) summed over outputs."""
    f = gram @ a
    residual = y - f
    weight = groups.T @ cost
    intercept = (groups.T @ (cost[:, None] * residual)) / np.where(weight > 0, weight, 1.0)[:, None]
    residual -= groups @ intercept
    quad = 0.5 * float(np.sum(a * f))
    lin = float(np.sum(y * a) - 0.5 * np.sum(a**2 / cost[:, None]))
    return intercept, (lin, quad, quad + 0.5 * float(np.sum(cost[:, None] * residual**2)))
