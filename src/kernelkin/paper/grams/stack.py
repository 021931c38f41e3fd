"""Gram matrices of K kernels on one set of rows, and those of all machines of a problem.

All sums are computed in float64, also for stacks in float32, so that primal values and bounds agree.
A machine is one kernel machine; a component is one column of the weights B. Without couplings there is one of each for
every task, with a stack of its own (long data) or one that all tasks share (wide data).

Gram matrices of a problem (`TaskGrams`, `SharedGrams`, `CoupledGrams`) have `n_kernels`, `n_components` and

- `gram_bytes`: the size of each machine's combined Gram, which limits how many are combined together (see `runs`); 0
  if machines must be solved together;
- `combine(B, machines, each)`: B (K, J) -> the combined Gram (n_m, n_m) of each machine, an array or a structure that
  can become one. The next call in the same thread may overwrite them;
- `quadratic_forms(a, machines, each)`: a (n_m, outputs) of each machine -> Q (K, J), zero for components these machines
  do not use;
- `images(a, machines, each)`, where each machine has one component: Q, and the G_k a (K, n_m, outputs) of each machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from threading import local
from typing import Any

import numpy as np

from ...engines.threads import Each, serially
from .operator import Arrays, SharedOperator

# Work on a stack is cut into pieces of a fixed size, not of a size that depends on the number of threads, so that every
# sum is added up in the same order whatever `n_jobs` is. A piece of a product stays in cache, and a block of rows does.
_PIECE, _BLOCK = 1 << 13, 64
# Up to this many, products of pairs of rows are stored: one matrix product over the stack is then enough.
_SMALL = 1 << 16
# Bytes of the combined Gram matrices of a batch: enough for fast products, little compared with the stacks.
BATCH_BYTES = 1 << 29

Images = tuple[np.ndarray, Sequence[np.ndarray]]


class GramStack:
    """values (K, n, n), symmetric in the last two axes, float32 or float64."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values
        self.n_kernels, self.n_rows = values.shape[:2]

    def combine(self, weights: np.ndarray, each: Each = serially, out: np.ndarray | None = None) -> np.ndarray:
        """weights (K, m) -> (m, n, n) float64: the m combined Grams, in one pass over the stack; in `out` if given."""
        flat = self.values.reshape(self.n_kernels, -1)
        combined = np.empty((weights.shape[1], *self.values.shape[1:])) if out is None else out
        target = combined.reshape(len(combined), -1)
        used = np.flatnonzero(weights.any(axis=1))
        rows = used if len(used) <= self.n_kernels // 2 else slice(None)
        by_output = np.ascontiguousarray(weights[rows].T, dtype=np.float64)
        pieces = (slice(start, start + _PIECE) for start in range(0, flat.shape[1], _PIECE))
        each(lambda at: np.matmul(by_output, flat[rows, at].astype(np.float64, copy=False), out=target[:, at]), pieces)
        return combined

    def quadratic_forms(self, a: np.ndarray, each: Each = serially) -> np.ndarray:
        """a (n, m) -> (K, m): half of a_j' G_k a_j."""
        used = np.flatnonzero(a.any(axis=1))
        if len(used) < len(a) // 2:
            # Only the rows and columns of support vectors are needed.
            return GramStack(take_block(self.values, used, used)).quadratic_forms(a[used], each)
        if len(a) * a.size <= _SMALL:
            products = (a[:, np.newaxis] * a).reshape(-1, a.shape[1])
            forms = 0.5 * (self.values.reshape(self.n_kernels, -1).astype(np.float64, copy=False) @ products)
        else:
            forms = np.array(each(lambda gram: _half_forms(gram, a), self.values))
        # The forms are non-negative; rounding, or a Gram indefinite within rounding, can leave a trace below zero.
        return np.maximum(forms, 0.0)

    def images(self, a: np.ndarray, each: Each = serially) -> tuple[np.ndarray, np.ndarray]:
        """a (n, m) -> (K, n, m) float64: G_k a; and (K, m): half of a_j' G_k a_j, as `quadratic_forms` gives them."""
        flat, length = self.values.reshape(-1, self.n_rows), max(1, _SMALL // self.n_rows)
        products = np.empty((len(flat), a.shape[1]))
        pieces = (slice(start, start + length) for start in range(0, len(flat), length))
        each(lambda at: np.matmul(flat[at].astype(np.float64, copy=False), a, out=products[at]), pieces)
        images = products.reshape(self.n_kernels, *a.shape)
        return images, np.maximum(0.5 * np.einsum("im,kim->km", a, images), 0.0)


def take_block(stack: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return the rows and columns at these positions of a stack (K, n, n), contiguous for each kernel.

    It copies a few rows at a time, which stay in cache: about twice as fast as `np.ix_`.
    """
    block = np.empty((len(stack), len(rows), len(columns)), dtype=stack.dtype)
    for gram, part in zip(stack, block, strict=True):
        for start in range(0, len(rows), _BLOCK):
            piece = slice(start, start + _BLOCK)
            # Positions are valid; "clip" is the mode that writes into `out` without a copy.
            gram.take(rows[piece], axis=0).take(columns, axis=1, out=part[piece], mode="clip")
    return block


def _half_forms(gram: np.ndarray, a: np.ndarray) -> np.ndarray:
    """G (n, n), a (n, m) -> (m,): half of a_j' G a_j, from the upper triangle of G alone."""
    total = np.zeros(a.shape[1])
    for start in range(0, len(a), _BLOCK):
        rows, right = slice(start, start + _BLOCK), a[start:].copy()
        right[:_BLOCK] *= 0.5  # of the block on the diagonal, both triangles are read
        total += np.einsum("ij,ij->j", a[rows], gram[rows, start:].astype(np.float64, copy=False) @ right)
    return total


class TaskGrams:
    """One stack for each task: long data, where tasks have rows of their own."""

    def __init__(self, stacks: Sequence[GramStack]) -> None:
        self.stacks = list(stacks)
        self.n_kernels = stacks[0].n_kernels
        self.n_components = len(stacks)
        self.gram_bytes = [8 * stack.n_rows**2 for stack in stacks]

    def combine(self, B: np.ndarray, machines: range, each: Each = serially) -> Sequence[np.ndarray]:
        return each(lambda m: self.stacks[m].combine(B[:, m : m + 1])[0], machines)

    def quadratic_forms(self, a: Sequence[np.ndarray], machines: range, each: Each = serially) -> np.ndarray:
        Q = np.zeros((self.n_kernels, self.n_components))
        forms = each(lambda i: self.stacks[machines[i]].quadratic_forms(a[i]).sum(axis=1), range(len(machines)))
        Q[:, machines.start : machines.stop] = np.array(forms).T
        return Q

    def images(self, a: Sequence[np.ndarray], machines: range, each: Each = serially) -> Images:
        found = each(lambda i: self.stacks[machines[i]].images(a[i]), range(len(machines)))
        Q = np.zeros((self.n_kernels, self.n_components))
        Q[:, machines.start : machines.stop] = np.array([forms.sum(axis=1) for _, forms in found]).T
        return Q, [images for images, _ in found]


class SharedGrams:
    """One stack for all tasks: wide data. A task without a label on some rows uses the block of its own rows."""

    def __init__(self, stack: GramStack, rows: Sequence[np.ndarray]) -> None:
        self.stack, self.arrays = stack, Arrays()
        self.n_rows, self.n_kernels = stack.n_rows, stack.n_kernels
        self.rows: list[Any] = [slice(None) if len(kept) == self.n_rows else kept for kept in rows]
        self.n_components = len(rows)
        self.gram_bytes = [8 * self.n_rows**2] * self.n_components
        self._buffers = local()

    @cached_property
    def operator(self) -> SharedOperator:
        """These matrices as an operator, which applies them without combining them, where `arrays` are."""
        return SharedOperator(self.arrays, self.arrays.array(self.stack.values))

    def combine(self, B: np.ndarray, machines: range, each: Each = serially) -> Sequence[np.ndarray]:
        weights = B[:, machines.start : machines.stop]
        if len(machines) > 1 and (weights == weights[:, :1]).all():
            weights = weights[:, :1]
        count, shape = weights.shape[1], (weights.shape[1], self.n_rows, self.n_rows)
        # Each thread reuses its buffer: allocating one would take half as long as combining.
        if len(getattr(self._buffers, "grams", ())) < count:
            self._buffers.grams = np.empty(shape)
        grams = self.stack.combine(weights, each, self._buffers.grams[:count])
        whole = grams if count == len(machines) else [grams[0]] * len(machines)
        blocks = zip((self.rows[m] for m in machines), whole, strict=True)
        return [gram if isinstance(rows, slice) else gram[np.ix_(rows, rows)] for rows, gram in blocks]

    def quadratic_forms(self, a: Sequence[np.ndarray], machines: range, each: Each = serially) -> np.ndarray:
        spread, starts = self._spread(a, machines)
        return self._sums(self.stack.quadratic_forms(spread, each), starts, machines)

    def images(self, a: Sequence[np.ndarray], machines: range, each: Each = serially) -> Images:
        spread, starts = self._spread(a, machines)
        images, forms = self.stack.images(spread, each)
        parts = np.split(images, starts[1:-1], axis=2)
        found = [part[:, self.rows[m]] for m, part in zip(machines, parts, strict=True)]
        return self._sums(forms, starts, machines), found

    def _spread(self, a: Sequence[np.ndarray], machines: range) -> tuple[np.ndarray, np.ndarray]:
        """The a of all machines side by side, (n, outputs in all), and where each begins, (machines + 1,)."""
        starts = np.cumsum([0, *(part.shape[1] for part in a)])
        spread = np.zeros((self.n_rows, starts[-1]))
        for i, (m, part) in enumerate(zip(machines, a, strict=True)):
            spread[self.rows[m], starts[i] : starts[i + 1]] = part
        return spread, starts

    def _sums(self, forms: np.ndarray, starts: np.ndarray, machines: range) -> np.ndarray:
        """Forms (K, outputs in all) -> Q (K, J): their sum over the outputs of each machine."""
        Q = np.zeros((self.n_kernels, self.n_components))
        Q[:, machines.start : machines.stop] = np.add.reduceat(forms, starts[:-1], axis=1)
        return Q


def runs(sizes: Sequence[int], limit: int | None = None) -> Iterator[range]:
    """Consecutive indices whose sizes stay below a limit in bytes (or one index that exceeds it alone)."""
    limit = BATCH_BYTES if limit is None else limit
    start, total = 0, 0
    for index, size in enumerate(sizes):
        if index > start and total + size > limit:
            yield range(start, index)
            start, total = index, 0
        total += size
    yield range(start, len(sizes))
