"""Gram matrices of tasks that share parts of their functions: own blocks plus shared parts.

The machine of linked tasks has the Gram `blockdiag(own parts) + sum_j M_j[t, t'] G(b_j)[t, t']`. If the shared part has
a low-rank factor, a ridge machine needs only one small factorisation per task and one of the size of the rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.linalg.blas import dsyrk

from ...decompositions import Cholesky, eigh
from ...engines.threads import Each, serially
from ..couplings import Coupling, connected_tasks
from .lowrank import LowRankKernels
from .operator import arrays_on
from .stack import GramStack, SharedGrams, TaskGrams

# A factor is used while its columns are fewer than this share of a machine's rows.
_WORTHWHILE = 0.5
# Rows of matrices whose squares are added up by one product.
_ROWS = 1024


def is_worthwhile(width: int, n_rows: int) -> bool:
    """Return True if a factor with this many columns is used."""
    return width <= _WORTHWHILE * n_rows


class PointStack:
    """A Gram stack over points; each row of each task is one of the points (shared rows of wide data, or all rows).

    N rows in all, task by task. It has the same methods as `LowRankKernels`.
    """

    def __init__(self, stack: GramStack, rows: Sequence[np.ndarray]) -> None:
        self.stack, self.rank = stack, stack.n_rows
        self.place = np.concatenate(rows)

    def quadratic_forms(self, V: np.ndarray, each: Each = serially) -> np.ndarray:
        """V (N, r) -> (K, r): half of v' G_k v."""
        return self.stack.quadratic_forms(self._at_points(V), each)

    def image(self, b: np.ndarray, V: np.ndarray) -> np.ndarray:
        """b (K,), V (N, r) -> G(b) V (N, r)."""
        return (self.stack.combine(b[:, np.newaxis])[0] @ self._at_points(V))[self.place]

    def _at_points(self, V: np.ndarray) -> np.ndarray:
        """Sum V (N, r) over the rows of the same point."""
        at_points = np.zeros((self.stack.n_rows, V.shape[1]))
        np.add.at(at_points, self.place, V)
        return at_points

    def root(self, b: np.ndarray, each: Each = serially) -> np.ndarray:
        """b (K,) -> U (N, R) with U U' = G(b)."""
        values, vectors = eigh(self.stack.combine(b[:, np.newaxis], each)[0])
        return (vectors * np.sqrt(np.maximum(values, 0.0)))[self.place]

    def combine(self, b: np.ndarray, each: Each = serially) -> np.ndarray:
        """b (K,) -> G(b) (N, N)."""
        gram = self.stack.combine(b[:, np.newaxis], each)[0]
        if np.array_equal(self.place, np.arange(len(gram))):
            return gram
        return gram[np.ix_(self.place, self.place)]


# The kernels over the rows of all tasks, as far as couplings need them.
LinkStack = PointStack | LowRankKernels


class CoupledGrams:
    """Own stacks of the tasks with couplings across them. Components: the tasks, then the couplings."""

    def __init__(self, own: Any, link: LinkStack, couplings: Sequence[Coupling], sizes: Sequence[int]) -> None:
        self.own, self.link = own, link
        self.factors = [coupling.factor for coupling in couplings]
        self.n_tasks, self.n_kernels = own.n_components, own.n_kernels
        self.n_components = self.n_tasks + len(couplings)
        self.tasks = connected_tasks(couplings, self.n_tasks)
        self.n_machines = len(self.tasks)
        self._task_of_row = np.repeat(np.arange(self.n_tasks), sizes)
        ends = np.cumsum(sizes).tolist()
        self.rows = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]

    def batches(self) -> Iterator[range]:
        yield range(self.n_machines)

    def combine(self, B: np.ndarray, machines: range, each: Each = serially) -> Sequence[np.ndarray | BlockLowRank]:
        own_B, n_rows = B[:, : self.n_tasks], len(self._task_of_row)
        own = [gram for batch in self.own.batches() for gram in self.own.combine(own_B, batch, each)]
        columns = B[:, self.n_tasks :].T
        if is_worthwhile(self.link.rank * sum(factor.shape[1] for factor in self.factors), n_rows):
            roots = [self.link.root(b, each) for b in columns]
            return [self._structured(own, roots, self.tasks[m]) for m in machines]
        shared = np.zeros((n_rows, n_rows))
        for factor, b in zip(self.factors, columns, strict=True):
            spread = factor[self._task_of_row]
            gram = self.link.combine(b, each)
            # A common part has a constant M.
            constant = spread.shape[1] == 1 and (spread == spread[0]).all()
            shared += float(spread[0, 0]) ** 2 * gram if constant else gram * (spread @ spread.T)
        for rows, block in zip(self.rows, own, strict=True):
            shared[rows, rows] += block
        if self.n_machines == 1:
            return [shared]
        every = np.arange(n_rows)
        members = [np.concatenate([every[self.rows[t]] for t in self.tasks[m]]) for m in machines]
        return [shared[np.ix_(rows, rows)] for rows in members]

    def _structured(self, own: Sequence[np.ndarray], roots: Sequence[np.ndarray], tasks: np.ndarray) -> BlockLowRank:
        """Return the Gram of a machine as blocks plus a factor: roots of G(b_j), weighted by the rows of L_j."""
        reach, columns, rank = [], [], sum(U.shape[1] * L.shape[1] for U, L in zip(roots, self.factors, strict=True))
        for t in tasks:
            parts, places, start = [], [], 0
            for U, factor in zip(roots, self.factors, strict=True):
                for weight in factor[t].tolist():
                    if weight != 0:
                        parts.append(U[self.rows[t]] if weight == 1.0 else weight * U[self.rows[t]])
                        places.append(np.arange(start, start + U.shape[1]))
                    start += U.shape[1]
            reach.append(parts[0] if len(parts) == 1 else np.hstack([np.zeros((len(own[t]), 0)), *parts]))
            columns.append(np.concatenate([np.empty(0, dtype=np.intp), *places]))
        everywhere = all(len(place) == rank for place in columns)
        return BlockLowRank([own[t] for t in tasks], reach, None if everywhere else columns, rank)

    def quadratic_forms(self, a: Sequence[np.ndarray], machines: range, each: Each = serially) -> np.ndarray:
        by_task = self.split(a, machines)
        whole = np.vstack(by_task)
        own_Q = np.zeros((self.n_kernels, self.n_tasks))
        for batch in self.own.batches():
            own_Q += self.own.quadratic_forms([by_task[t] for t in batch], batch, each)
        linked = [self.link.quadratic_forms(self._spread(factor, whole), each).sum(axis=1) for factor in self.factors]
        return np.column_stack([own_Q, *linked])

    def part_shares(self, B: np.ndarray, a: Sequence[np.ndarray]) -> np.ndarray:
        """Return the share (T, 1 + couplings) of each task's variance on its training rows explained by each part.

        It is the covariance of a part with the whole function divided by the variance of the latter; shares sum to one.
        """
        by_task = self.split(a, range(self.n_machines))
        whole, images = np.vstack(by_task), []
        for batch in self.own.batches():
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
    """G = blockdiag(blocks) + U U', with U (n, rank) given block by block.

    `reach` are the rows of U of each block, (n_t, R_t): its columns `columns[t]` (R_t,), the only ones not zero there;
    `columns` is None where each block has all of them.
    """

    def __init__(
        self,
        blocks: Sequence[np.ndarray],
        reach: Sequence[np.ndarray],
        columns: Sequence[np.ndarray] | None = None,
        rank: int | None = None,
    ) -> None:
        self.blocks, self.reach, self.columns = blocks, reach, columns
        self.rank = reach[0].shape[1] if rank is None else rank
        self.ends = np.cumsum([len(block) for block in self.blocks])
        self.rows = [slice(end - len(block), end) for block, end in zip(blocks, self.ends.tolist(), strict=True)]

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), len(self)

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        """Return the dense matrix, for machines that need its entries."""
        U = np.zeros((len(self), self.rank))
        for t, rows in enumerate(self.rows):
            U[rows, self.at(t)] = self.reach[t]
        dense = U @ U.T
        for rows, block in zip(self.rows, self.blocks, strict=True):
            dense[rows, rows] += block
        return dense if dtype is None else dense.astype(dtype)

    def __matmul__(self, a: np.ndarray) -> np.ndarray:
        middle, out = np.zeros((self.rank, a.shape[1])), np.empty(a.shape)
        for t, rows in enumerate(self.rows):
            middle[self.at(t)] += self.reach[t].T @ a[rows]
        for t, rows in enumerate(self.rows):
            out[rows] = self.blocks[t] @ a[rows] + self.reach[t] @ middle[self.at(t)]
        return out

    def at(self, t: int) -> slice | np.ndarray:
        """Return the columns of U that a block uses."""
        return slice(None) if self.columns is None else self.columns[t]

    def take(self, rows: np.ndarray) -> BlockLowRank:
        """Return the matrix of some rows (m,), in ascending order, without empty blocks."""
        parts = np.split(rows, np.searchsorted(rows, self.ends[:-1]))
        kept = [(t, part - self.rows[t].start) for t, part in enumerate(parts) if len(part)]
        return BlockLowRank(
            [self.blocks[t][np.ix_(part, part)] for t, part in kept],
            [self.reach[t][part] for t, part in kept],
            None if self.columns is None else [self.columns[t] for t, _ in kept],
            self.rank,
        )

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
        self.gram, self.borders = gram, borders
        self._factors: list[Cholesky] = []
        self._halves: list[np.ndarray] = []
        for t, (rows, block) in enumerate(zip(gram.rows, gram.blocks, strict=True)):
            scaled = root[rows] * block * root[rows].T
            self._factors.append(Cholesky(self._project(t, self._project(t, scaled).T)))
            self._halves.append(self._half(t, root[rows] * gram.reach[t]))
        self._core = Cholesky(self._squares())

    def _squares(self) -> np.ndarray:
        """The upper triangle of the sum of W_t'W_t (R, R)."""
        total = np.zeros((self.gram.rank, self.gram.rank))
        if self.gram.columns is not None:
            for columns, W in zip(self.gram.columns, self._halves, strict=True):
                total[np.ix_(columns, columns)] += W.T @ W
            return total
        # Blocks of few rows are put together, and squared in place and in one triangle: with few rows, passes over the
        # matrix take as long as the product.
        runs = np.cumsum([len(W) for W in self._halves]) // _ROWS
        for run in np.split(np.arange(len(runs)), np.flatnonzero(np.diff(runs)) + 1) if self.gram.rank else ():
            stacked = np.vstack([self._halves[t] for t in run])
            total = dsyrk(1.0, stacked.T, beta=1.0, c=total.T, lower=1, overwrite_c=1).T
        return total

    def _half(self, t: int, V: np.ndarray) -> np.ndarray:
        """V (n_t, m) -> inv(L_t) P V."""
        return self._factors[t].half(self._project(t, V))

    def _project(self, t: int, V: np.ndarray) -> np.ndarray:
        """V (n_t, m) without its parts along the borders of a block."""
        if self.borders is None or not self.borders[t].size:
            return V
        return V - self.borders[t] @ (self.borders[t].T @ V)

    def solve(self, r: np.ndarray) -> np.ndarray:
        """r (n, m) -> x (n, m), orthogonal to the borders."""
        through, halves = np.zeros((self.gram.rank, r.shape[1])), []
        for t, rows in enumerate(self.gram.rows):
            halves.append(self._half(t, r[rows]))
            through[self.gram.at(t)] += self._halves[t].T @ halves[t]
        through = self._core.solve(through)
        x = np.empty(r.shape)
        for t, rows in enumerate(self.gram.rows):
            x[rows] = self._factors[t].second_half(halves[t] - self._halves[t] @ through[self.gram.at(t)])
        return x


# The Gram matrices of any problem.
Grams = TaskGrams | SharedGrams | CoupledGrams
