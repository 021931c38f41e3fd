"""Positive semi-definiteness of Gram matrices: how far rounding may hide it, and the nearest matrix that has it."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg import cholesky as cholesky_factor

from ..decompositions import eigh, smallest_eigenvalue
from .distances import mirror

# A Gram G = K + E of a kernel matrix K holds rounded values. Where each value took a few operations,
# |E_ij| <= m eps sqrt(K_ii K_jj) with a small m, hence |E|_2 <= |E|_F <= m eps tr(K) = m eps n (mean diagonal): no
# eigenvalue of G is below minus that. The trace is at most n times the largest eigenvalue, and so the tighter bound.
_ROUNDINGS = 10
# Kernels that subtract large numbers, as Gaussians of rows far from the origin do, lose more digits than that. So much
# of the mean diagonal is taken for rounding on any number of rows. What is accepted is clipped, so that being lenient
# here cannot make a certificate false.
_CANCELLATION = {np.dtype(np.float32): 1e-3, np.dtype(np.float64): 1e-6}


def eigenvalue_tolerance(G: np.ndarray) -> float:
    """How far below zero an eigenvalue of the Gram matrix G (n, n) may be from rounding alone."""
    precision = _precision(G)
    relative = max(_CANCELLATION[precision], _ROUNDINGS * len(G) * float(np.finfo(precision).eps))
    return relative * _mean_diagonal(G)


def project(name: str, G: np.ndarray) -> np.ndarray:
    """G (n, n), symmetric, if positive semi-definite; its nearest such matrix if rounding explains that it is not.

    Otherwise a ValueError that names the kernel. One Cholesky factorisation of all rows, n^3 / 3 operations and a
    float64 copy of G, decides for a matrix that is positive semi-definite to float64 rounding; eigenvalues, about
    10 n^3, are computed for others only.
    """
    if is_psd(G):
        return G
    tolerance = eigenvalue_tolerance(G)
    if not has_cholesky(G, tolerance):
        smallest = smallest_eigenvalue(G.astype(np.float64))
        if smallest < -tolerance:
            raise ValueError(
                f"kernel {name!r} is not positive semi-definite on the training rows: smallest eigenvalue "
                f"{smallest:.3g}, mean of the diagonal {float(G.diagonal().mean(dtype=np.float64)):.3g}. Use another "
                "kernel, or clip its Gram matrix with kernelkin.nearest_psd(G) and pass it with kernels='precomputed'"
            )
    return nearest_psd(G)


def nearest_psd(G: np.ndarray) -> np.ndarray:
    """The positive semi-definite matrix nearest to G, in the Frobenius norm.

    Similarities that are not a kernel (a sigmoid, edit distances, a correlation with missing values) make a Gram
    matrix with negative eigenvalues, which no fit accepts. This sets them to zero. Only training Grams need it:
    values between rows to predict and training rows are used as they are.

    Parameters
    ----------
    G : array (n, n)
        Of real numbers; its symmetric part is what is projected.

    Returns
    -------
    nearest : array (n, n)
        Symmetric, of the type of G (float64 if that is not a float). Eigenvalues that would be zero are as far above
        zero as rounding to this type can move them, so that the stored matrix is positive semi-definite.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import nearest_psd
    >>> nearest_psd(np.array([[1.0, 2.0], [2.0, 1.0]]))
    array([[1.5, 1.5],
           [1.5, 1.5]])
    """
    G = np.asarray(G)
    if G.ndim != 2 or G.shape[0] != G.shape[1]:
        raise ValueError(f"G must be a square matrix, not an array of shape {G.shape}")
    if G.dtype.kind not in "biuf" or not np.isfinite(G).all():
        raise ValueError("G must hold finite real numbers")
    dtype = G.dtype if G.dtype in _CANCELLATION else np.dtype(np.float64)
    symmetric = G.astype(np.float64)
    symmetric = (symmetric + symmetric.T) / 2
    values, vectors = eigh(symmetric)
    if values[0] >= 0:
        return symmetric.astype(dtype)
    # Rounding errors of n^2 entries that are independent have about this norm; twice the bound |E|_F is always enough.
    norm = float(np.finfo(dtype).eps) * float(np.linalg.norm(values))
    for floor in (norm / np.sqrt(len(G)), norm):
        nearest = ((vectors * np.maximum(values, floor)) @ vectors.T).astype(dtype)
        mirror(nearest)
        if is_psd(nearest):
            break
    return nearest


def is_psd(G: np.ndarray) -> bool:
    """Whether the symmetric G (n, n) has no negative eigenvalue but for the rounding of float64."""
    return has_cholesky(G, rounding_shift(len(G), _mean_diagonal(G)))


def rounding_shift(n_rows: int, mean_diagonal: float) -> float:
    """How far below zero the eigenvalues of a Gram matrix may be from the rounding of float64."""
    return _ROUNDINGS * n_rows * float(np.finfo(np.float64).eps) * max(mean_diagonal, 0.0)


def has_cholesky(G: np.ndarray, shift: float) -> bool:
    """Whether G + shift I, of the symmetric G (n, n), is positive definite, in float64."""
    shifted = G.astype(np.float64)
    shifted[np.diag_indices_from(shifted)] += shift
    try:
        cholesky_factor(shifted, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return False
    return True


def _mean_diagonal(G: np.ndarray) -> float:
    return max(float(G.diagonal().mean(dtype=np.float64)), 0.0)


def _precision(G: np.ndarray) -> np.dtype:
    """The type in which the values of G were computed: float32 numbers may have been stored as float64 since."""
    with np.errstate(over="ignore"):
        single = G.dtype.itemsize <= 4 or np.array_equal(G.astype(np.float32), G)
    return np.dtype(np.float32 if single else np.float64)
