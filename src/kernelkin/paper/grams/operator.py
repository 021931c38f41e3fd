"""Gram matrices of wide data as an operator: applied to the dual variables of many tasks, never combined.

For all tasks at once `G(b_t) v_t = sum_k b_kt G_k v_t` is one product with each kernel's matrix, whatever the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np

from ...decompositions import eigh, inverse_stack
from ...kernels import has_cholesky

Result = TypeVar("Result")

# Columns that NumPy works on together: enough for products to be fast, few enough to stay in cache with their images.
PANEL_COLUMNS = 128
# Entries of matrices over tasks, one for each row, that a preconditioner may have.
LARGEST_INVERSES = 1 << 26
# Products of a subspace with a matrix, after which it has the leading eigenvectors well enough for a preconditioner.
SUBSPACE_STEPS = 3


def column_bytes(n_rows: int, n_kernels: int) -> int:
    """Bytes in use at one time for a column: its images and what is made of them, and conjugate gradients."""
    return 8 * n_rows * (3 * n_kernels + 16)


@dataclass(frozen=True)
class Arrays:
    """Arrays of NumPy, in main memory.

    Attributes
    ----------
    in_main_memory : whether several threads may work at one time.
    out_of_memory : what is raised where memory does not suffice and less at one time may help.
    """

    in_main_memory: ClassVar[bool] = True

    @property
    def out_of_memory(self) -> tuple[type[BaseException], ...]:
        return ()

    def release(self) -> None:
        """Give back memory that is kept for later use."""

    def array(self, values: np.ndarray) -> Any:
        """From NumPy, in the same precision."""
        return values

    def numpy(self, values: Any) -> np.ndarray:
        """To NumPy, in double precision."""
        return np.asarray(values, dtype=np.float64)

    def is_single(self, values: Any) -> bool:
        """Whether values are in single precision."""
        return bool(values.dtype == np.float32)

    def cast(self, values: Any, single: bool) -> Any:
        """In single or double precision; the same array where it is so already."""
        return values.astype(np.float32 if single else np.float64, copy=False)

    def add_product(self, out: Any, A: Any, B: Any) -> Any:
        """out + A B, in the memory of `out`; A B where that is None."""
        if out is None:
            return A @ B
        out += A @ B
        return out

    def stack(self, parts: Sequence[Any]) -> Any:
        """Arrays of one shape along a new first axis."""
        return np.stack(parts)

    def join(self, parts: Sequence[Any]) -> Any:
        """Matrices side by side."""
        return np.concatenate(parts, axis=1)

    def diagonals(self, V: Any) -> Any:
        """V (n, T) -> (n, T, T): a diagonal matrix for each row."""
        return V[:, :, np.newaxis] * np.eye(V.shape[1], dtype=V.dtype)

    def inverses(self, S: Any) -> Any:
        """The inverse of each of the matrices S (n, T, T)."""
        return inverse_stack(S)

    def where(self, condition: Any, a: Any, b: Any) -> Any:
        return np.where(condition, a, b)

    def zeros_like(self, values: Any) -> Any:
        return np.zeros_like(values)

    def flatnonzero(self, values: Any) -> Any:
        return np.flatnonzero(values)

    def eigh(self, S: Any) -> tuple[Any, Any]:
        """Eigenvalues (n,) in rising order and eigenvectors (n, n), in columns, of a symmetric S (n, n)."""
        return eigh(S)

    def orthonormal(self, V: Any) -> Any:
        """An orthonormal basis (n, r) of the columns of V (n, r)."""
        return np.linalg.qr(V)[0]

    def is_definite(self, S: Any, shift: float) -> bool:
        """Whether S + shift I, of a symmetric S (n, n), is positive definite in double precision."""
        return has_cholesky(S, shift)

    def leading_eigenvectors(self, S: Any, count: int) -> Any:
        """About the first eigenvectors (n, count), in columns, of a positive semi-definite S (n, n)."""
        start = np.random.default_rng(0).normal(size=(len(S), count))
        V = self.cast(self.array(start), self.is_single(S))
        for _ in range(SUBSPACE_STEPS):
            V = self.orthonormal(S @ V)
        return V @ self.eigh(V.T @ (S @ V))[1]

    def energies(self, V: Any, spectrum: Any) -> Any:
        """V (K, n, o), spectrum (n, o) -> (o, K, K): V_t' diag(1/spectrum_t) V_t for each column t."""
        scaled = np.ascontiguousarray(np.moveaxis(V / np.sqrt(spectrum), 2, 0))
        return scaled @ np.swapaxes(scaled, 1, 2)

    @contextmanager
    def rough_products(self) -> Iterator[None]:
        """A context in which products in single precision may be rounded more coarsely, where that is faster."""
        yield

    def columns(self, n_rows: int, n_kernels: int) -> int:
        """How many columns to work on together."""
        return PANEL_COLUMNS


@dataclass(frozen=True)
class TorchArrays(Arrays):
    """Tensors on a device of torch."""

    device: str
    in_main_memory: ClassVar[bool] = False

    @property
    def torch(self) -> Any:
        """The module, which is slow to import."""
        import torch

        return torch

    @property
    def out_of_memory(self) -> tuple[type[BaseException], ...]:
        return (self.torch.OutOfMemoryError,)

    def release(self) -> None:
        self.torch.cuda.empty_cache()

    def array(self, values: np.ndarray) -> Any:
        # Axes in another order are put in place on the device, which takes no time beside the copy to it.
        if not values.flags.writeable or min(values.strides, default=0) < 0:
            values = np.array(values, order="C")
        return self.torch.as_tensor(values).to(self.device).contiguous()

    def numpy(self, values: Any) -> np.ndarray:
        return np.asarray(values.double().cpu().numpy(), dtype=np.float64)

    def is_single(self, values: Any) -> bool:
        return bool(values.dtype == self.torch.float32)

    def cast(self, values: Any, single: bool) -> Any:
        return values.to(self.torch.float32 if single else self.torch.float64)

    def add_product(self, out: Any, A: Any, B: Any) -> Any:
        return A @ B if out is None else out.addmm_(A, B)

    def stack(self, parts: Sequence[Any]) -> Any:
        return self.torch.stack(list(parts))

    def join(self, parts: Sequence[Any]) -> Any:
        return self.torch.cat(list(parts), dim=1)

    def diagonals(self, V: Any) -> Any:
        return self.torch.diag_embed(V)

    def inverses(self, S: Any) -> Any:
        try:
            return self.torch.linalg.inv(S)
        except self.torch.linalg.LinAlgError:
            return self.torch.linalg.pinv(S)

    def where(self, condition: Any, a: Any, b: Any) -> Any:
        return self.torch.where(condition, a, b)

    def zeros_like(self, values: Any) -> Any:
        return self.torch.zeros_like(values)

    def flatnonzero(self, values: Any) -> Any:
        return self.torch.nonzero(values)[:, 0]

    def eigh(self, S: Any) -> tuple[Any, Any]:
        try:
            return tuple(self.torch.linalg.eigh(S))
        except self.torch.linalg.LinAlgError:
            values, vectors = eigh(self.numpy(S))
            return self.array(values), self.array(vectors)

    def orthonormal(self, V: Any) -> Any:
        return self.torch.linalg.qr(V)[0]

    def is_definite(self, S: Any, shift: float) -> bool:
        shifted = S.double().clone()
        shifted.diagonal().add_(shift)
        return int(self.torch.linalg.cholesky_ex(shifted)[1]) == 0

    def energies(self, V: Any, spectrum: Any) -> Any:
        scaled = (V / spectrum.sqrt()).permute(2, 0, 1).contiguous()
        return scaled @ scaled.transpose(1, 2)

    @contextmanager
    def rough_products(self) -> Iterator[None]:
        products = self.torch.backends.cuda.matmul
        before, products.allow_tf32 = products.allow_tf32, True
        try:
            yield
        finally:
            products.allow_tf32 = before

    def columns(self, n_rows: int, n_kernels: int) -> int:
        if not self.device.startswith("cuda"):
            return PANEL_COLUMNS
        free, _ = self.torch.cuda.mem_get_info(self.device)
        free += self.torch.cuda.memory_reserved(self.device) - self.torch.cuda.memory_allocated(self.device)
        return max(1, int(0.6 * free) // column_bytes(n_rows, n_kernels))


def arrays_on(device: str | None) -> Arrays:
    """Where arrays are for a device: None is main memory, any other name a device of torch, which must be there."""
    if device is None:
        return Arrays()
    try:
        import torch
    except ImportError:
        raise ImportError(f'device={device!r} needs torch: pip install "kernelkin[torch]"') from None
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"device={device!r} cannot be used by torch {torch.__version__}: {reason}") from None
    return TorchArrays(device)


def in_blocks(arrays: Arrays, count: int, size: int, work: Callable[[slice], Result]) -> list[Result]:
    """What `work` makes of each run of `size` columns out of `count`; fewer at one time where memory is short."""
    while True:
        try:
            return [work(slice(first, min(first + size, count))) for first in range(0, count, size)]
        except arrays.out_of_memory:
            if size == 1:
                raise
            size = -(-min(size, count) // 2)
            arrays.release()


# From so many rows on, a basis has so many leading eigenvectors alone: all of them would take longer than the solution.
MANY_ROWS, LEADING = 4000, 150


@dataclass(frozen=True)
class Basis:
    """A basis in which the matrices of all kernels are nearly diagonal: eigenvectors of their mean.

    Attributes
    ----------
    vectors : (n, r) all eigenvectors or the leading ones, in columns, in single precision.
    spectra : (K, r) the diagonal of each kernel's matrix in this basis, in single precision; where r < n
        (K, r + 1), the last the mean over all other directions.
    """

    vectors: Any
    spectra: Any

    @property
    def is_complete(self) -> bool:
        return bool(self.vectors.shape[0] == self.vectors.shape[1])

    def split(self, V: Any) -> tuple[Any, Any]:
        """V (n, o) -> its coordinates (r, o), and what is left of it (n, o); None where that is nothing."""
        turned = self.vectors.T @ V
        return turned, None if self.is_complete else V - self.vectors @ turned


@dataclass(frozen=True)
class SharedOperator:
    """The Gram matrices of K kernels on the rows that all tasks share.

    Attributes
    ----------
    arrays : where they are.
    values : (K, n, n) in single or double precision.
    """

    arrays: Arrays
    values: Any

    @property
    def n_kernels(self) -> int:
        return int(self.values.shape[0])

    @property
    def n_rows(self) -> int:
        return int(self.values.shape[1])

    def apply(self, b: Any, V: Any) -> Any:
        """b (K, o), V (n, o) -> (n, o): G(b_t) v_t for each column, in the precision of V."""
        single, out = self.arrays.is_single(V), None
        for k in range(self.n_kernels):
            out = self.arrays.add_product(out, self.matrix(k, single), V * b[k])
        return out

    def images(self, V: Any) -> Any:
        """V (n, o) -> (K, n, o): G_k v for each kernel and column, in the precision of V."""
        single = self.arrays.is_single(V)
        return self.arrays.stack([self.matrix(k, single) @ V for k in range(self.n_kernels)])

    def entries(self, rows: np.ndarray, columns: np.ndarray) -> Any:
        """Positions (q,) and (n,) -> (K, q, n): the values there, in order of memory, as fast products need them."""
        rows, columns = self.arrays.array(rows), self.arrays.array(columns)
        return self.arrays.stack([values[rows][:, columns] for values in self.values])

    def take(self, rows: np.ndarray) -> SharedOperator:
        """The operator of some of the rows."""
        return SharedOperator(self.arrays, self.entries(rows, rows))

    def prepare(self) -> None:
        """Make what blocks of columns share, before several threads ask for it."""
        assert len(self._rough) == len(self.basis.spectra)

    @cached_property
    def basis(self) -> Basis:
        """Eigenvectors of the mean of the matrices, and the diagonal of each matrix in them."""
        arrays, n = self.arrays, self.n_rows
        is_complete = n < MANY_ROWS
        mean = sum(self.matrix(k, single=not is_complete) for k in range(self.n_kernels)) / self.n_kernels
        found = arrays.eigh(mean)[1] if is_complete else arrays.leading_eigenvectors(mean, LEADING)
        vectors = arrays.cast(found, single=True)
        rough = [self.matrix(k, single=True) for k in range(self.n_kernels)]
        spectra = arrays.stack([(vectors * (matrix @ vectors)).sum(0) for matrix in rough])
        if is_complete:
            return Basis(vectors, spectra)
        rest = [
            (matrix.diagonal().sum() - part.sum()) / (n - LEADING) for matrix, part in zip(rough, spectra, strict=True)
        ]
        return Basis(vectors, arrays.join([spectra, arrays.stack(rest).reshape(-1, 1)]))

    def matrix(self, k: int, single: bool = False) -> Any:
        """(n, n) the matrix of one kernel, in double or single precision."""
        return self._rough[k] if single else self.arrays.cast(self.values[k], single=False)

    @cached_property
    def _rough(self) -> Any:
        """The values in single precision."""
        return self.arrays.cast(self.values, single=True)
