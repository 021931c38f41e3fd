"""Gram matrices of wide data as an operator: applied to the dual variables of many tasks, never combined.

For all tasks at once `G(b_t) v_t = sum_k b_kt G_k v_t` is one product with each kernel's matrix, whatever the weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .arrays import Arrays


@dataclass(frozen=True)
class Basis:
    """A basis in which the matrices of all kernels are nearly diagonal: the eigenvectors of their mean.

    Attributes
    ----------
    vectors : (n, n) the eigenvectors, in columns, in single precision.
    spectra : (K, n) the diagonal of each kernel's matrix in this basis, in single precision.
    """

    vectors: Any
    spectra: Any


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

    def prepare(self) -> None:
        """Make what blocks of columns share, before several threads ask for it."""
        assert len(self._rough) == len(self.basis.spectra)

    @cached_property
    def basis(self) -> Basis:
        """Eigenvectors of the mean of the matrices, and the diagonal of each matrix in them."""
        mean = sum(self.matrix(k, single=False) for k in range(self.n_kernels)) / self.n_kernels
        vectors = self.arrays.cast(self.arrays.eigh(mean)[1], single=True)
        spectra = [(vectors * (self.matrix(k, single=True) @ vectors)).sum(0) for k in range(self.n_kernels)]
        return Basis(vectors, self.arrays.stack(spectra))

    def matrix(self, k: int, single: bool = False) -> Any:
        """(n, n) the matrix of one kernel, in double or single precision."""
        return self._rough[k] if single else self.arrays.cast(self.values[k], single=False)

    @cached_property
    def _rough(self) -> Any:
        """The values in single precision."""
        return self.arrays.cast(self.values, single=True)
