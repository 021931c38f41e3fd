"""The Gram stacks of all machines of a problem, shared by tasks (wide data) or one for each task (long data).

A machine is one kernel machine; a component is one column of the weights B. Without couplings there is one of each for
every task. Only `combine`, `quadratic_forms` and `images` access their memory.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from threading import local
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..engines import Each, serially
from .arrays import Arrays
from .on_demand import GramOnDemand
from .operator import SharedOperator
from .stack import GramStack, half_forms

# Combined Grams held at one time, in bytes. Enough to keep the products large, little beside the stacks themselves.
_BATCH_BYTES = 1 << 28


# From so many rows on, computing the rows that support vector machines read takes less time than combining matrices.
ON_DEMAND_ROWS = 400


def on_demand_pays(n_rows: int) -> bool:
    """Whether rows of combined matrices are computed when they are read."""
    return n_rows >= ON_DEMAND_ROWS


class Grams(Protocol):
    """What an objective needs of Gram matrices."""

    n_kernels: int
    n_components: int
    n_machines: int

    def batches(self) -> Iterator[range]:
        """Machines in runs whose combined Grams fit into memory together."""
        ...

    def combine(self, B: np.ndarray, machines: range, each: Each = serially) -> Sequence[Any]:
        """B (K, J) -> the combined Gram (n_m, n_m) of each machine: an array, or a structure that can become one.

        They hold until the same thread combines again, which may write over them.
        """
        ...

    def quadratic_forms(self, a: Sequence[np.ndarray], machines: range, each: Each = serially) -> np.ndarray:
        """a (n_m, outputs) of each machine -> Q (K, J), zero for components these machines do not use."""
        ...


@runtime_checkable
class SeparateGrams(Grams, Protocol):
    """Grams of machines of which each has one component to itself."""

    @abstractmethod
    def images(
        self, a: Sequence[np.ndarray], machines: range, each: Each = serially
    ) -> tuple[np.ndarray, Sequence[np.ndarray]]:
        """Q (K, J) as above, and the G_k a (K, n_m, outputs) of each machine."""
        ...


class TaskGrams(SeparateGrams):
    """One stack for each task: long data, where tasks have rows of their own."""

    def __init__(self, stacks: Sequence[GramStack]) -> None:
        self.stacks = list(stacks)
        self.n_kernels = stacks[0].n_kernels
        self.n_components = self.n_machines = len(stacks)

    def batches(self) -> Iterator[range]:
        sizes = [8 * stack.n_rows**2 for stack in self.stacks]
        return _runs(sizes)

    def combine(self, B: np.ndarray, machines: range, each: Each = serially) -> Sequence[np.ndarray]:
        return each(lambda m: self.stacks[m].combine(B[:, m : m + 1])[0], machines)

    def quadratic_forms(self, a: Sequence[np.ndarray], machines: range, each: Each = serially) -> np.ndarray:
        Q = np.zeros((self.n_kernels, self.n_components))
        forms = each(lambda i: self.stacks[machines[i]].quadratic_forms(a[i]).sum(axis=1), range(len(machines)))
        Q[:, machines.start : machines.stop] = np.array(forms).T
        return Q

    def images(
        self, a: Sequence[np.ndarray], machines: range, each: Each = serially
    ) -> tuple[np.ndarray, Sequence[np.ndarray]]:
        images = each(lambda i: self.stacks[machines[i]].images(a[i]), range(len(machines)))
        Q = np.zeros((self.n_kernels, self.n_components))
        forms = each(lambda i: half_forms(a[i], images[i]).sum(axis=1), range(len(machines)))
        Q[:, machines.start : machines.stop] = np.array(forms).T
        return Q, images


class SharedGrams(SeparateGrams):
    """One stack for all tasks: wide data. A task without a label on some rows uses the block of its own rows."""

    def __init__(self, matrices: GramStack | SharedOperator, rows: Sequence[np.ndarray]) -> None:
        self.arrays: Arrays = Arrays()
        if isinstance(matrices, SharedOperator):
            self.operator, self.arrays = matrices, matrices.arrays
        else:
            self.stack = matrices
        self.n_rows, self.n_kernels = matrices.n_rows, matrices.n_kernels
        self.rows = [None if len(kept) == self.n_rows else kept for kept in rows]
        self.n_components = self.n_machines = len(rows)
        self.on_demand = False
        self._buffers = local()

    @cached_property
    def stack(self) -> GramStack:
        """The matrices in main memory: copied from a device where they are there alone."""
        return GramStack(self.arrays.numpy(self.operator.values))

    @cached_property
    def operator(self) -> SharedOperator:
        """The same matrices, to be applied without being combined, where `arrays` are."""
        return SharedOperator(self.arrays, self.arrays.array(self.stack.values))

    def compute_on_demand(self) -> None:
        """Let `combine` return matrices whose rows are computed when they are read, if that pays."""
        self.on_demand = on_demand_pays(self.n_rows) and self.stack.values.flags.c_contiguous

    def batches(self) -> Iterator[range]:
        if self.on_demand:
            # What is kept of each machine until the batch is done are the images of its dual variables.
            return _runs([8 * self.n_kernels * self.n_rows] * self.n_machines)
        return _runs([8 * self.n_rows**2] * self.n_machines)

    def combine(self, B: np.ndarray, machines: range, each: Each = serially) -> Sequence[Any]:
        if self.on_demand:
            return self._rows_on_demand(B, machines, each)
        whole = self.stack.combine(B[:, machines.start : machines.stop], each, self._space(len(machines)))
        return [_block(gram, self.rows[m]) for m, gram in zip(machines, whole, strict=True)]

    def _rows_on_demand(self, B: np.ndarray, machines: range, each: Each) -> Sequence[Any]:
        every = np.arange(self.n_rows)
        weights = B[:, machines.start : machines.stop]
        if len(machines) > 1 and (weights == weights[:, :1]).all():
            gram = self.stack.combine(weights[:, :1], each, self._space(1))[0]
            return [_block(gram, self.rows[m]) for m in machines]
        points = [every if (rows := self.rows[m]) is None else rows for m in machines]
        return [GramOnDemand(self.stack, B[:, m], at, self._square) for m, at in zip(machines, points, strict=True)]

    def _square(self, n: int) -> np.ndarray:
        """Memory for one matrix (n, n) that the present thread works on."""
        if not hasattr(self._buffers, "square"):
            self._buffers.square = np.empty(self.n_rows**2)
        return self._buffers.square[: n * n].reshape(n, n)

    def _space(self, count: int) -> np.ndarray:
        """Memory for so many combined Grams, the same each time: fresh memory costs as much as half of combining."""
        if len(getattr(self._buffers, "grams", ())) < count:
            self._buffers.grams = np.empty((count, self.n_rows, self.n_rows))
        return self._buffers.grams[:count]

    def quadratic_forms(self, a: Sequence[np.ndarray], machines: range, each: Each = serially) -> np.ndarray:
        spread, starts = self._spread(a, machines)
        Q = np.zeros((self.n_kernels, self.n_components))
        forms = self.stack.quadratic_forms(spread, each)
        Q[:, machines.start : machines.stop] = np.add.reduceat(forms, starts[:-1], axis=1)
        return Q

    def images(
        self, a: Sequence[np.ndarray], machines: range, each: Each = serially
    ) -> tuple[np.ndarray, Sequence[np.ndarray]]:
        spread, starts = self._spread(a, machines)
        images = self.stack.images(spread, each)
        Q = np.zeros((self.n_kernels, self.n_components))
        Q[:, machines.start : machines.stop] = np.add.reduceat(half_forms(spread, images), starts[:-1], axis=1)
        parts = np.split(images, starts[1:-1], axis=2)
        return Q, [part[:, self._rows_in_stack(m)] for m, part in zip(machines, parts, strict=True)]

    def _spread(self, a: Sequence[np.ndarray], machines: range) -> tuple[np.ndarray, np.ndarray]:
        """The a of all machines side by side, (n, outputs in all), and where each begins, (machines + 1,)."""
        starts = np.cumsum([0, *(part.shape[1] for part in a)])
        spread = np.zeros((self.n_rows, starts[-1]))
        for i, (m, part) in enumerate(zip(machines, a, strict=True)):
            spread[self._rows_in_stack(m), starts[i] : starts[i + 1]] = part
        return spread, starts

    def _rows_in_stack(self, m: int) -> Any:
        return slice(None) if self.rows[m] is None else self.rows[m]


def _block(gram: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
    return gram if rows is None else gram[np.ix_(rows, rows)]


def _runs(sizes: Sequence[int]) -> Iterator[range]:
    """Consecutive indices whose sizes stay below the batch limit (or one index that exceeds it alone)."""
    start, total = 0, 0
    for index, size in enumerate(sizes):
        if index > start and total + size > _BATCH_BYTES:
            yield range(start, index)
            start, total = index, 0
        total += size
    yield range(start, len(sizes))


def batch_bytes(sizes: Sequence[int]) -> int:
    """Bytes of the largest batch of matrices of these sizes."""
    return max(sum(sizes[run.start : run.stop]) for run in _runs(sizes))
