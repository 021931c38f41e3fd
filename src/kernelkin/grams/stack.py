"""The Gram matrices of K kernels on one set of rows, and the operations anything outside may ask of them.

Sums are added up in float64 whatever the stack is stored in: what `combine`, `quadratic_forms` and `images` say of a
float32 stack is exact for the numbers that are in it, so that a primal value and a bound computed from them agree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..engines import Each, serially

# Work on a stack is cut into pieces of a fixed size, not of a size that depends on the number of threads, so that every
# sum is added up in the same order whatever `n_jobs` is. A piece of a product stays in cache, and a block of rows does.
_PIECE = 1 << 13
_BLOCK = 64
# Products of pairs of rows are written out where they fit into cache: one product over the stack is then all it takes.
_SMALL = 1 << 16


@dataclass(frozen=True)
class GramStack:
    """values (K, n, n), symmetric in the last two axes, float32 or float64."""

    values: np.ndarray

    @property
    def n_kernels(self) -> int:
        return self.values.shape[0]

    @property
    def n_rows(self) -> int:
        return self.values.shape[1]

    def combine(self, weights: np.ndarray, each: Each = serially, out: np.ndarray | None = None) -> np.ndarray:
        """weights (K, m) -> (m, n, n) float64: the m combined Grams, in one pass over the stack; in `out` if given."""
        flat = self.values.reshape(self.n_kernels, -1)
        combined = np.empty((weights.shape[1], *self.values.shape[1:])) if out is None else out
        target = combined.reshape(len(combined), -1)
        used = np.flatnonzero(weights.any(axis=1))
        few = len(used) <= self.n_kernels // 2
        by_output = np.ascontiguousarray((weights[used] if few else weights).T, dtype=np.float64)

        def piece(start: int) -> None:
            part = slice(start, start + _PIECE)
            values = flat[used, part] if few else flat[:, part]
            np.matmul(by_output, values.astype(np.float64, copy=False), out=target[:, part])

        each(piece, range(0, flat.shape[1], _PIECE))
        return combined

    def quadratic_forms(self, a: np.ndarray, each: Each = serially) -> np.ndarray:
        """a (n, m) -> (K, m): half of a_j' G_k a_j."""
        used = np.flatnonzero(a.any(axis=1))
        if len(used) < len(a) // 2:
            # The rows and columns that a machine's support vectors need, which are few where it is solved alone.
            return GramStack(take_block(self.values, used, used)).quadratic_forms(a[used], each)
        if len(a) * a.size <= _SMALL:
            products = (a[:, np.newaxis] * a).reshape(-1, a.shape[1])
            forms = 0.5 * (self.values.reshape(self.n_kernels, -1).astype(np.float64, copy=False) @ products)
        else:
            forms = np.array(each(_upper_forms(a), self.values))
        # The forms are non-negative; rounding, or a Gram indefinite within rounding, can leave a trace below zero.
        return np.maximum(forms, 0.0)

    def images(self, a: np.ndarray, each: Each = serially) -> np.ndarray:
        """a (n, m) -> (K, n, m) float64: G_k a."""
        flat = self.values.reshape(-1, self.n_rows)
        images = np.empty((len(flat), a.shape[1]))
        length = max(1, _SMALL // self.n_rows)

        def piece(start: int) -> None:
            part = slice(start, start + length)
            np.matmul(flat[part].astype(np.float64, copy=False), a, out=images[part])

        each(piece, range(0, len(flat), length))
        return images.reshape(self.n_kernels, *a.shape)


def half_forms(a: np.ndarray, images: np.ndarray) -> np.ndarray:
    """a (n, m) and its images (K, n, m) -> (K, m): half of a_j' G_k a_j, as `quadratic_forms` gives them."""
    return np.maximum(0.5 * np.einsum("im,kim->km", a, images), 0.0)


def take_block(stack: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The rows and columns at these positions of a stack (K, n, n), each kernel's values side by side.

    A few rows at a time, which stay in cache: about twice as fast as indexing by rows and columns at once, which
    for all kernels at once would also leave the values of one row and column side by side, and every product slow.
    """
    block = np.empty((len(stack), len(rows), len(columns)), dtype=stack.dtype)
    for gram, part in zip(stack, block, strict=True):
        for start in range(0, len(rows), _BLOCK):
            piece = slice(start, start + _BLOCK)
            # Positions are valid; "clip" is the mode that writes into `out` without a copy.
            gram.take(rows[piece], axis=0).take(columns, axis=1, out=part[piece], mode="clip")
    return block


def _upper_forms(a: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """a (n, m) -> a function of G (n, n): half of a_j' G a_j, (m,), from the upper triangle of G alone."""
    blocks = []
    for start in range(0, len(a), _BLOCK):
        right = a[start:].copy()
        right[:_BLOCK] *= 0.5  # of the block on the diagonal, both triangles are read
        blocks.append((slice(start, start + _BLOCK), slice(start, None), right))

    def forms(gram: np.ndarray) -> np.ndarray:
        total = np.zeros(a.shape[1])
        for rows, columns, right in blocks:
            image = gram[rows, columns].astype(np.float64, copy=False) @ right
            total += np.einsum("ij,ij->j", a[rows], image)
        return total

    return forms
