"""Values of candidate functions at held-out rows, from kernel values that are there already.

Cross-validation computes the kernels among all rows once. A fold trains on some of these rows and is judged on the
others: the values between the two are slices of the same stacks, scaled by the fold's training rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...data import TaskData
from ...kernels import Scaling
from ..couplings import Coupling
from .build import KernelBank, RawGrams, positions_in_order
from .lowrank import LowRankKernels
from .stack import take_block


class HeldOut:
    """Kernels between held-out and training rows of every task, from raw kernel values among the rows of `data`.

    Parameters
    ----------
    raw : RawGrams
    bank : KernelBank
        With the scalings of the training rows.
    data : TaskData
    kept, held : for each task, positions of training and of held-out rows within its rows.
    """

    def __init__(
        self, raw: RawGrams, bank: KernelBank, data: TaskData, kept: Sequence[np.ndarray], held: Sequence[np.ndarray]
    ) -> None:
        self.is_wide = data.form == "wide"
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
        if isinstance(raw.linked, LowRankKernels):
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
            values = self._shared(B[:, len(a) + j], V.reshape(self.n_points, -1)).reshape(-1, *V.shape[1:])
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

    def _shared(self, b: np.ndarray, V: np.ndarray) -> np.ndarray:
        """b (K,), V (n, w) -> G(b) V (q, w) of the kernels that tasks share."""
        if isinstance(self.link, tuple):
            held, kept = self.link
            return kept.image(b * self.scale, V, at=held)
        return _image(self.link, b, V)


def _image(cross: np.ndarray, b: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Kernels (K, q, n), weights b (K,), V (n, w) -> (q, w)."""
    K, q, n = cross.shape
    return (b.astype(cross.dtype) @ cross.reshape(K, -1)).reshape(q, n) @ V


def _cross(stack: np.ndarray, scaling: Scaling, queries: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Scaled kernels (K, q, n) between some rows of a raw stack and others."""
    diagonal = np.diagonal(stack, axis1=1, axis2=2)[:, queries]
    return scaling.apply(take_block(stack, queries, rows), diagonal, overwrite=True)


def _runs(parts: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Consecutive positions, as many for each task as it has rows."""
    ends = np.cumsum([len(part) for part in parts])
    return [np.arange(end - len(part), end) for end, part in zip(ends, parts, strict=True)]
