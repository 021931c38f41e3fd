"""Values of candidate functions at held-out rows, from kernel values that are there already.

Cross-validation computes the kernels among all rows once. A fold trains on some of these rows and is judged on the
others: the values between the two are slices of the same stacks, scaled by what the fold's training rows say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ...data import TaskData
from ...kernels import Scaling
from ..couplings import Coupling
from .build import KernelBank, RawGrams
from .lowrank import LowRankKernels
from .stack import take_block


class CrossKernels(Protocol):
    """Scaled kernels between q held-out and n training points."""

    @property
    def n_points(self) -> int:
        """n."""
        ...

    def product(self, b: np.ndarray, V: np.ndarray) -> np.ndarray:
        """Weights b (K,) and V (n, w) -> sum_k b_k G_k V (q, w)."""
        ...


@dataclass(frozen=True)
class DenseCross:
    """values (K, q, n)."""

    values: np.ndarray

    @property
    def n_points(self) -> int:
        return self.values.shape[2]

    def product(self, b: np.ndarray, V: np.ndarray) -> np.ndarray:
        K, q, n = self.values.shape
        return (b.astype(self.values.dtype) @ self.values.reshape(K, -1)).reshape(q, n) @ V

    def products(self, B: np.ndarray, V: np.ndarray) -> np.ndarray:
        """Weights B (K, w) of each column and V (n, w) -> sum_k G_k (b_k * V) (q, w)."""
        out = np.zeros((self.values.shape[1], V.shape[1]))
        for gram, b in zip(self.values, B, strict=True):
            if b.any():
                out += gram @ (b * V)
        return out


@dataclass(frozen=True)
class FactorCross:
    """Factors of held-out (q) and of training rows (n), in the same families, and the scale (K,) of each kernel."""

    held: LowRankKernels
    kept: LowRankKernels
    scale: np.ndarray

    @property
    def n_points(self) -> int:
        return self.kept.n_rows

    def product(self, b: np.ndarray, V: np.ndarray) -> np.ndarray:
        out = np.zeros((self.held.n_rows, V.shape[1]))
        for left, right in zip(self.held.families, self.kept.families, strict=True):
            out += left.factor @ (left.core(b * self.scale) @ (right.factor.T @ V))
        return out


@dataclass(frozen=True)
class HeldOut:
    """Kernels between held-out and training rows of every task.

    Attributes
    ----------
    own : for each task, the kernels of its own part; on wide data the same for all.
    held, kept : for each task, which of these points its held-out and its training rows are.
    link : the kernels of the part that coupled tasks share, over points of all tasks.
    link_held, link_kept : for each task, which of these points its rows are.
    """

    own: tuple[CrossKernels, ...]
    held: tuple[np.ndarray, ...]
    kept: tuple[np.ndarray, ...]
    link: CrossKernels | None = None
    link_held: tuple[np.ndarray, ...] = ()
    link_kept: tuple[np.ndarray, ...] = ()

    def values(
        self,
        B: np.ndarray,
        a: Sequence[np.ndarray],
        intercepts: Sequence[np.ndarray],
        couplings: Sequence[Coupling] = (),
    ) -> list[np.ndarray]:
        """B (K, J); of each task, dual variables (n_t, m) and intercepts (m,) -> its values (q_t, m)."""
        same = self.own[0]
        if len(a) > 1 and isinstance(same, DenseCross) and all(own is same for own in self.own):
            out = [part + c for part, c in zip(self._together(same, B, a), intercepts, strict=True)]
        else:
            out = [self._own(t, B[:, t], part) + intercepts[t] for t, part in enumerate(a)]
        for j, coupling in enumerate(couplings):
            for t, shared in enumerate(self._shared(B[:, len(a) + j], a, coupling)):
                out[t] = out[t] + shared
        return out

    def _together(self, cross: DenseCross, B: np.ndarray, a: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The own parts of all tasks of wide data: one product with each kernel."""
        ends = np.cumsum([part.shape[1] for part in a]).tolist()
        outputs = [slice(end - part.shape[1], end) for end, part in zip(ends, a, strict=True)]
        spread = np.zeros((cross.n_points, ends[-1]))
        for rows, where, part in zip(self.kept, outputs, a, strict=True):
            spread[rows, where] = part
        weights = np.repeat(B[:, : len(a)], [part.shape[1] for part in a], axis=1)
        values = cross.products(weights, spread)
        return [values[rows, where] for rows, where in zip(self.held, outputs, strict=True)]

    def _own(self, task: int, b: np.ndarray, a: np.ndarray) -> np.ndarray:
        spread = np.zeros((self.own[task].n_points, a.shape[1]))
        spread[self.kept[task]] = a
        return self.own[task].product(b, spread)[self.held[task]]

    def _shared(self, b: np.ndarray, a: Sequence[np.ndarray], coupling: Coupling) -> list[np.ndarray]:
        """f_r(x) = sum over tasks t, rows i of L[t, r] a_ti k(x, x_ti), mixed for each task by its L[t]."""
        assert self.link is not None
        width = coupling.factor.shape[1], a[0].shape[1]
        V = np.zeros((self.link.n_points, width[0] * width[1]))
        for factor, rows, part in zip(coupling.factor, self.link_kept, a, strict=True):
            np.add.at(V, rows, (factor[np.newaxis, :, np.newaxis] * part[:, np.newaxis, :]).reshape(len(part), -1))
        values = self.link.product(b, V).reshape(-1, *width)
        return [
            np.einsum("r,qrm->qm", factor, values[rows])
            for factor, rows in zip(coupling.factor, self.link_held, strict=True)
        ]


def held_out(
    raw: RawGrams, bank: KernelBank, data: TaskData, kept: Sequence[np.ndarray], held: Sequence[np.ndarray]
) -> HeldOut:
    """Slice raw kernel values among the rows of `data`; `kept` and `held` are positions within each task's rows.

    `bank` has the scalings that the training rows gave.
    """
    if data.form == "wide":
        return _wide(raw, bank, data, kept, held)
    own = tuple(
        _dense(stack, scaling, queries, rows)
        for stack, scaling, queries, rows in zip(raw.own, bank.scalings, held, kept, strict=True)
    )
    every_held, every_kept = (tuple(np.arange(len(part)) for part in parts) for parts in (held, kept))
    if bank.link_scaling is None:
        return HeldOut(own, every_held, every_kept)
    starts = np.cumsum([0, *(len(rows) for rows in data.rows[:-1])])
    queries, rows = (
        np.concatenate([start + part for start, part in zip(starts, parts, strict=True)]) for parts in (held, kept)
    )
    link: CrossKernels
    if isinstance(raw.linked, LowRankKernels):
        link = FactorCross(raw.linked.take(queries), raw.linked.take(rows), bank.link_scaling.factor)
    else:
        assert raw.linked is not None
        link = _dense(raw.linked, bank.link_scaling, queries, rows)
    return HeldOut(own, every_held, every_kept, link, _runs(held), _runs(kept))


def _wide(
    raw: RawGrams, bank: KernelBank, data: TaskData, kept: Sequence[np.ndarray], held: Sequence[np.ndarray]
) -> HeldOut:
    held_rows, kept_rows = ([rows[part] for rows, part in zip(data.rows, parts, strict=True)] for parts in (held, kept))
    queries, rows = np.unique(np.concatenate(held_rows)), np.unique(np.concatenate(kept_rows))
    cross = _dense(raw.own[0], bank.scalings[0], queries, rows)
    at_held = tuple(np.searchsorted(queries, part) for part in held_rows)
    at_kept = tuple(np.searchsorted(rows, part) for part in kept_rows)
    return HeldOut((cross,) * data.n_tasks, at_held, at_kept, cross, at_held, at_kept)


def _dense(stack: np.ndarray, scaling: Scaling, queries: np.ndarray, rows: np.ndarray) -> DenseCross:
    diagonal = np.diagonal(stack, axis1=1, axis2=2)[:, queries]
    return DenseCross(scaling.apply(take_block(stack, queries, rows), diagonal, overwrite=True))


def _runs(parts: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Consecutive positions, as many for each task as it has rows."""
    ends = np.cumsum([len(part) for part in parts])
    return tuple(np.arange(end - len(part), end) for end, part in zip(ends, parts, strict=True))
