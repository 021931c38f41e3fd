"""Gram matrices of tasks that share parts of their functions: own blocks, plus parts that reach across tasks.

The machine of linked tasks has the Gram `blockdiag(own parts) + sum_j M_j[t, t'] G(b_j)[t, t']`. Where the shared part
has a factor of low rank, it is handed on as such, and a ridge machine costs one small factorisation for each task and
one of the rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..couplings import Coupling, connected_tasks
from ..engines import Each, serially
from .arrays import arrays_on
from .blocks import BlockLowRank
from .collections import Grams, SharedGrams
from .links import LinkFactor, LinkStack, Reach

# Rows of factors are kept if they take no more bytes, else computed whenever they are needed.
_KEPT_BYTES = 1 << 27
# A factor is used while its columns are fewer than this share of a machine's rows.
_WORTHWHILE = 0.5


def is_worthwhile(width: int, n_rows: int) -> bool:
    """Whether a factor of so many columns is used."""
    return width <= _WORTHWHILE * n_rows


class CoupledGrams:
    """Own stacks of the tasks with couplings across them. Components: the tasks, then the couplings."""

    def __init__(self, own: Grams, link: LinkStack, couplings: Sequence[Coupling], sizes: Sequence[int]) -> None:
        self.own, self.link = own, link
        self.factors = [coupling.factor for coupling in couplings]
        self.n_tasks = own.n_components
        self.n_kernels = own.n_kernels
        self.n_components = self.n_tasks + len(couplings)
        self.tasks = connected_tasks(couplings, self.n_tasks)
        self.n_machines = len(self.tasks)
        self.sizes = list(sizes)
        self._task_of_row = np.repeat(np.arange(self.n_tasks), self.sizes)
        self._ends = np.cumsum(self.sizes)

    def rows(self, task: int) -> slice:
        """The rows of a task among those of all tasks."""
        return slice(self._ends[task] - self.sizes[task], self._ends[task])

    def batches(self) -> Iterator[range]:
        yield range(self.n_machines)

    def combine(self, B: np.ndarray, machines: range, each: Each = serially) -> Sequence[np.ndarray | BlockLowRank]:
        own = self._own_blocks(B, each)
        columns = [B[:, self.n_tasks + j] for j in range(len(self.factors))]
        width = self.link.rank * sum(factor.shape[1] for factor in self.factors)
        if is_worthwhile(width, sum(self.sizes)):
            roots = [self.link.factor(b, each) for b in columns]
            return [self._structured(own, roots, m) for m in machines]
        shared = np.zeros((sum(self.sizes), sum(self.sizes)))
        for factor, b in zip(self.factors, columns, strict=True):
            spread = factor[self._task_of_row]
            gram = self.link.combine(b, each)
            # A common part has a constant M, and needs no product with it.
            constant = spread.shape[1] == 1 and (spread == spread[0]).all()
            shared += float(spread[0, 0]) ** 2 * gram if constant else gram * (spread @ spread.T)
        for task, block in enumerate(own):
            shared[self.rows(task), self.rows(task)] += block
        if self.n_machines == 1:
            return [shared]
        return [self._machine_block(shared, m) for m in machines]

    def quadratic_forms(self, a: Sequence[np.ndarray], machines: range, each: Each = serially) -> np.ndarray:
        by_task = self.split(a, machines)
        whole = np.vstack(by_task)
        own_Q = np.zeros((self.n_kernels, self.n_tasks))
        for batch in self.own.batches():
            own_Q += self.own.quadratic_forms([by_task[t] for t in batch], batch, each)
        linked = [self.link.quadratic_forms(self._spread(factor, whole), each).sum(axis=1) for factor in self.factors]
        return np.column_stack([own_Q, *linked])

    def part_shares(self, B: np.ndarray, a: Sequence[np.ndarray]) -> np.ndarray:
        """(T, 1 + couplings): the share of each task's variance on its training rows that each part accounts for.

        A part's share is its covariance with the whole function over the variance of that, so shares sum to one.
        """
        by_task = self.split(a, range(self.n_machines))
        whole = np.vstack(by_task)
        parts = [self._own_images(B[:, : self.n_tasks], by_task)]
        for j, factor in enumerate(self.factors):
            image = self.link.image(B[:, self.n_tasks + j], self._spread(factor, whole))
            image = image.reshape(len(whole), factor.shape[1], -1)
            parts.append(np.einsum("ir,irm->im", factor[self._task_of_row], image))
        return variance_shares(parts, [self.rows(task) for task in range(self.n_tasks)])

    def _own_images(self, B: np.ndarray, by_task: Sequence[np.ndarray]) -> np.ndarray:
        """(N, m): what the tasks' own parts make of their dual variables; combined a batch at a time."""
        images = []
        for batch in self.own.batches():
            blocks = self.own.combine(B, batch)
            images += [block @ by_task[task] for task, block in zip(batch, blocks, strict=True)]
        return np.vstack(images)

    def _spread(self, factor: np.ndarray, whole: np.ndarray) -> np.ndarray:
        """whole (N, m) -> (N, r m): weighted by each column of the coupling's factor L at the rows' tasks."""
        weights = factor[self._task_of_row]
        return (weights[:, :, np.newaxis] * whole[:, np.newaxis, :]).reshape(len(whole), -1)

    def split(self, per_machine: Sequence[np.ndarray], machines: range) -> list[np.ndarray]:
        """Rows of machines -> rows of each task, in the order of the tasks."""
        parts: list[np.ndarray] = [np.empty(0)] * self.n_tasks
        for m, array in zip(machines, per_machine, strict=True):
            ends = np.cumsum([self.sizes[t] for t in self.tasks[m]])
            for task, part in zip(self.tasks[m], np.split(array, ends[:-1]), strict=True):
                parts[task] = part
        return parts

    def _own_blocks(self, B: np.ndarray, each: Each) -> list[np.ndarray]:
        own = B[:, : self.n_tasks]
        return [gram for batch in self.own.batches() for gram in self.own.combine(own, batch, each)]

    def _structured(self, own: Sequence[np.ndarray], roots: Sequence[LinkFactor], m: int) -> BlockLowRank:
        """The Gram of a machine as blocks and a factor, whose rows are kept if they are few."""
        members = self.tasks[m]
        reach = Reach(roots, [factor[members] for factor in self.factors], [self.rows(t) for t in members])
        kept = reach if 8 * reach.size > _KEPT_BYTES else [reach[i] for i in range(len(members))]
        return BlockLowRank([own[t] for t in members], kept, reach.columns, reach.rank)

    def _machine_block(self, shared: np.ndarray, m: int) -> np.ndarray:
        rows = np.concatenate([np.arange(self._ends[t] - self.sizes[t], self._ends[t]) for t in self.tasks[m]])
        return shared[np.ix_(rows, rows)]


def variance_shares(parts: Sequence[np.ndarray], rows: Sequence[slice]) -> np.ndarray:
    """Parts (N, m) of functions, and the rows of each task -> (T, parts); see `CoupledGrams.part_shares`."""
    shares = np.zeros((len(rows), len(parts)))
    for task, own in enumerate(rows):
        values = np.array([part[own] for part in parts])
        values -= values.mean(axis=1, keepdims=True)
        shares[task] = np.einsum("pim,im->p", values, values.sum(axis=0))
    total = shares.sum(axis=1, keepdims=True)
    return np.divide(shares, total, out=np.zeros_like(shares), where=total > 0)


def on_device(grams: Grams, device: str) -> Grams:
    """The Gram matrices of wide data with their operator on a device of torch."""
    own = grams.own if isinstance(grams, CoupledGrams) else grams
    if isinstance(own, SharedGrams):
        own.arrays = arrays_on(device)
    return grams
