"""Kernel values among the rows of one data set, a block at a time, for fits that never hold a stack of Grams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..kernels import (
    FittedKernel,
    Scaling,
    check_gram,
    check_precomputed,
    check_values,
    diagonals,
    evaluate,
    fit_diagonal_scaling,
    pairs,
)
from ..kernels.scaling import CenterScaling

# Kernel values held at one time, in bytes.
BLOCK_BYTES = 1 << 25


@dataclass(frozen=True)
class RowKernels:
    """The kernels on the rows of X (n, d), or precomputed ones, `kernels` None and X (n, n, K). Rows go by position."""

    X: np.ndarray
    kernels: tuple[FittedKernel, ...] | None
    names: tuple[str, ...]

    @classmethod
    def of(cls, X: np.ndarray, kernels: list[FittedKernel] | None, normalize: str | None) -> RowKernels:
        if kernels is None:
            return cls(X, None, tuple(check_precomputed(np.moveaxis(X, 2, 0), normalize)))
        return cls(X, tuple(kernels), tuple(kernel.name for kernel in kernels))

    @property
    def n_kernels(self) -> int:
        return len(self.names)

    def pairs(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Raw values (K, p) at pairs of rows i (p,), j (p,)."""
        return self.X[i, j].T if self.kernels is None else pairs(self.kernels, self.X, i, j)

    def diagonals(self, rows: np.ndarray) -> np.ndarray:
        """k(x, x) of these rows, (K, p)."""
        return self.X[rows, rows].T if self.kernels is None else diagonals(self.kernels, self.X[rows])

    def cross(self, i: np.ndarray, j: np.ndarray, active: np.ndarray) -> np.ndarray:
        """Raw values (A, p, q) of some kernels between rows i (p,) and j (q,)."""
        if self.kernels is None:
            return np.ascontiguousarray(np.moveaxis(self.X[i[:, np.newaxis], j][:, :, active], 2, 0))
        return evaluate([self.kernels[k] for k in active], self.X[i], self.X[j])

    def blocks(self, rows: np.ndarray, columns: int, n_kernels: int) -> Iterator[slice]:
        """Slices of `rows` whose values against so many columns fit into a block."""
        size = max(1, BLOCK_BYTES // (8 * max(columns * n_kernels, 1)))
        return (slice(start, start + size) for start in range(0, len(rows), size))

    def scaling(self, rows: np.ndarray, weight: np.ndarray, normalize: str | None) -> Scaling:
        """The scaling that the Grams of these rows would be given."""
        diagonal = self.diagonals(rows)
        if normalize != "center":
            return fit_diagonal_scaling(normalize, diagonal, weight, self.names)
        weight = weight / weight.sum()
        every = np.arange(self.n_kernels)
        means = np.empty(diagonal.shape, dtype=self.X.dtype)
        for part in self.blocks(rows, len(rows), self.n_kernels):
            means[:, part] = self.cross(rows[part], rows, every) @ weight.astype(self.X.dtype)
        return CenterScaling.from_means(diagonal.astype(np.float64), means, weight)

    def combined(
        self, b: np.ndarray, scaling: Scaling, base: np.ndarray, at: np.ndarray, columns: np.ndarray
    ) -> np.ndarray:
        """The combined kernel (n, m) of weights b (K,) between rows base[at] (n,) and base[columns] (m,).

        `scaling` is that of the rows `base`.
        """
        active = np.flatnonzero(b)
        scaling, whole = scaling.select(active), scaling.needs_all_rows
        against = base if whole else base[columns]
        scaling = scaling if whole else scaling.take(columns)
        out = np.empty((len(at), len(columns)))
        for part in self.blocks(at, len(against), len(active)):
            rows = base[at[part]]
            cross = scaling.apply(self.cross(rows, against, active), self.diagonals(rows)[active], overwrite=True)
            values = np.tensordot(b[active].astype(cross.dtype), cross, axes=1)
            out[part] = values[:, columns] if whole else values
        return out

    @property
    def known_psd(self) -> bool:
        """Whether theory says that all kernels are positive semi-definite."""
        return self.kernels is not None and all(kernel.known_psd for kernel in self.kernels)

    def check(self, rows: np.ndarray) -> None:
        """Refuse kernels that are not known to be positive semi-definite and are not, on these rows."""
        for k, name in enumerate(self.names):
            if self.kernels is None or not self.kernels[k].known_psd:
                gram = self.cross(rows, rows, np.array([k]))[0]
                if gram.any():
                    check_gram(name, gram, known_psd=False)

    def check_present(self, rows: np.ndarray) -> None:
        """Refuse a kernel that is zero on all of these rows, or overflows (where it does, k(x, x) does)."""
        present = np.zeros(self.n_kernels, dtype=bool)
        for part in self.blocks(rows, 1, self.n_kernels):
            own = self.diagonals(rows[part])
            for name, values in zip(self.names, own, strict=True):
                check_values(name, values, values.shape)
            present |= (own != 0).any(axis=1)
        if not present.all():
            raise ValueError(f"kernel {self.names[int(np.argmin(present))]!r} is zero on all training rows")
