"""Combined Gram matrices of wide data whose rows are computed when they are read.

A support vector machine reads the rows that it moves, which are few beside all: the others are never computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .stack import GramStack


@dataclass(frozen=True)
class GramOnDemand:
    """The combined Gram (n, n) of one task.

    Attributes
    ----------
    stack : the Gram matrices (K, N, N) of all kernels.
    weights : (K,)
    points : (n,) the rows of the stack that the task has.
    space : memory for n x n numbers, the same for each Gram that a thread works on.
    """

    stack: GramStack
    weights: np.ndarray
    points: np.ndarray
    space: Callable[[int], np.ndarray]

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.points), len(self.points)

    def __len__(self) -> int:
        return len(self.points)

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        """The matrix written out, for machines that need all of its entries."""
        dense = self.block(np.arange(len(self)))
        return dense if dtype is None else dense.astype(dtype)

    def diagonal(self) -> np.ndarray:
        """(n,)"""
        return self.weights @ np.einsum("kii->ki", self.stack.values)[:, self.points].astype(np.float64)

    def block(self, rows: np.ndarray) -> np.ndarray:
        """(m, m) the entries among some of the rows (m,)."""
        points = self.points[rows]
        out = np.zeros((len(rows), len(rows)))
        if len(points) == self.stack.n_rows:
            return self.stack.combine(self.weights[:, np.newaxis])[0]
        for weight, gram in zip(self.weights, self.stack.values, strict=True):
            if weight != 0.0:
                out += weight * gram[np.ix_(points, points)]
        return out

    def read(self, rows: np.ndarray) -> np.ndarray:
        """`block` of rows that were computed, as long as the thread works on no other Gram."""
        return self.space(len(self))[np.ix_(rows, rows)]

    def rows_when_read(self) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """Memory for the matrix, and the `source` of its rows; see `learners.smo_core`."""
        values, n = self.stack.values, len(self)
        single = values if values.dtype == np.float32 else np.empty((0, 0, 0), dtype=np.float32)
        double = values if values.dtype == np.float64 else np.empty((0, 0, 0))
        weights = np.ascontiguousarray(self.weights, dtype=np.float64)
        source = single, double, weights, self.points.astype(np.uint64), np.zeros(n, dtype=np.uint8)
        return self.space(n), source
