"""Array operations that differ between NumPy and torch. The library is inferred from the arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from scipy.linalg import lapack
from scipy.sparse import csr_array

from ..decompositions import cholesky as robust_cholesky

# NumPy arrays in main memory, or torch tensors on a device.
Array = Any


def library(x: Array) -> Any:
    """Return the module, NumPy or torch, that an array belongs to."""
    if isinstance(x, np.ndarray):
        return np
    import torch

    return torch


def like(values: Array, x: Array) -> Array:
    """Convert values to the library and device of an array x."""
    if isinstance(x, np.ndarray) or not isinstance(values, np.ndarray):
        return values
    import torch

    return torch.as_tensor(np.ascontiguousarray(values), device=x.device)


def on_device(values: np.ndarray | None, device: str | None) -> Array:
    """Return values as a tensor on a torch device; without a device, return them unchanged."""
    if device is None or values is None:
        return values
    import torch

    return torch.as_tensor(np.ascontiguousarray(values), device=device)


def to_numpy(values: Array) -> Array:
    """Convert a tensor to a NumPy array; return other values unchanged."""
    return values.cpu().numpy() if hasattr(values, "cpu") else values


def to_float(condition: Array) -> Array:
    """Return 1.0 where a condition holds, else 0.0."""
    return library(condition).asarray(condition, dtype=library(condition).float64)


def zeros(shape: tuple[int, ...], x: Array) -> Array:
    """Return zeros in the library and on the device of an array x."""
    return np.zeros(shape) if isinstance(x, np.ndarray) else x.new_zeros(shape, dtype=library(x).float64)


def swap(x: Array) -> Array:
    """Return the transposes (..., m, n) of matrices (..., n, m)."""
    return x.swapaxes(-1, -2)


def diagonals(x: Array) -> Array:
    """Return a writable view of the diagonals (..., n) of matrices (..., n, n)."""
    return np.einsum("...ii->...i", x) if isinstance(x, np.ndarray) else x.diagonal(dim1=-2, dim2=-1)


def cholesky(S: Array) -> Array:
    """Return the lower factor (n, n) of a positive definite matrix."""
    if isinstance(S, np.ndarray):
        return robust_cholesky(S)
    import torch

    L, info = torch.linalg.cholesky_ex(S)
    return like(robust_cholesky(to_numpy(S)), S) if int(info) else L


def solve_lower(L: Array, B: Array, transposed: bool = False) -> Array:
    """Return inv(L) B, or inv(L') B, of a lower triangular L (n, n)."""
    if isinstance(L, np.ndarray):
        return scipy.linalg.solve_triangular(L, B, lower=True, trans="T" if transposed else "N", check_finite=False)
    return library(L).linalg.solve_triangular(L.T if transposed else L, B, upper=transposed)


def invert(V: Array) -> tuple[Array, float]:
    """Return the inverses of positive definite matrices (b, n, n), and the sum of their log determinants."""
    if V.shape[1] == 1:
        return 1.0 / V, float(library(V).log(V).sum())
    if not isinstance(V, np.ndarray):
        import torch

        L, info = torch.linalg.cholesky_ex(V)
        if int(info.max()):
            raise np.linalg.LinAlgError("a covariance matrix is not positive definite")
        return torch.cholesky_inverse(L), 2.0 * float(diagonals(L).log().sum())
    if V.shape[1] < 40:
        L = np.linalg.cholesky(V)
        return np.linalg.inv(V), 2.0 * float(np.log(diagonals(L)).sum())
    found, log_det = np.empty_like(V), 0.0
    for i in range(len(V)):
        # V is symmetric, so its transpose, which LAPACK takes without a copy, equals V.
        L, info = lapack.dpotrf(V[i].T, lower=1, clean=1, overwrite_a=0)
        if info:
            raise np.linalg.LinAlgError("a covariance matrix is not positive definite")
        log_det += 2.0 * float(np.log(np.diag(L)).sum())
        # The upper triangle is zero.
        lower = lapack.dpotri(L, lower=1, overwrite_c=1)[0]
        np.add(lower, lower.T, out=found[i])
        diagonals(found[i])[...] *= 0.5
    return found, log_det


def sparse_times(index: Array, value: Array, M: Array) -> Array:
    """Return Z M (b, n, r) for M (s, r). Rows of Z (b, n, s) have the values (b, n, k) at the indices (b, n, k)."""
    if not isinstance(M, np.ndarray):
        return sum(value[..., [k]] * M[index[..., k]] for k in range(index.shape[2]))
    return (_sparse(index, value, len(M)) @ M).reshape(*index.shape[:2], -1)


def sparse_sums(index: Array, value: Array, V: Array, size: int) -> Array:
    """Return Z' V (size, r), summed over blocks, for V (b, n, r), with Z as in `sparse_times`."""
    if isinstance(V, np.ndarray):
        return _sparse(index, value, size).T @ V.reshape(-1, V.shape[2])
    found = V.new_zeros(size, V.shape[2])
    for k in range(index.shape[2]):
        found.index_add_(0, index[..., k].reshape(-1), (value[..., [k]] * V).reshape(-1, V.shape[2]))
    return found


def _sparse(index: np.ndarray, value: np.ndarray, size: int) -> csr_array:
    ends = np.arange(0, index.size + 1, index.shape[2])
    return csr_array((value.reshape(-1), index.reshape(-1), ends), shape=(len(ends) - 1, size))
