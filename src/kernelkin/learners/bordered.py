"""The linear system of a machine with squared errors and intercepts, factorised once for solutions and Hessians.

    (G + diag(1/C)) a + Z c = r,   Z'a = 0

With a = sqrt(C) x the constraint says that x is orthogonal to sqrt(C) Z, so x solves the system projected to that
complement. Unlike elimination through the inverse of G + diag(1/C), nothing of the size of C cancels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.blas import dsyr2k

from ..decompositions import factorise, solve_symmetric


def indicators(groups: np.ndarray, n_groups: int) -> np.ndarray:
    """groups (n,) -> Z (n, n_groups), one where a row has that intercept."""
    return (groups[:, None] == np.arange(n_groups)).astype(float)


class Bordered:
    """The system of a Gram (n, n), costs C (n,) > 0 and groups Z (n, n_groups).

    A Gram with structure has a solver of its own, which is faster than a factorisation of its entries.
    """

    def __init__(self, gram: Any, cost: np.ndarray, groups: np.ndarray) -> None:
        self.root = np.sqrt(cost)[:, None]
        self.present = groups[:, groups.any(axis=0)]
        basis = self.root * self.present
        basis /= np.sqrt((basis * basis).sum(axis=0))
        self._system = _system(gram, self.root, basis)

    def solve(self, r: np.ndarray) -> np.ndarray:
        """a (n, m) for right-hand sides r (n, m)."""
        a = self.root * self._system.solve(self.root * r)
        # What rounding left of the sums is spread evenly: twice, for the last bit.
        for _ in range(2 if self.present.size else 0):
            a -= self.present @ ((self.present.T @ a) / self.present.sum(axis=0)[:, None])
        return a

    def energy(self, R: np.ndarray) -> np.ndarray:
        """R' A (K, K), for the solutions A of the right-hand sides R (n, K)."""
        return self._system.energy(self.root * R)


def _system(gram: Any, root: np.ndarray, basis: np.ndarray) -> _Structured | _Dense:
    if hasattr(gram, "solver"):
        try:
            return _Structured(gram, root, basis)
        except LinAlgError:  # it is not accurate enough for entries as large as these
            return _Dense(np.asarray(gram), root, basis)
    return _Dense(gram, root, basis)


class _Dense:
    """The system projected to the complement of `basis`, from the entries of the Gram."""

    def __init__(self, gram: np.ndarray, root: np.ndarray, basis: np.ndarray) -> None:
        self.basis = basis
        self.factor = factorise(lambda: _projected(gram, root, basis))

    def solve(self, target: np.ndarray) -> np.ndarray:
        return self.factor.solve(self._project(target))

    def energy(self, target: np.ndarray) -> np.ndarray:
        half = self.factor.half(self._project(target))
        return half.T @ half

    def _project(self, target: np.ndarray) -> np.ndarray:
        return target - self.basis @ (self.basis.T @ target) if self.basis.size else target


class _Structured:
    """The same by the Gram's own solver, the intercepts eliminated."""

    def __init__(self, gram: Any, root: np.ndarray, basis: np.ndarray) -> None:
        self.basis, self._solve = basis, gram.solver(root)
        if basis.size:
            self.border = self._solve(basis)

    def solve(self, target: np.ndarray) -> np.ndarray:
        x = self._solve(target)
        if not self.basis.size:
            return x
        return x - self.border @ solve_symmetric(self.basis.T @ self.border, x.T @ self.basis).T

    def energy(self, target: np.ndarray) -> np.ndarray:
        return target.T @ self.solve(target)


def _projected(gram: np.ndarray, root: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """`root G root'` projected to the complement of `basis`, in its upper triangle; the lower one is undefined."""
    scaled = root * gram
    scaled *= root.T
    if not basis.size:
        return scaled
    image = scaled @ basis
    image -= 0.5 * basis @ (basis.T @ image)
    # In place and in one triangle alone: passes over the matrix take nearly as long as its factorisation.
    return dsyr2k(-1.0, basis, image, beta=1.0, c=scaled.T, lower=1, overwrite_c=1).T
