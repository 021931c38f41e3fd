"""Gram matrices of tasks that share parts of their functions: own blocks, plus parts that reach across tasks.

The machine of linked tasks has the Gram `blockdiag(own parts) + sum_j M_j[t, t'] G(b_j)[t, t']`. Where the shared part
has a factor of low rank, it is handed on as such, and a ridge machine costs one small factorisation for each task and
one of the rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from ..couplings import Coupling, connected_tasks
from ..decompositions import eigh
from ..engines import Each, serially
from .arrays import arrays_on
from .blocks import BlockLowRank
from .collections import Grams, SharedGrams
from .lowrank import LowRankKernels
from .stack import GramStack

# A factor is used while its columns are fewer than this share of a machine's rows.
_WORTHWHILE = 0.5


def is_worthwhile(width: int, n_rows: int) -> bool:
    """Whether a factor of so many columns is used."""
    return width <= _WORTHWHILE * n_rows


class LinkStack(Protocol):
    """The kernels over the rows of all tasks (N in all, task by task), as far as couplings need them."""

    rank: int

    def quadratic_forms(self, V: np.ndarray, each: Each) -> np.ndarray:
        """V (N, r) -> (K, r): half of v' G_k v."""
        ...

    def factor(self, b: np.ndarray, each: Each) -> np.ndarray:
        """b (K,) -> U (N, R) with U U' = G(b)."""
        ...

    def combine(self, b: np.ndarray, each: Each) -> np.ndarray:
        """b (K,) -> G(b) (N, N)."""
        ...

    def image(self, b: np.ndarray, V: np.ndarray) -> np.ndarray:
        """b (K,), V (N, r) -> G(b) V (N, r)."""
        ...


class PointStack:
    """A stack over points, of which each row of each task is one: the shared rows of wide data, or all rows."""

    def __init__(self, stack: GramStack, rows: Sequence[np.ndarray]) -> None:
        self.stack = stack
        self.place = np.concatenate(rows)
        self.rank = stack.n_rows

    def quadratic_forms(self, V: np.ndarray, each: Each) -> np.ndarray:
        return self.stack.quadratic_forms(self._at_points(V), each)

    def image(self, b: np.ndarray, V: np.ndarray) -> np.ndarray:
        return (self.stack.combine(b[:, np.newaxis])[0] @ self._at_points(V))[self.place]

    def _at_points(self, V: np.ndarray) -> np.ndarray:
        """V (N, r) summed over the rows that are the same point."""
        at_points = np.zeros((self.stack.n_rows, V.shape[1]))
        np.add.at(at_points, self.place, V)
        return at_points

    def factor(self, b: np.ndarray, each: Each) -> np.ndarray:
        values, vectors = eigh(self.stack.combine(b[:, np.newaxis], each)[0])
        return (vectors * np.sqrt(np.maximum(values, 0.0)))[self.place]

    def combine(self, b: np.ndarray, each: Each) -> np.ndarray:
        gram = self.stack.combine(b[:, np.newaxis], each)[0]
        if len(self.place) == len(gram) and np.array_equal(self.place, np.arange(len(gram))):
            return gram
        return gram[np.ix_(self.place, self.place)]


class FactorStack:
    """Kernels with exact factors of low rank; no matrix over all rows exists."""

    def __init__(self, kernels: LowRankKernels) -> None:
        self.kernels = kernels
        self.rank = kernels.rank

    def quadratic_forms(self, V: np.ndarray, each: Each) -> np.ndarray:
        forms = np.empty((self.kernels.n_kernels, V.shape[1]))
        for family in self.kernels.families:
            forms[family.kernels] = family.forms(V)
        return forms

    def factor(self, b: np.ndarray, each: Each) -> np.ndarray:
        return np.hstack([family.root(b) for family in self.kernels.families])

    def combine(self, b: np.ndarray, each: Each) -> np.ndarray:
        U = self.factor(b, each)
        return U @ U.T

    def image(self, b: np.ndarray, V: np.ndarray) -> np.ndarray:
        U = self.factor(b, serially)
        return U @ (U.T @ V)


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
            reach = self._reach([self.link.factor(b, each) for b in columns])
            return [BlockLowRank([own[t] for t in self.tasks[m]], [reach[t] for t in self.tasks[m]]) for m in machines]
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
        shares = np.zeros((self.n_tasks, len(parts)))
        for task in range(self.n_tasks):
            values = np.array([part[self.rows(task)] for part in parts])
            values -= values.mean(axis=1, keepdims=True)
            shares[task] = np.einsum("pim,im->p", values, values.sum(axis=0))
        total = shares.sum(axis=1, keepdims=True)
        return np.divide(shares, total, out=np.zeros_like(shares), where=total > 0)

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

    def _reach(self, roots: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For each task the factor (n_t, R) of its shared parts: roots of G(b_j), weighted by the task's L_j[t]."""
        return [
            np.hstack(
                [
                    weight * root[self.rows(task)]
                    for factor, root in zip(self.factors, roots, strict=True)
                    for weight in factor[task]
                ]
            )
            for task in range(self.n_tasks)
        ]

    def _machine_block(self, shared: np.ndarray, m: int) -> np.ndarray:
        rows = np.concatenate([np.arange(self._ends[t] - self.sizes[t], self._ends[t]) for t in self.tasks[m]])
        return shared[np.ix_(rows, rows)]


def on_device(grams: Grams, device: str) -> Grams:
    """The Gram matrices of wide data with their operator on a device of torch."""
    own = grams.own if isinstance(grams, CoupledGrams) else grams
    if isinstance(own, SharedGrams):
        own.arrays = arrays_on(device)
    return grams
