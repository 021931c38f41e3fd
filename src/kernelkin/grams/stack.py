"""The Gram matrices of K kernels on one set of rows, and the two operations anything outside may ask of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..parallel import Each, serially

# Work on a stack is cut into pieces of a fixed size, not of a size that depends on the number of threads, so that every
# sum is added up in the same order whatever `n_jobs` is.
_PIECE = 1 << 16
# A stack of fewer values is not worth a call for each kernel.
_SMALL = 1 << 20


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

    def combine(self, weights: np.ndarray, each: Each = serially) -> np.ndarray:
        """weights (K, m) -> (m, n, n) float64: the m combined Grams, in one product over the whole stack."""
        flat = self.values.reshape(self.n_kernels, -1)
        used = np.flatnonzero(weights.any(axis=1))
        if len(used) <= self.n_kernels // 2:
            flat, weights = flat[used], weights[used]
        combined = np.empty((weights.shape[1], flat.shape[1]))
        by_output = np.ascontiguousarray(weights.T, dtype=flat.dtype)

        def piece(start: int) -> None:
            part = slice(start, start + _PIECE)
            combined[:, part] = by_output @ flat[:, part]

        each(piece, range(0, flat.shape[1], _PIECE))
        return combined.reshape(-1, self.n_rows, self.n_rows)

    def quadratic_forms(self, a: np.ndarray, each: Each = serially) -> np.ndarray:
        """a (n, m) -> (K, m): half of a_j' G_k a_j. Rows on which every a is zero are not read."""
        used = np.flatnonzero(a.any(axis=1))
        whole = len(used) > 0.7 * self.n_rows
        coefficients = np.ascontiguousarray(a if whole else a[used], dtype=self.values.dtype)

        def one(gram: np.ndarray) -> np.ndarray:
            image = (gram if whole else gram[np.ix_(used, used)]) @ coefficients
            return np.einsum("ij,ij->j", coefficients, image, dtype=np.float64)

        if self.values.size <= _SMALL:
            image = self.values.reshape(-1, self.n_rows) @ np.ascontiguousarray(a, dtype=self.values.dtype)
            forms = np.einsum("im,kim->km", a, image.reshape(self.n_kernels, self.n_rows, -1))
        else:
            forms = np.array(each(one, self.values))
        # The forms are non-negative; rounding, or a Gram indefinite within rounding, can leave a trace below zero.
        return np.maximum(0.5 * forms, 0.0)
