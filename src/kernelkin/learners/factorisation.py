"""Factorisations of symmetric systems that fall back to a slower, more robust one where the fast one fails."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import LinAlgError, eigh
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dgesv, dpotrf, dpotrs


class Cholesky:
    """The factor of I + S, from its upper triangle (n, n), in the memory of it."""

    def __init__(self, upper: np.ndarray) -> None:
        np.einsum("ii->i", upper)[...] += 1.0  # a view of the diagonal, without index arrays
        self.factor, failed = dpotrf(upper.T, lower=1, clean=0, overwrite_a=1)
        if failed:
            raise LinAlgError(f"the leading minor of order {failed} is not positive definite")

    def solve(self, r: np.ndarray) -> np.ndarray:
        """r (n, m) -> x with (I + S) x = r."""
        return dpotrs(self.factor, r, lower=1)[0]

    def half(self, r: np.ndarray) -> np.ndarray:
        """h with h'h = r' solve(r)."""
        return dtrsm(1.0, self.factor, r, lower=1)


class Spectral:
    """The eigenvectors of I + S, from the upper triangle of S (n, n), its negative eigenvalues set to zero."""

    def __init__(self, upper: np.ndarray) -> None:
        values, self.vectors = _eigh(upper)
        self.roots = np.sqrt(1.0 + np.maximum(values, 0.0))[:, None]

    def solve(self, r: np.ndarray) -> np.ndarray:
        """r (n, m) -> x with (I + S) x = r."""
        return self.vectors @ (self.half(r) / self.roots)

    def half(self, r: np.ndarray) -> np.ndarray:
        """h with h'h = r' solve(r)."""
        return (self.vectors.T @ r) / self.roots


def factorise(build: Callable[[], np.ndarray]) -> Cholesky | Spectral:
    """I + S for positive semi-definite S (n, n); `build` makes S, of which only the upper triangle is read.

    The eigenvalues of I + S are at least one, so a Cholesky factor exists unless the entries of S are so large that
    their rounding exceeds one. Then eigenvalues of S that should be zero have to be set to zero.
    """
    try:
        return Cholesky(build())
    except LinAlgError:
        return Spectral(build())


def _eigh(upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and eigenvectors; by QR iterations where the faster method does not converge."""
    try:
        return eigh(upper, lower=False)
    except LinAlgError:
        return eigh(upper, lower=False, driver="ev")


def solve_symmetric(system: np.ndarray, target: np.ndarray) -> np.ndarray:
    """X (m, n) with X S = target, for symmetric S (n, n); by least squares where S is singular.

    LAPACK is called directly: for small systems the checks of `numpy.linalg.solve` take longer than the solution.
    """
    solution, failed = dgesv(system.T, target.T)[2:]
    return (np.linalg.lstsq(system, target.T, rcond=None)[0] if failed else solution).T
