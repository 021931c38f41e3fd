"""Gram matrices of wide data as an operator: applied to the dual variables of many tasks, never combined.

For all tasks at once `G(b_t) v_t = sum_k b_kt G_k v_t` is one product with each kernel's matrix, whatever the weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .arrays import Arrays

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
