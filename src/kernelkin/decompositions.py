"""Matrix decompositions that fall back to slower, more robust routines if the fast one fails.

LAPACK's divide-and-conquer routines do not converge on rare matrices (near-duplicate columns, entries close to
underflow). The functions for eigenvalues and singular values try the fast routine, then one based on QR iteration, then
the fast one on a slightly perturbed matrix. Factorisations, inverses and solutions of singular matrices are computed
from these. The whole library uses the functions of this module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
from numpy.linalg import LinAlgError
from numpy.typing import NDArray
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dgesv, dpotrf, dpotrs

Array = NDArray[np.float64]

# A perturbation of this size, relative to the largest entry, is below the rounding of the decompositions themselves.
_JITTER = 4 * np.finfo(np.float64).eps


def svd(A: Array) -> tuple[Array, Array, Array]:
    """Return the thin singular value decomposition U (m, r), s (r,), Vt (r, n) of A (m, n), r = min(m, n)."""
    return _first_that_works(A, lambda X: np.linalg.svd(X, full_matrices=False), _slow_svd)


def singular_values(A: Array) -> Array:
    """Return the singular values (r,) of A (m, n), in descending order."""
    return _first_that_works(A, lambda X: np.linalg.svd(X, compute_uv=False), lambda X: _slow_svd(X)[1])


def gram_svd(A: Array) -> tuple[Array, Array, Array]:
    """Return U (m, r), s (r,) > 0, Vt (r, n) with U diag(s) Vt = A (m, n), from the eigenvalues of A A' or A'A.

    It is several times faster than `svd`, especially if one side is much longer. But singular values are accurate only
    to about 1e-8 of the largest, and vectors of the longer side are not orthonormal for smaller singular values.
    """
    top = float(np.abs(A).max(initial=0.0))
    if top == 0.0:
        return A[:, :0], np.zeros(0), A[:0]
    A = A / top  # avoids underflow and overflow of squares
    wide = A.shape[0] <= A.shape[1]
    squares, vectors = eigh(A @ A.T if wide else A.T @ A)
    s, vectors = np.sqrt(np.maximum(squares[::-1], 0.0)), vectors[:, ::-1]
    used = s > max(A.shape) * np.finfo(np.float64).eps * s[0]
    s, vectors = s[used], vectors[:, used]
    if wide:
        return vectors, top * s, (vectors.T @ A) / s[:, np.newaxis]
    return (A @ vectors) / s, top * s, vectors.T


def eigh(S: Array) -> tuple[Array, Array]:
    """Return the eigenvalues (n,) in ascending order and eigenvectors (n, n) of a symmetric S (n, n)."""
    return _first_that_works(S, lambda X: tuple(np.linalg.eigh(X)), lambda X: scipy.linalg.eigh(X, driver="ev"))


def eigvalsh(S: Array) -> Array:
    """Return the eigenvalues (n,) of a symmetric S (n, n), in ascending order."""
    return _first_that_works(S, np.linalg.eigvalsh, lambda X: scipy.linalg.eigh(X, driver="ev")[0])


def cholesky(S: Array) -> Array:
    """Return lower triangular L with L L' = S (..., n, n); if that fails, too small eigenvalues are raised."""
    try:
        return np.asarray(np.linalg.cholesky(S), dtype=np.float64)
    except LinAlgError:
        if S.ndim > 2:
            return np.array([cholesky(one) for one in S])
        values, vectors = eigh(S)
        roots = np.sqrt(np.maximum(values, len(S) * _JITTER * np.abs(values).max()))
        R = np.linalg.qr(roots[:, np.newaxis] * vectors.T, mode="r")
        return (R * np.sign(np.diag(R))[:, np.newaxis]).T


def inverse(A: np.ndarray) -> np.ndarray:
    """Return the inverse of each matrix A (..., n, n), or its Moore-Penrose inverse if it is singular."""
    try:
        return np.linalg.inv(A)
    except LinAlgError:
        inverses = pseudo_inverse(A) if A.ndim == 2 else np.array([inverse(one) for one in A])
        return inverses.astype(A.dtype, copy=False)


def pseudo_inverse(A: Array, cutoff: float = 1e-15) -> Array:
    """Return the Moore-Penrose inverse (n, m) of A (m, n); `cutoff` is relative to the largest singular value."""
    U, s, Vt = svd(A)
    kept = s > cutoff * s[:1]
    return (Vt[kept].T / s[kept]) @ U[:, kept].T


def least_squares(A: Array, Y: Array) -> Array:
    """Return the B (n, T) of least norm that minimises |A B - Y| for A (m, n) and Y (m, T)."""
    try:
        return np.asarray(np.linalg.lstsq(A, Y, rcond=None)[0], dtype=np.float64)
    except LinAlgError:
        return pseudo_inverse(A) @ Y


def solve_symmetric(system: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return X (m, n) with X S = target, for symmetric S (n, n); by least squares if S is singular.

    It calls LAPACK directly: for small systems the checks of `numpy.linalg.solve` take longer than the solution.
    """
    solution, failed = dgesv(system.T, target.T)[2:]
    return (least_squares(system, target.T) if failed else solution).T


class Cholesky:
    """Cholesky factor of I + S, from the upper triangle of S (n, n), which is overwritten."""

    def __init__(self, upper: np.ndarray) -> None:
        np.einsum("ii->i", upper)[...] += 1.0  # a view of the diagonal, without index arrays
        self.factor, failed = dpotrf(upper.T, lower=1, clean=0, overwrite_a=1)
        if failed:
            raise LinAlgError(f"the leading minor of order {failed} is not positive definite")

    def solve(self, r: np.ndarray) -> np.ndarray:
        """Return x with (I + S) x = r (n, m)."""
        return dpotrs(self.factor, r, lower=1)[0]

    def half(self, r: np.ndarray) -> np.ndarray:
        """Return h with h'h = r' solve(r)."""
        return dtrsm(1.0, self.factor, r, lower=1)

    def second_half(self, h: np.ndarray) -> np.ndarray:
        """Return solve(r) from h = half(r)."""
        return dtrsm(1.0, self.factor, h, lower=1, trans_a=1)


class Spectral:
    """A replacement for `Cholesky` that uses the eigenvectors of S, with negative eigenvalues set to zero."""

    def __init__(self, upper: np.ndarray) -> None:
        values, self.vectors = eigh(np.triu(upper) + np.triu(upper, 1).T)
        self.roots = np.sqrt(1.0 + np.maximum(values, 0.0))[:, None]

    def solve(self, r: np.ndarray) -> np.ndarray:
        return self.vectors @ (self.half(r) / self.roots)

    def half(self, r: np.ndarray) -> np.ndarray:
        return (self.vectors.T @ r) / self.roots


def factorise(build: Callable[[], np.ndarray]) -> Cholesky | Spectral:
    """Factorise I + S for positive semi-definite S (n, n); `build` makes S, of which only the upper triangle is read.

    The eigenvalues of I + S are at least one, so a Cholesky factor exists unless the entries of S are so large that
    their rounding errors exceed one. Then `Spectral` is used.
    """
    try:
        return Cholesky(build())
    except LinAlgError:
        return Spectral(build())


def _first_that_works(A: Array, fast: Callable[[Array], Any], slow: Callable[[Array], Any]) -> Any:
    # Some routines return NaN instead of raising if entries are not finite.
    if not np.isfinite(A).all():
        raise ValueError("a matrix to decompose has entries that are not finite")
    for routine in (fast, slow):
        try:
            return routine(A)
        except LinAlgError:
            continue
    # A fixed perturbation of A below its rounding, symmetric if A is square.
    noise = np.random.default_rng(0).uniform(-1.0, 1.0, size=A.shape)
    noise = noise + noise.T if A.shape[0] == A.shape[1] else noise
    return fast(A + _JITTER * np.abs(A).max() * noise)


def _slow_svd(A: Array) -> tuple[Array, Array, Array]:
    return scipy.linalg.svd(A, full_matrices=False, lapack_driver="gesvd")
