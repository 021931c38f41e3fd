"""Array operations that differ between NumPy and torch. The library is inferred from the arrays."""

from __future__ import annotations

from functools import cached_property
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


class SparseRows:
    """Rows (b, n, s) that are zero but for the values (b, n, k) at the indices (b, n, k)."""

    def __init__(self, index: Array, value: Array, size: int) -> None:
        self.index, self.value, self.size = index, value, size

    @cached_property
    def _matrices(self) -> tuple[csr_array, Any]:
        """The rows of all blocks (b n, s), and their transpose; the same products are needed many times."""
        ends = np.arange(0, self.index.size + 1, self.index.shape[2])
        Z = csr_array((self.value.reshape(-1), self.index.reshape(-1), ends), shape=(len(ends) - 1, self.size))
        return Z, Z.T

    def times(self, M: Array) -> Array:
        """Return Z M (b, n, r) for M (s, r)."""
        if isinstance(M, np.ndarray):
            return (self._matrices[0] @ M).reshape(*self.index.shape[:2], -1)
        return sum(self.value[..., [k]] * M[self.index[..., k]] for k in range(self.index.shape[2]))

    def sums(self, V: Array) -> Array:
        """Return Z' V (s, r), summed over blocks, for V (b, n, r)."""
        if isinstance(V, np.ndarray):
            return self._matrices[1] @ V.reshape(-1, V.shape[2])
        found = V.new_zeros(self.size, V.shape[2])
        for k in range(self.index.shape[2]):
            found.index_add_(0, self.index[..., k].reshape(-1), (self.value[..., [k]] * V).reshape(-1, V.shape[2]))
        return found

    def full(self) -> Array:
        """Return the rows with their zeros (b, n, s)."""
        b, n, k = self.index.shape
        wide = zeros((b * n, self.size), self.value)
        wide[like(np.arange(b * n)[:, None], wide), self.index.reshape(-1, k)] = self.value.reshape(-1, k)
        return wide.reshape(b, n, self.size)

    def between(self, M: Array) -> Array:
        """Return Z M Z' (b, n, n) for M (s, s)."""
        if self._is_faster_dense():
            return self.times(M) @ swap(self.full())
        i, j = self.index[:, :, None, :, None], self.index[:, None, :, None, :]
        return (self.value[:, :, None, :, None] * self.value[:, None, :, None, :] * M[i, j]).sum((3, 4))

    def sums_between(self, V: Array) -> Array:
        """Return Z' V Z (s, s), summed over blocks, for V (b, n, n)."""
        if self._is_faster_dense():
            return self.sums(V @ self.full())
        i, j = self.index[:, :, None, :, None], self.index[:, None, :, None, :]
        weights = V[..., None, None] * self.value[:, :, None, :, None] * self.value[:, None, :, None, :]
        found = library(V).bincount((i * self.size + j).reshape(-1), weights.reshape(-1), minlength=self.size**2)
        return found.reshape(self.size, self.size)

    def _is_faster_dense(self) -> bool:
        """Return whether products of dense matrices (b, n, s) are faster than sums over pairs of rows and features."""
        return self.size**2 <= 64 * self.index.shape[1] * self.index.shape[2] ** 2

    def weighted_sums(self, W: Array) -> Array:
        """Return W Z (b, m, s) for weights W (b, m, n) of the rows of each block."""
        xp, (b, m), numbers = library(W), W.shape[:2], range(self.index.shape[2])
        row = like(np.arange(b * m).reshape(b, m, 1) * self.size, W)
        at = xp.concatenate([row + self.index[:, None, :, k] for k in numbers], 2)
        weights = xp.concatenate([W * self.value[:, None, :, k] for k in numbers], 2)
        return xp.bincount(at.reshape(-1), weights.reshape(-1), minlength=b * m * self.size).reshape(b, m, self.size)
