"""Gram matrices of tasks that share parts of their functions: own blocks, plus parts that reach across tasks.

The machine of linked tasks has the Gram `blockdiag(own parts) + sum_j M_j[t, t'] G(b_j)[t, t']`. Where the shared part
has a factor of low rank, it is handed on as such, and a ridge machine costs one small factorisation for each task and
one of the rank.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

import numpy as np

from ...decompositions import eigh
from ...engines import Each, serially
from ..couplings import Coupling, connected_tasks
from .blocks import BlockLowRank
from .lowrank import LowRankKernels
from .operator import arrays_on
from .stack import Grams, GramStack, SharedGrams


class LinkFactor:
    """A factor U (N, R), computed for the rows that are asked for.

    Parameters
    ----------
    parts : pairs of Phi (n, r) and S (r, R), or its diagonal (r,), of which U is Phi S side by side.
    place : (N,) the row of Phi that each row of U has; None where it is the same one.
    """

    def __init__(self, parts: Sequence[tuple[np.ndarray, np.ndarray]], place: np.ndarray | None = None) -> None:
        self.parts = [part for part in parts if part[1].shape[-1]]
        self.place = place
        self.width = sum(S.shape[-1] for _, S in self.parts)

    def rows(self, where: slice) -> np.ndarray:
        """Some of the rows, (n, R)."""
        rows = where if self.place is None else self.place[where]
        return np.hstack(
            [Phi[rows] * S if S.ndim == 1 else Phi[rows] @ S for Phi, S in self.parts] or [np.zeros((0, 0))]
        )


class PointStack:
    """A stack over points, of which each row of each task is one: the shared rows of wide data, or all rows.

    N rows in all, task by task.
    """

    def __init__(self, stack: GramStack, rows: Sequence[np.ndarray]) -> None:
        self.stack = stack
        self.place = np.concatenate(rows)
        self.rank = stack.n_rows

    def quadratic_forms(self, V: np.ndarray, each: Each) -> np.ndarray:
        """V (N, r) -> (K, r): half of v' G_k v."""
        return self.stack.quadratic_forms(self._at_points(V), each)

    def image(self, b: np.ndarray, V: np.ndarray) -> np.ndarray:
        """b (K,), V (N, r) -> G(b) V (N, r)."""
        return (self.stack.combine(b[:, np.newaxis])[0] @ self._at_points(V))[self.place]

    def _at_points(self, V: np.ndarray) -> np.ndarray:
        """V (N, r) summed over the rows that are the same point."""
        at_points = np.zeros((self.stack.n_rows, V.shape[1]))
        np.add.at(at_points, self.place, V)
        return at_points

    def factor(self, b: np.ndarray, each: Each) -> LinkFactor:
        """b (K,) -> U (N, R) with U U' = G(b)."""
        values, vectors = eigh(self.stack.combine(b[:, np.newaxis], each)[0])
        return LinkFactor([(vectors, np.sqrt(np.maximum(values, 0.0)))], self.place)

    def combine(self, b: np.ndarray, each: Each) -> np.ndarray:
        """b (K,) -> G(b) (N, N)."""
        gram = self.stack.combine(b[:, np.newaxis], each)[0]
        if len(self.place) == len(gram) and np.array_equal(self.place, np.arange(len(gram))):
            return gram
        return gram[np.ix_(self.place, self.place)]


class FactorStack:
    """The same of kernels with factors of low rank; no matrix over all rows exists."""

    def __init__(self, kernels: LowRankKernels) -> None:
        self.kernels = kernels
        self.rank = kernels.rank

    def quadratic_forms(self, V: np.ndarray, each: Each) -> np.ndarray:
        forms = np.empty((self.kernels.n_kernels, V.shape[1]))
        for family in self.kernels.families:
            forms[family.kernels] = family.forms(V)
        return forms

    def factor(self, b: np.ndarray, each: Each) -> LinkFactor:
        return LinkFactor([(family.factor, family.root(b)) for family in self.kernels.families])

    def combine(self, b: np.ndarray, each: Each) -> np.ndarray:
        U = self.factor(b, each).rows(slice(None))
        return U @ U.T

    def image(self, b: np.ndarray, V: np.ndarray) -> np.ndarray:
        out = np.zeros(V.shape)
        for family in self.kernels.families:
            out += family.factor @ (family.core(b) @ (family.factor.T @ V))
        return out


# The kernels over the rows of all tasks, as far as couplings need them.
LinkStack = PointStack | FactorStack


class Reach(Sequence[np.ndarray]):
    """The factors (n_t, R_t) of the shared parts of each task: roots of G(b_j), weighted by the task's L_j[t].

    Parameters
    ----------
    roots : of each coupling.
    factors : L (T, r) of each coupling.
    rows : of each task.
    """

    def __init__(self, roots: Sequence[LinkFactor], factors: Sequence[np.ndarray], rows: Sequence[slice]) -> None:
        self.roots, self.factors, self.places = roots, factors, rows
        self.rank = sum(root.width * factor.shape[1] for root, factor in zip(roots, factors, strict=True))
        self.columns = None if all(factor.all() for factor in factors) else [self._columns(t) for t in range(len(rows))]

    @property
    def size(self) -> int:
        """Numbers in all of them."""
        sizes = [rows.stop - rows.start for rows in self.places]
        widths = [self.rank] * len(sizes) if self.columns is None else [len(columns) for columns in self.columns]
        return sum(n * width for n, width in zip(sizes, widths, strict=True))

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, t: int) -> np.ndarray: ...
    @overload
    def __getitem__(self, t: slice) -> list[np.ndarray]: ...
    def __getitem__(self, t: int | slice) -> np.ndarray | list[np.ndarray]:
        if isinstance(t, slice):
            return [self[i] for i in range(len(self))[t]]
        where = self.places[t]
        parts = [np.zeros((where.stop - where.start, 0))]
        for root, factor in zip(self.roots, self.factors, strict=True):
            weights = factor[t][factor[t] != 0]
            rows = root.rows(where) if len(weights) and root.width else parts[0]
            parts += [rows if weight == 1.0 else weight * rows for weight in weights]
        return parts[1] if len(parts) == 2 else np.hstack(parts)

    def _columns(self, t: int) -> np.ndarray:
        """The positions of a task's columns among all."""
        found, start = [np.empty(0, dtype=np.intp)], 0
        for root, factor in zip(self.roots, self.factors, strict=True):
            for weight in factor[t]:
                if weight != 0:
                    found.append(np.arange(start, start + root.width))
                start += root.width
        return np.concatenate(found)


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
