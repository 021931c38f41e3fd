"""Gram matrices of tasks that share parts of their functions: own blocks plus shared parts.

The machine of linked tasks has the Gram `blockdiag(own parts) + sum_j M_j[t, t'] G(b_j)[t, t']`. If the shared part has
a low-rank factor, a ridge machine needs only one small factorisation per task and one of the size of the rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...decompositions import Cholesky
from ...engines.threads import Each, serially
from ..couplings import Coupling, connected_tasks
from .lowrank import LinkKernels
from .operator import arrays_on
from .stack import SharedGrams, TaskGrams, runs

# A factor is used while its columns are fewer than this share of a machine's rows.
_WORTHWHILE = 0.5


def is_worthwhile(width: int, n_rows: int) -> bool:
    """Return True if a factor with this many columns is used."""
    return width <= _WORTHWHILE * n_rows


class CoupledGrams:
    """Own stacks of the tasks with couplings across them. Components: the tasks, then the couplings."""

    def __init__(self, own: Any, link: LinkKernels, couplings: Sequence[Coupling], sizes: Sequence[int]) -> None:
        self.own, self.link = own, link
        self.factors = [coupling.factor for coupling in couplings]
        self.n_tasks, self.n_kernels = own.n_components, own.n_kernels
        self.n_components = self.n_tasks + len(couplings)
        self.tasks = connected_tasks(couplings, self.n_tasks)
        self.gram_bytes = [0] * len(self.tasks)
        self._task_of_row = np.repeat(np.arange(self.n_tasks), sizes)
        ends = np.cumsum(sizes).tolist()
        self.rows = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]

    def combine(self, B: np.ndarray, machines: range, each: Each = serially) -> Sequence[np.ndarray | BlockLowRank]:
        own_B, n_rows = B[:, : self.n_tasks], len(self._task_of_row)
        own = [gram for batch in runs(self.own.gram_bytes) for gram in self.own.combine(own_B, batch, each)]
        columns, every = B[:, self.n_tasks :].T, np.arange(n_rows)
        members = [np.concatenate([every[self.rows[t]] for t in self.tasks[m]]) for m in machines]
        if is_worthwhile(self.link.rank * sum(factor.shape[1] for factor in self.factors), n_rows):
            roots = [self.link.root(b, each) for b in columns]
            U = np.hstack([self._spread(factor, root) for factor, root in zip(self.factors, roots, strict=True)])
            # Leave out columns of U that are zero for the tasks of a machine; LAPACK needs at least one column.
            parts = [part[:, part.any(axis=0)] for part in (U[rows] for rows in members)]
            parts = [part if part.size else np.zeros((len(part), 1)) for part in parts]
            owners = [[own[t] for t in self.tasks[m]] for m in machines]
            return [BlockLowRank(blocks, part) for blocks, part in zip(owners, parts, strict=True)]
        shared = np.zeros((n_rows, n_rows))
        for factor, b in zip(self.factors, columns, strict=True):
            spread = factor[self._task_of_row]
            gram = self.link.combine(b, each)
            # A common part has a constant M.
            constant = spread.shape[1] == 1 and (spread == spread[0]).all()
            shared += float(spread[0, 0]) ** 2 * gram if constant else gram * (spread @ spread.T)
        for rows, block in zip(self.rows, own, strict=True):
            shared[rows, rows] += block
        return [shared] if len(self.tasks) == 1 else [shared[np.ix_(rows, rows)] for rows in members]

    def quadratic_forms(self, a: Sequence[np.ndarray], machines: range, each: Each = serially) -> np.ndarray:
        by_task = self.split(a, machines)
        whole = np.vstack(by_task)
        own_Q = np.zeros((self.n_kernels, self.n_tasks))
        for batch in runs(self.own.gram_bytes):
            own_Q += self.own.quadratic_forms([by_task[t] for t in batch], batch, each)
        linked = [self.link.quadratic_forms(self._spread(factor, whole), each).sum(axis=1) for factor in self.factors]
        return np.column_stack([own_Q, *linked])

    def part_shares(self, B: np.ndarray, a: Sequence[np.ndarray]) -> np.ndarray:
        """Return the share (T, 1 + couplings) of each task's variance on its training rows explained by each part.

        It is the covariance of a part with the whole function divided by the variance of the latter; shares sum to one.
        """
        by_task = self.split(a, range(len(self.tasks)))
        whole, images = np.vstack(by_task), []
        for batch in runs(self.own.gram_bytes):
            blocks = self.own.combine(B[:, : self.n_tasks], batch)
            images += [np.asarray(block) @ by_task[task] for task, block in zip(batch, blocks, strict=True)]
        parts = [np.vstack(images)]
        for j, factor in enumerate(self.factors):
            image = self.link.image(B[:, self.n_tasks + j], self._spread(factor, whole))
            image = image.reshape(len(whole), factor.shape[1], -1)
            parts.append(np.einsum("ir,irm->im", factor[self._task_of_row], image))
        shares = np.zeros((self.n_tasks, len(parts)))
        for task, own in enumerate(self.rows):
            values = np.array([part[own] for part in parts])
            values -= values.mean(axis=1, keepdims=True)
            shares[task] = np.einsum("pim,im->p", values, values.sum(axis=0))
        return shares_of(shares)

    def _spread(self, factor: np.ndarray, whole: np.ndarray) -> np.ndarray:
        """whole (N, m) -> (N, r m): weighted by each column of the coupling's factor L at the rows' tasks."""
        weights = factor[self._task_of_row]
        return (weights[:, :, np.newaxis] * whole[:, np.newaxis, :]).reshape(len(whole), -1)

    def split(self, per_machine: Sequence[np.ndarray], machines: range) -> list[np.ndarray]:
        """Split arrays over the rows of machines into arrays for each task."""
        parts: list[np.ndarray] = [np.empty(0)] * self.n_tasks
        for m, array in zip(machines, per_machine, strict=True):
            ends = np.cumsum([self.rows[t].stop - self.rows[t].start for t in self.tasks[m]])
            for task, part in zip(self.tasks[m], np.split(array, ends[:-1]), strict=True):
                parts[task] = part
        return parts


def shares_of(parts: np.ndarray) -> np.ndarray:
    """Divide each row of (T, parts) by its sum; zero where that is not positive."""
    total = parts.sum(axis=1, keepdims=True)
    return np.divide(parts, total, out=np.zeros_like(parts), where=total > 0)


def on_device(grams: Any, device: str) -> Any:
    """Put the operator of the Gram matrices of wide data on a torch device."""
    own = grams.own if isinstance(grams, CoupledGrams) else grams
    if isinstance(own, SharedGrams):
        own.arrays = arrays_on(device)
    return grams


class BlockLowRank:
    """G = blockdiag(blocks) + U U', with U (n, rank)."""

    def __init__(self, blocks: Sequence[np.ndarray], U: np.ndarray) -> None:
        self.blocks, self.U = blocks, U
        self.shape = len(U), len(U)
        self.ends = np.cumsum([len(block) for block in blocks])
        self.rows = [slice(end - len(block), end) for block, end in zip(blocks, self.ends.tolist(), strict=True)]

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        """Return the dense matrix, for machines that need its entries."""
        dense = self.U @ self.U.T
        for rows, block in zip(self.rows, self.blocks, strict=True):
            dense[rows, rows] += block
        return dense if dtype is None else dense.astype(dtype)

    def __matmul__(self, a: np.ndarray) -> np.ndarray:
        out = self.U @ (self.U.T @ a)
        for rows, block in zip(self.rows, self.blocks, strict=True):
            out[rows] += block @ a[rows]
        return out

    def take(self, rows: np.ndarray) -> BlockLowRank:
        """Return the matrix of some rows (m,), in ascending order, without empty blocks."""
        parts = np.split(rows, np.searchsorted(rows, self.ends[:-1]))
        kept = [(t, part - self.rows[t].start) for t, part in enumerate(parts) if len(part)]
        return BlockLowRank([self.blocks[t][np.ix_(part, part)] for t, part in kept], self.U[rows])

    def solver(self, root: np.ndarray, borders: Sequence[np.ndarray] | None = None) -> BlockSystem:
        """root (n, 1) = sqrt(C) -> the factors of `I + P root G root' P`; see `BlockSystem`.

        `borders` are the columns that P projects out, orthonormal and zero outside one block, (n_t, g_t) for each.
        """
        return BlockSystem(self, root, borders)


class BlockSystem:
    """The system `I + P root G root' P`, factorised by Woodbury.

    With I + (root G_t root') projected = L_t L_t' for each block, W_t = inv(L_t) P root U_t and the core
    I + sum_t W_t' W_t, its inverse is `inv(L L') - inv(L') W inv(core) W' inv(L)`.

    Raises LinAlgError if there is no Cholesky factor. Entries are then of size 1e16 and more, and the differences above
    lose all digits, so the dense matrix has to be factorised instead.
    """

    def __init__(self, gram: BlockLowRank, root: np.ndarray, borders: Sequence[np.ndarray] | None) -> None:
        self.rows, self.borders, self._factors = gram.rows, borders, []
        for t, (rows, block) in enumerate(zip(gram.rows, gram.blocks, strict=True)):
            scaled = root[rows] * block * root[rows].T
            self._factors.append(Cholesky(self._project(t, self._project(t, scaled).T)))
        self._W = self._half(root * gram.U)
        self._core = Cholesky(self._W.T @ self._W)

    def _half(self, V: np.ndarray) -> np.ndarray:
        """V (n, m) -> inv(L) P V."""
        out = np.empty(V.shape)
        for t, rows in enumerate(self.rows):
            out[rows] = self._factors[t].half(self._project(t, V[rows]))
        return out

    def _project(self, t: int, V: np.ndarray) -> np.ndarray:
        """V (n_t, m) without its parts along the borders of a block."""
        if self.borders is None or not self.borders[t].size:
            return V
        return V - self.borders[t] @ (self.borders[t].T @ V)

    def solve(self, r: np.ndarray) -> np.ndarray:
        """r (n, m) -> x (n, m), orthogonal to the borders."""
        half = self._half(r)
        half -= self._W @ self._core.solve(self._W.T @ half)
        for t, rows in enumerate(self.rows):
            half[rows] = self._factors[t].second_half(half[rows])
        return half


# The Gram matrices of any problem.
Grams = TaskGrams | SharedGrams | CoupledGrams
