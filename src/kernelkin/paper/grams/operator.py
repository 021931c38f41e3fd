"""Gram matrices of wide data as an operator: applied to the dual variables of many tasks, never combined.

For all tasks at once `G(b_t) v_t = sum_k b_kt G_k v_t` is one product with each kernel's matrix, whatever the weights.
Arrays are those of NumPy in main memory, or tensors on a device of torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from ...decompositions import eigh, inverse

Result = TypeVar("Result")

# Number of columns per block in NumPy: enough for fast products, few enough to stay in cache.
PANEL_COLUMNS = 128
# Maximum number of entries of a preconditioner that has a matrix over tasks for each row.
LARGEST_INVERSES = 1 << 26
# Steps of subspace iteration for leading eigenvectors; a preconditioner does not need more.
SUBSPACE_STEPS = 3
# With at least MANY_ROWS rows, the basis has only LEADING eigenvectors: all would take longer than the solution.
MANY_ROWS, LEADING = 4000, 150


def column_bytes(n_rows: int, n_kernels: int) -> int:
    """Return the bytes of work arrays per column."""
    return 8 * n_rows * (3 * n_kernels + 16)


class Arrays:
    """Arrays of NumPy in main memory (`device` None), or tensors on a torch device.

    `xp` is the module of functions that have the same name in both libraries. `out_of_memory` are the errors after
    which smaller blocks may help.
    """

    def __init__(self, device: str | None = None) -> None:
        self.device, self.in_main_memory = device, device is None

    @property
    def xp(self) -> Any:
        if self.in_main_memory:
            return np
        import torch

        return torch

    @property
    def out_of_memory(self) -> tuple[type[BaseException], ...]:
        return () if self.in_main_memory else (self.xp.OutOfMemoryError,)

    def release(self) -> None:
        """Free cached memory."""
        if not self.in_main_memory:
            self.xp.cuda.empty_cache()

    def array(self, values: np.ndarray) -> Any:
        """Convert a NumPy array, in the same precision."""
        if self.in_main_memory:
            return values
        # Reordering axes on the device is fast compared with the copy.
        if not values.flags.writeable or min(values.strides, default=0) < 0:
            values = np.array(values, order="C")
        return self.xp.as_tensor(values).to(self.device).contiguous()

    def numpy(self, values: Any) -> np.ndarray:
        """Convert to a NumPy array in double precision."""
        return np.asarray(values if self.in_main_memory else values.double().cpu().numpy(), dtype=np.float64)

    def is_single(self, values: Any) -> bool:
        return bool(values.dtype == self.xp.float32)

    def cast(self, values: Any, single: bool) -> Any:
        """Convert to single or double precision, without a copy if possible."""
        dtype = self.xp.float32 if single else self.xp.float64
        return values.astype(dtype, copy=False) if self.in_main_memory else values.to(dtype)

    def contiguous(self, values: Any) -> Any:
        return np.ascontiguousarray(values) if self.in_main_memory else values.contiguous()

    def inverses(self, S: Any) -> Any:
        """The inverse of each of the matrices S (n, T, T)."""
        if self.in_main_memory:
            return inverse(S)
        try:
            return self.xp.linalg.inv(S)
        except self.xp.linalg.LinAlgError:
            return self.xp.linalg.pinv(S)

    def eigh(self, S: Any) -> tuple[Any, Any]:
        """Eigenvalues (n,) in rising order and eigenvectors (n, n), in columns, of a symmetric S (n, n)."""
        if self.in_main_memory:
            return eigh(S)
        try:
            return tuple(self.xp.linalg.eigh(S))
        except self.xp.linalg.LinAlgError:
            values, vectors = eigh(self.numpy(S))
            return self.array(values), self.array(vectors)

    def leading_eigenvectors(self, S: Any, count: int) -> Any:
        """Return approximate leading eigenvectors (n, count) of a positive semi-definite S (n, n)."""
        start = np.random.default_rng(0).normal(size=(len(S), count))
        V = self.cast(self.array(start), self.is_single(S))
        for _ in range(SUBSPACE_STEPS):
            V = self.xp.linalg.qr(S @ V)[0]
        return V @ self.eigh(V.T @ (S @ V))[1]

    @contextmanager
    def rough_products(self) -> Iterator[None]:
        """Context in which products in single precision may use TF32, which is faster."""
        if self.in_main_memory:
            yield
            return
        products = self.xp.backends.cuda.matmul
        before, products.allow_tf32 = products.allow_tf32, True
        try:
            yield
        finally:
            products.allow_tf32 = before

    def columns(self, n_rows: int, n_kernels: int) -> int:
        """Return the number of columns per block."""
        if self.device is None or not self.device.startswith("cuda"):
            return PANEL_COLUMNS
        cuda = self.xp.cuda
        free = cuda.mem_get_info(self.device)[0] + cuda.memory_reserved(self.device)
        return max(1, int(0.6 * (free - cuda.memory_allocated(self.device))) // column_bytes(n_rows, n_kernels))


def arrays_on(device: str | None) -> Arrays:
    """Return the arrays of a device (None: main memory); raise if torch cannot use the device."""
    try:
        arrays = Arrays(device)
        version = arrays.xp.__version__
    except ImportError:
        raise ImportError(f'device={device!r} needs torch: pip install "kernelkin[torch]"') from None
    try:
        arrays.array(np.zeros(1))
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"device={device!r} cannot be used by torch {version}: {reason}") from None
    return arrays


def in_blocks(
    arrays: Arrays,
    count: int,
    size: int,
    work: Callable[[slice], Result],
    each: Any = map,
    release: Callable[[], object] = tuple,
) -> list[Result]:
    """Apply `work` to blocks of `size` out of `count` columns; use smaller blocks if memory is short.

    `release` frees memory of the caller before a retry.
    """
    while True:
        try:
            return list(each(work, [slice(first, min(first + size, count)) for first in range(0, count, size)]))
        except arrays.out_of_memory:
            if size == 1:
                raise
            size = -(-min(size, count) // 2)
            release()
            arrays.release()


class SharedOperator:
    """The Gram matrices (K, n, n) of kernels on the rows that all tasks share, in single or double precision."""

    def __init__(self, arrays: Arrays, values: Any) -> None:
        self.arrays, self.values = arrays, values
        self.n_kernels, self.n_rows = int(values.shape[0]), int(values.shape[1])

    def apply(self, b: Any, V: Any) -> Any:
        """b (K, o), V (n, o) -> (n, o): G(b_t) v_t for each column, in the precision of V."""
        single = self.arrays.is_single(V)
        out = self.matrix(0, single) @ (V * b[0])
        for k in range(1, self.n_kernels):
            out += self.matrix(k, single) @ (V * b[k])
        return out

    def images(self, V: Any) -> Any:
        """V (n, o) -> (K, n, o): G_k v for each kernel and column, in the precision of V."""
        single = self.arrays.is_single(V)
        return self.arrays.xp.stack([self.matrix(k, single) @ V for k in range(self.n_kernels)])

    def entries(self, rows: np.ndarray, columns: np.ndarray) -> Any:
        """Positions (q,) and (n,) -> (K, q, n): the values there, contiguous."""
        rows, columns = self.arrays.array(rows), self.arrays.array(columns)
        return self.arrays.xp.stack([values[rows][:, columns] for values in self.values])

    def take(self, rows: np.ndarray) -> SharedOperator:
        return SharedOperator(self.arrays, self.entries(rows, rows))

    def matrix(self, k: int, single: bool = False) -> Any:
        """(n, n) the matrix of one kernel, in double or single precision."""
        return self._rough[k] if single else self.arrays.cast(self.values[k], single=False)

    @cached_property
    def _rough(self) -> Any:
        return self.arrays.cast(self.values, single=True)

    @cached_property
    def basis(self) -> tuple[Any, Any]:
        """A basis in which all matrices are nearly diagonal, and their diagonals there, in single precision.

        Vectors (n, r): all eigenvectors of the mean of the matrices, or the leading ones. Spectra (K, r); where r < n
        (K, r + 1), the last the mean over all other directions.
        """
        arrays, n = self.arrays, self.n_rows
        is_complete = n < MANY_ROWS
        mean = sum(self.matrix(k, single=not is_complete) for k in range(self.n_kernels)) / self.n_kernels
        found = arrays.eigh(mean)[1] if is_complete else arrays.leading_eigenvectors(mean, LEADING)
        vectors = arrays.cast(found, single=True)
        spectra = arrays.xp.stack([(vectors * (matrix @ vectors)).sum(0) for matrix in self._rough])
        if is_complete:
            return vectors, spectra
        traces = arrays.xp.stack([matrix.diagonal().sum() for matrix in self._rough])
        return vectors, arrays.xp.hstack([spectra, ((traces - spectra.sum(1)) / (n - LEADING)).reshape(-1, 1)])

    def split(self, V: Any) -> tuple[Any, Any]:
        """V (n, o) -> its coordinates (r, o) in the basis, and the rest (n, o); None if the basis is complete."""
        vectors = self.basis[0]
        turned = vectors.T @ V
        return turned, None if vectors.shape[0] == vectors.shape[1] else V - vectors @ turned
