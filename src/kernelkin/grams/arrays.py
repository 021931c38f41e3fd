"""The array operations that operators need beyond arithmetic, for NumPy and for torch on any device.

Operators hold one of these, and their arrays are of its kind: nothing is global.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from scipy.linalg import cho_solve

from ..decompositions import cholesky, eigh, inverse_stack
from ..kernels.definite import has_cholesky

Result = TypeVar("Result")


class Arrays(Protocol):
    """Where arrays are, and what is done there.

    Attributes
    ----------
    in_main_memory : whether several threads may work at one time.
    """

    in_main_memory: ClassVar[bool]

    def array(self, values: np.ndarray) -> Any:
        """From NumPy, in the same precision."""
        ...

    def numpy(self, values: Any) -> np.ndarray:
        """To NumPy, in double precision."""
        ...

    def is_single(self, values: Any) -> bool:
        """Whether values are in single precision."""
        ...

    def cast(self, values: Any, single: bool) -> Any:
        """In single or double precision; the same array where it is so already."""
        ...

    def add_product(self, out: Any, A: Any, B: Any) -> Any:
        """out + A B, in the memory of `out`; A B where that is None."""
        ...

    def stack(self, parts: Sequence[Any]) -> Any:
        """Arrays of one shape along a new first axis."""
        ...

    def join(self, parts: Sequence[Any]) -> Any:
        """Matrices side by side."""
        ...

    def diagonals(self, V: Any) -> Any:
        """V (n, T) -> (n, T, T): a diagonal matrix for each row."""
        ...

    def inverses(self, S: Any) -> Any:
        """The inverse of each of the matrices S (n, T, T)."""
        ...

    def where(self, condition: Any, a: Any, b: Any) -> Any: ...

    def zeros_like(self, values: Any) -> Any: ...

    def flatnonzero(self, values: Any) -> Any: ...

    def largest(self, V: Any) -> Any:
        """V (n, o) -> (o,): the largest entry of each column."""
        ...

    def swapped(self, V: Any) -> Any:
        """V (r, n, t) -> (t, n, r)."""
        ...

    def eigh(self, S: Any) -> tuple[Any, Any]:
        """Eigenvalues (n,) in rising order and eigenvectors (n, n), in columns, of a symmetric S (n, n)."""
        ...

    def solver(self, S: Any) -> Callable[[Any], Any]:
        """From V (t, n, r) to inv(S) V, for positive definite matrices S (t, n, n), which may be overwritten."""
        ...

    def is_definite(self, S: Any, shift: float) -> bool:
        """Whether S + shift I, of a symmetric S (n, n), is positive definite in double precision."""
        ...

    def mixed(self, values: Any, weights: Any) -> Any:
        """values (K, n, n), weights (K, t) -> (t, n, n) in double precision: weighted sums."""
        ...

    def leading_eigenvectors(self, S: Any, count: int) -> Any:
        """About the first eigenvectors (n, count), in columns, of a positive semi-definite S (n, n)."""
        ...

    def energies(self, V: Any, spectrum: Any) -> Any:
        """V (K, n, o), spectrum (n, o) -> (o, K, K): V_t' diag(1/spectrum_t) V_t for each column t."""
        ...

    def rough_products(self) -> Any:
        """A context in which products in single precision may be rounded more coarsely, where that is faster."""
        ...

    def columns(self, n_rows: int, n_kernels: int) -> int:
        """How many columns to work on together."""
        ...

    def matrices(self, n_rows: int, count: int) -> int:
        """How many machines to work on together, each with so many matrices (n, n)."""
        ...

    @property
    def out_of_memory(self) -> tuple[type[BaseException], ...]:
        """What is raised where memory does not suffice and less at one time may help."""
        ...

    def release(self) -> None:
        """Give back memory that is kept for later use."""
        ...


# Columns that NumPy works on together: enough for products to be fast, few enough to stay in cache with their images.
PANEL_COLUMNS = 128
# Bytes of matrices of machines that are solved together in main memory.
MATRIX_BYTES = 1 << 28
# Entries of matrices over tasks, one for each row, that a preconditioner may have.
LARGEST_INVERSES = 1 << 26
# Products of a subspace with a matrix, after which it has the leading eigenvectors well enough for a preconditioner.
SUBSPACE_STEPS = 3


def column_bytes(n_rows: int, n_kernels: int) -> int:
    """Bytes in use at one time for a column: its images and what is made of them, and conjugate gradients."""
    return 8 * n_rows * (3 * n_kernels + 16)


@dataclass(frozen=True)
class NumpyArrays:
    """Arrays in main memory."""

    in_main_memory: ClassVar[bool] = True

    @property
    def out_of_memory(self) -> tuple[type[BaseException], ...]:
        return ()

    def release(self) -> None:
        pass

    def array(self, values: np.ndarray) -> np.ndarray:
        return values

    def numpy(self, values: np.ndarray) -> np.ndarray:
        return np.asarray(values, dtype=np.float64)

    def is_single(self, values: np.ndarray) -> bool:
        return values.dtype == np.float32

    def cast(self, values: np.ndarray, single: bool) -> np.ndarray:
        return values.astype(np.float32 if single else np.float64, copy=False)

    def add_product(self, out: np.ndarray | None, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        if out is None:
            return np.asarray(A @ B)
        out += A @ B
        return out

    def stack(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        return np.stack(parts)

    def join(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate(parts, axis=1)

    def diagonals(self, V: np.ndarray) -> np.ndarray:
        return V[:, :, np.newaxis] * np.eye(V.shape[1], dtype=V.dtype)

    def inverses(self, S: np.ndarray) -> np.ndarray:
        return inverse_stack(S)

    def where(self, condition: np.ndarray, a: Any, b: Any) -> np.ndarray:
        return np.where(condition, a, b)

    def zeros_like(self, values: np.ndarray) -> np.ndarray:
        return np.zeros_like(values)

    def flatnonzero(self, values: np.ndarray) -> np.ndarray:
        return np.flatnonzero(values)

    def largest(self, V: np.ndarray) -> np.ndarray:
        return V.max(axis=0)

    def swapped(self, V: np.ndarray) -> np.ndarray:
        return V.T

    def eigh(self, S: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return eigh(S)

    def solver(self, S: np.ndarray) -> Callable[[Any], Any]:
        factors = [cholesky(matrix) for matrix in S]
        return lambda V: np.array([cho_solve((L, True), v) for L, v in zip(factors, V, strict=True)])

    def is_definite(self, S: np.ndarray, shift: float) -> bool:
        return has_cholesky(S, shift)

    def mixed(self, values: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return np.tensordot(weights.T, values.astype(np.float64, copy=False), axes=1)

    def leading_eigenvectors(self, S: np.ndarray, count: int) -> np.ndarray:
        V = np.random.default_rng(0).normal(size=(len(S), count)).astype(S.dtype)
        for _ in range(SUBSPACE_STEPS):
            V = np.linalg.qr(S @ V)[0]
        return np.asarray(V @ eigh(V.T @ (S @ V))[1])

    def energies(self, V: np.ndarray, spectrum: np.ndarray) -> np.ndarray:
        scaled = np.ascontiguousarray(np.moveaxis(V / np.sqrt(spectrum), 2, 0))
        return scaled @ np.swapaxes(scaled, 1, 2)

    @contextmanager
    def rough_products(self) -> Iterator[None]:
        yield

    def columns(self, n_rows: int, n_kernels: int) -> int:
        return PANEL_COLUMNS

    def matrices(self, n_rows: int, count: int) -> int:
        return max(1, MATRIX_BYTES // (8 * count * n_rows**2))


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
