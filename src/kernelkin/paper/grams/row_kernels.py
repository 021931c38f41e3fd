"""Kernel values where no stack of scaled Grams is needed.

`RowKernels` evaluates kernels a block of rows at a time; `PooledKernel` is one kernel for the rows of all tasks.
`HeldOut` has the values between training and held-out rows of a fold: cross-validation computes the kernels among all
rows once, and these are slices of the same stacks, scaled by the fold's training rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from ...data.forms import TaskData
from ...kernels.grams import (
    Scaling,
    check_gram,
    check_precomputed,
    check_values,
    fit_diagonal_scaling,
    project,
    project_stack,
)
from ...kernels.kernel import FittedKernel, diagonals, evaluate
from ..couplings import Coupling
from .build import KernelBank, RawGrams, positions_in_order
from .lowrank import LinkKernels
from .stack import take_block

# Bytes of kernel values in memory at the same time.
BLOCK_BYTES = 1 << 25


class RowKernels:
    """The kernels on the rows of X (n, d), or precomputed ones (`kernels` None, X (n, n, K))."""

    def __init__(self, X: np.ndarray, kernels: Sequence[FittedKernel] | None, names: Sequence[str]) -> None:
        self.X, self.kernels, self.names = X, None if kernels is None else tuple(kernels), tuple(names)
        self.n_kernels = len(self.names)

    @classmethod
    def of(cls, X: np.ndarray, kernels: Sequence[FittedKernel] | None, normalize: str | None) -> RowKernels:
        if kernels is None:
            return cls(X, None, check_precomputed(np.moveaxis(X, 2, 0), normalize))
        return cls(X, kernels, [kernel.name for kernel in kernels])

    @property
    def known_psd(self) -> bool:
        """Whether all kernels are positive semi-definite by theory."""
        return self.kernels is not None and all(kernel.function.known_psd for kernel in self.kernels)

    def pairs(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Raw values (K, p) at pairs of rows i (p,), j (p,)."""
        return self.X[i, j].T if self.kernels is None else evaluate(self.kernels, self.X, at=(i, j))

    def diagonals(self, rows: np.ndarray) -> np.ndarray:
        """k(x, x) of these rows, (K, p)."""
        return self.X[rows, rows].T if self.kernels is None else diagonals(self.kernels, self.X[rows])

    def cross(self, i: np.ndarray, j: np.ndarray, active: np.ndarray) -> np.ndarray:
        """Raw values (A, p, q) of some kernels between rows i (p,) and j (q,)."""
        if self.kernels is None:
            return np.ascontiguousarray(np.moveaxis(self.X[i[:, np.newaxis], j][:, :, active], 2, 0))
        return evaluate([self.kernels[k] for k in active], self.X[i], self.X[j])

    def blocks(self, rows: np.ndarray, columns: int, n_kernels: int) -> Iterator[slice]:
        """Return slices of `rows` whose values with this many columns fit into a block."""
        size = max(1, BLOCK_BYTES // (8 * max(columns * n_kernels, 1)))
        return (slice(start, start + size) for start in range(0, len(rows), size))

    def scaling(self, rows: np.ndarray, weight: np.ndarray, normalize: str | None) -> Scaling:
        """Return the scaling fitted on the Grams of these rows."""
        diagonal = self.diagonals(rows)
        if normalize != "center":
            return fit_diagonal_scaling(normalize, diagonal, weight, self.names)
        share = (weight / weight.sum()).astype(self.X.dtype)
        every = np.arange(self.n_kernels)
        means = np.empty(diagonal.shape, dtype=self.X.dtype)
        for part in self.blocks(rows, len(rows), self.n_kernels):
            means[:, part] = self.cross(rows[part], rows, every) @ share
        return fit_diagonal_scaling(normalize, diagonal, weight, self.names, means)

    def combined(
        self, b: np.ndarray, scaling: Scaling, base: np.ndarray, at: np.ndarray, columns: np.ndarray
    ) -> np.ndarray:
        """The combined kernel (n, m) of weights b (K,) between rows base[at] (n,) and base[columns] (m,).

        `scaling` is that of the rows `base`.
        """
        active, whole = np.flatnonzero(b), scaling.row_mean is not None
        against, scaling = (base if whole else base[columns]), scaling.select(active, slice(None) if whole else columns)
        out = np.empty((len(at), len(columns)))
        for part in self.blocks(at, len(against), len(active)):
            rows = base[at[part]]
            cross = scaling.apply(self.cross(rows, against, active), self.diagonals(rows)[active], overwrite=True)
            values = np.tensordot(b[active].astype(cross.dtype), cross, axes=1)
            out[part] = values[:, columns] if whole else values
        return out

    def check(self, rows: np.ndarray) -> None:
        """Raise if a kernel is not positive semi-definite on these rows."""
        for k, name in enumerate(self.names):
            if self.kernels is None or not self.kernels[k].function.known_psd:
                gram = self.cross(rows, rows, np.array([k]))[0]
                if gram.any():
                    check_gram(name, gram, known_psd=False)

    def check_present(self, rows: np.ndarray) -> None:
        """Raise if a kernel is zero on all of these rows or overflows."""
        present = np.zeros(self.n_kernels, dtype=bool)
        for part in self.blocks(rows, 1, self.n_kernels):
            own = self.diagonals(rows[part])
            for name, values in zip(self.names, own, strict=True):
                check_values(name, values, values.shape)
            present |= (own != 0).any(axis=1)
        if not present.all():
            raise ValueError(f"kernel {self.names[int(np.argmin(present))]!r} is zero on all training rows")


# Maximum error of a low-rank factor, relative to the mean diagonal.
_RESIDUAL = 1e-12
# Columns that are allocated for a factor at first.
FIRST_RANK = 64
# A kernel that is not known to be positive semi-definite is tested on this many rows at most.
TESTED_ROWS = 1000


class PivotFeatures:
    """Phi (n, r) with Phi Phi' the Gram. A function Phi w is `sum over pivots of k(x, x_i) c_i` with c of `dual(w)`."""

    def __init__(self, Phi: np.ndarray, pivots: np.ndarray) -> None:
        self.Phi, self.pivots = Phi, pivots

    def dual(self, W: np.ndarray) -> np.ndarray:
        """W (r, O) -> coefficients (n, O), zero but at the pivots."""
        coefficients = np.zeros((len(self.Phi), W.shape[1]))
        coefficients[self.pivots] = solve_triangular(self.Phi[self.pivots], W, lower=True, trans="T")
        return coefficients


def pivoted_cholesky(diagonal: np.ndarray, column: Callable[[int], np.ndarray], max_rank: int) -> PivotFeatures | None:
    """Factor a Gram matrix from at most `max_rank` of its columns; return None if it needs more."""
    left, floor = diagonal.copy(), _RESIDUAL * diagonal.mean()
    factor = np.empty((min(max_rank, FIRST_RANK), len(diagonal)))
    pivots: list[int] = []
    while left.max() > floor:
        r, i = len(pivots), int(left.argmax())
        if r == max_rank:
            return None
        if r == len(factor):
            factor = np.concatenate([factor, np.empty((min(max_rank - r, r), len(diagonal)))])
        factor[r] = (column(i) - factor[:r, i] @ factor[:r]) / np.sqrt(left[i])
        factor[r, pivots] = 0.0
        left -= factor[r] ** 2
        left[i] = 0.0
        pivots.append(i)
    return PivotFeatures(np.ascontiguousarray(factor[: len(pivots)].T), np.array(pivots, dtype=np.intp))


def needs_stack(kernels: Sequence[FittedKernel] | None, normalize: str | None) -> bool:
    """Return True if all Gram matrices are needed at once: precomputed or centred kernels."""
    return kernels is None or normalize == "center"


class PooledKernel:
    """The average of K kernels (None: precomputed) on the rows that any task uses, scaled on all of these together.

    `rows` (n,) are these rows of the training X, ascending; `bank` has the kernels and their one scaling.
    """

    def __init__(self, data: TaskData, kernels: Sequence[FittedKernel] | None, normalize: str | None) -> None:
        self.rows = np.unique(np.concatenate(data.rows))
        self._every, clipped, self._gram = np.arange(len(self.rows)), False, None
        if kernels is None:
            names = tuple(check_precomputed(np.moveaxis(data.X, 2, 0), normalize))
            stack = np.ascontiguousarray(np.moveaxis(data.X[np.ix_(self.rows, self.rows)], 2, 0), dtype=np.float64)
            clipped = project_stack(names, stack)
            values = RowKernels(np.moveaxis(stack, 0, 2), None, names)
        else:
            values = RowKernels.of(np.asarray(data.X[self.rows], dtype=np.float64), list(kernels), normalize)
            values.check(self._every[:: len(self.rows) // TESTED_ROWS + 1])
        values.check_present(self._every)
        self._values, self._scaling = values, values.scaling(self._every, data.sample_weight[self.rows], normalize)
        self.bank = KernelBank(values.names, values.kernels, (self._scaling,), clipped=clipped)
        self._gram = self.gram() if needs_stack(kernels, normalize) else None

    def gram(self) -> np.ndarray:
        """(n, n) float64."""
        if self._gram is not None:
            return self._gram
        gram = raw = self._columns(self._every)
        if self._values.kernels is not None and not self._values.known_psd:
            gram = project("average of all kernels", raw)
            self.bank = replace(self.bank, clipped=self.bank.clipped or gram is not raw)
        return gram

    def _columns(self, at: np.ndarray) -> np.ndarray:
        """k(x, x_i) of all rows and those at some positions, (n, m)."""
        K = self._values.n_kernels
        return self._values.combined(np.full(K, 1.0 / K), self._scaling, self._every, self._every, at)

    def features(self, max_rank: int) -> PivotFeatures | None:
        """Explicit features of the kernel, or None where it has more than `max_rank`."""
        gram = self._gram
        if gram is not None:
            return pivoted_cholesky(np.diagonal(gram), lambda i: gram[i], max_rank)
        own = self._scaling.apply_pairs(self._values.diagonals(self._every), self._every, self._every)
        return pivoted_cholesky(own.mean(axis=0), lambda i: self._columns(np.array([i]))[:, 0], max_rank)


class HeldOut:
    """Kernels between held-out and training rows of every task, from raw kernel values among the rows of `data`.

    `bank` has the scalings of the training rows; `kept` and `held` are positions of both within the rows of each task.
    """

    def __init__(
        self, raw: RawGrams, bank: KernelBank, data: TaskData, kept: Sequence[np.ndarray], held: Sequence[np.ndarray]
    ) -> None:
        self.is_wide = data.form == "wide"
        self.link: Any = None
        if self.is_wide:
            held, kept = ([rows[part] for rows, part in zip(data.rows, parts, strict=True)] for parts in (held, kept))
            queries, points = np.unique(np.concatenate(held)), np.unique(np.concatenate(kept))
            self.link = _cross(raw.own[0], bank.scalings[0], queries, points)
            self.n_points = len(points)
            self.held = [np.searchsorted(queries, part) for part in held]
            self.kept = [np.searchsorted(points, part) for part in kept]
            return
        stacks = zip(raw.own, bank.scalings, held, kept, strict=True)
        self.own = [_cross(stack, scaling, queries, rows) for stack, scaling, queries, rows in stacks]
        self.held, self.kept = _runs(held), _runs(kept)
        self.n_points = sum(map(len, kept))
        if bank.link_scaling is None:
            return
        queries, points = positions_in_order(data, held), positions_in_order(data, kept)
        if isinstance(raw.linked, LinkKernels):
            self.link, self.scale = (raw.linked.take(queries), raw.linked.take(points)), bank.link_scaling.factor
        else:
            assert raw.linked is not None
            self.link = _cross(raw.linked, bank.link_scaling, queries, points)

    def values(
        self,
        B: np.ndarray,
        a: Sequence[np.ndarray],
        intercepts: Sequence[np.ndarray],
        couplings: Sequence[Coupling] = (),
    ) -> list[np.ndarray]:
        """B (K, J); of each task, dual variables (n_t, m) and intercepts (m,) -> its values (q_t, m)."""
        own = self._wide_parts(B, a) if self.is_wide else [_image(self.own[t], B[:, t], a[t]) for t in range(len(a))]
        out = [part + c for part, c in zip(own, intercepts, strict=True)]
        for j, coupling in enumerate(couplings):
            # f_r(x) = sum over tasks t, rows i of L[t, r] a_ti k(x, x_ti), mixed for each task by its L[t].
            V = np.zeros((self.n_points, coupling.factor.shape[1], a[0].shape[1]))
            for factor, rows, part in zip(coupling.factor, self.kept, a, strict=True):
                np.add.at(V, rows, factor[np.newaxis, :, np.newaxis] * part[:, np.newaxis, :])
            b, flat = B[:, len(a) + j], V.reshape(self.n_points, -1)
            if isinstance(self.link, tuple):
                values = self.link[1].image(b * self.scale, flat, at=self.link[0])
            else:
                values = _image(self.link, b, flat)
            values = values.reshape(-1, *V.shape[1:])
            for t, (factor, rows) in enumerate(zip(coupling.factor, self.held, strict=True)):
                out[t] = out[t] + np.einsum("r,qrm->qm", factor, values[rows])
        return out

    def _wide_parts(self, B: np.ndarray, a: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The own parts of all tasks of wide data: one product with each kernel."""
        ends = np.cumsum([part.shape[1] for part in a]).tolist()
        outputs = [slice(end - part.shape[1], end) for end, part in zip(ends, a, strict=True)]
        spread = np.zeros((self.n_points, ends[-1]))
        for rows, where, part in zip(self.kept, outputs, a, strict=True):
            spread[rows, where] = part
        weights = np.repeat(B[:, : len(a)], [part.shape[1] for part in a], axis=1)
        values = np.zeros((self.link.shape[1], ends[-1]))
        for gram, b in zip(self.link, weights, strict=True):
            if b.any():
                values += gram @ (b * spread)
        return [values[rows, where] for rows, where in zip(self.held, outputs, strict=True)]


def _image(cross: np.ndarray, b: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Kernels (K, q, n), weights b (K,), V (n, w) -> (q, w)."""
    K, q, n = cross.shape
    return (b.astype(cross.dtype) @ cross.reshape(K, -1)).reshape(q, n) @ V


def _cross(stack: np.ndarray, scaling: Scaling, queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Scaled kernels (K, q, n) between some rows of a raw stack and others."""
    diagonal = np.diagonal(stack, axis1=1, axis2=2)[:, queries]
    return scaling.apply(take_block(stack, queries, rows), diagonal, overwrite=True)


def _runs(parts: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return consecutive positions for the rows of each task."""
    ends = np.cumsum([len(part) for part in parts])
    return [np.arange(end - len(part), end) for end, part in zip(ends, parts, strict=True)]
