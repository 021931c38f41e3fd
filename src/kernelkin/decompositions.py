"""Matrix decompositions that fall back to slower, more robust routines where the fast one does not converge.

LAPACK's divide-and-conquer routines fail on rare matrices (near-duplicate columns, entries close to underflow). Each
function here first calls the fast routine, then one based on QR iteration, and at last the fast one on a matrix moved
by its rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# A perturbation of this size, relative to the largest entry, is below the rounding of the decompositions themselves.
_JITTER = 4 * np.finfo(np.float64).eps


def svd(A: Array) -> tuple[Array, Array, Array]:
    """Thin singular value decomposition U (m, r), s (r,), Vt (r, n) of A (m, n), r = min(m, n)."""
    return _first_that_works(A, lambda X: np.linalg.svd(X, full_matrices=False), _slow_svd)


def singular_values(A: Array) -> Array:
    """Singular values (r,) of A (m, n), in falling order."""
    return _first_that_works(A, lambda X: np.linalg.svd(X, compute_uv=False), lambda X: _slow_svd(X)[1])


def eigh(S: Array) -> tuple[Array, Array]:
    """Eigenvalues (n,) in rising order and eigenvectors (n, n) of a symmetric S (n, n)."""
    return _first_that_works(S, lambda X: tuple(np.linalg.eigh(X)), _slow_eigh)


def eigvalsh(S: Array) -> Array:
    """Eigenvalues (n,) of a symmetric S (n, n), in rising order."""
    return _first_that_works(S, np.linalg.eigvalsh, lambda X: _slow_eigh(X)[0])


def pseudo_inverse(A: Array) -> Array:
    """Moore-Penrose inverse (n, m) of A (m, n)."""
    U, s, Vt = svd(A)
    kept = s > 1e-15 * s[:1]
    return (Vt[kept].T / s[kept]) @ U[:, kept].T


def solve_stack(A: Array, b: Array) -> Array:
    """Solutions (..., n) of the systems A (..., n, n) x = b (..., n); least-squares ones where A is singular."""
    try:
        solution = np.linalg.solve(A, b[..., np.newaxis])[..., 0]
        return np.asarray(solution, dtype=np.float64)
    except np.linalg.LinAlgError:
        flat, right = A.reshape(-1, *A.shape[-2:]), b.reshape(-1, b.shape[-1])
        solved = [pseudo_inverse(one) @ r for one, r in zip(flat, right, strict=True)]
        return np.array(solved).reshape(b.shape)


def _first_that_works(A: Array, fast: Callable[[Array], Any], slow: Callable[[Array], Any]) -> Any:
    # Not every routine raises where entries are not finite: some return numbers that are not.
    if not np.isfinite(A).all():
        raise ValueError("a matrix to decompose has entries that are not finite")
    for routine in (fast, slow):
        try:
            return routine(A)
        except np.linalg.LinAlgError:
            continue
    return fast(A + _jitter(A))


def _jitter(A: Array) -> Array:
    """A fixed perturbation of A within its rounding; symmetric where A is square."""
    noise = np.random.default_rng(0).uniform(-1.0, 1.0, size=A.shape)
    noise = noise + noise.T if A.shape[0] == A.shape[1] else noise
    return _JITTER * np.abs(A).max() * noise


def _slow_svd(A: Array) -> tuple[Array, Array, Array]:
    from scipy.linalg import svd as scipy_svd

    return scipy_svd(A, full_matrices=False, lapack_driver="gesvd")


def _slow_eigh(S: Array) -> tuple[Array, Array]:
    from scipy.linalg import eigh as scipy_eigh

    return scipy_eigh(S, driver="ev")
