"""Rows in blocks, on which the terms of a mixed kernel model are evaluated.

A block is a set of rows whose covariance is a dense matrix; rows of different blocks are linked only by features. Exact
models have one block of all rows. With many rows, each group of the first grouping is a block. Blocks of similar size
are padded to a batch, so that a hundred thousand groups of three rows need only a few array operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .arrays import Array, library, on_device, to_float

# A batch is full if another block would lead to more padding than this share, or to more rows or pairs of rows than
# these. (The features of a batch should fit into the processor cache.)
MAX_PADDING = 0.3
MAX_ROWS = 4_096
MAX_ENTRIES = 1_000_000


@dataclass(frozen=True)
class Rows:
    """Rows in blocks that are padded to one size."""

    X: Array  # (b, n, d) columns in standard units
    groups: tuple[Array, ...]  # for each grouping (b, n), the position of each row's group; -1 if unknown
    mask: Array | None = None  # (b, n) False for padding; None without padding

    def take(self, blocks: Array) -> Rows:
        """Return some of the blocks."""
        mask = None if self.mask is None else self.mask[blocks]
        return Rows(self.X[blocks], tuple(part[blocks] for part in self.groups), mask)

    def to(self, device: str | None) -> Rows:
        """Return the rows as tensors on a torch device; without a device, return them unchanged."""
        groups = tuple(on_device(part, device) for part in self.groups)
        return Rows(on_device(self.X, device), groups, on_device(self.mask, device))


@dataclass(frozen=True)
class Pairs:
    """Pairs of rows of the same blocks, with cached values that do not depend on parameters."""

    # A, B: rows (b, n, d) and (b, m, d).
    A: Rows
    B: Rows
    sharing: float  # the factor of common terms inside blocks: 1 in exact models, 0 if features represent them
    given: tuple[Array, ...] = ()  # values (b, n, m) of each user-supplied kernel

    @cached_property
    def same(self) -> tuple[Array, ...]:
        """For each grouping (b, n, m): 1 if both rows are in the same group, else 0; 0 for padding."""
        return tuple(
            to_float((a[:, :, None] == b[:, None, :]) & (a >= 0)[:, :, None])
            for a, b in zip(self.A.groups, self.B.groups, strict=True)
        )

    @cached_property
    def both(self) -> Array | None:
        """Mask (b, n, m) with 0 for padding; None without padding."""
        A, B = self.A.mask, self.B.mask
        if A is None and B is None:
            return None
        return to_float((True if A is None else A[:, :, None]) & (True if B is None else B[:, None, :]))

    @cached_property
    def all_gaps(self) -> tuple[Array, list[Array]]:
        """Positions of k pairs of rows in (b, n, m); if B is A, one of (i, j) and (j, i), and none with i = j.

        And, for each column (k,), sqrt(5) times the distance between both rows, used by Matern kernels.
        """
        return self._gaps(library(self.A.X).ones_like(self.same[0]))

    @cached_property
    def own_gaps(self) -> tuple[Array, list[Array]]:
        """The same for pairs of rows in one group of the first grouping."""
        return self._gaps(self.same[0])

    def _gaps(self, used: Array) -> tuple[Array, list[Array]]:
        used = (library(used).triu(used, 1) if self.A is self.B else used).reshape(-1).nonzero()
        A, B = 5.0**0.5 * self.A.X, 5.0**0.5 * self.B.X
        used = used[0] if isinstance(used, tuple) else used[:, 0]
        gaps = [library(A).abs(A[:, :, j, None] - B[:, None, :, j]).reshape(-1)[used] for j in range(A.shape[2])]
        return used, gaps

    def to(self, device: str | None) -> Pairs:
        """Return the pairs as tensors on a torch device; A and B must be the same rows. Unchanged without a device."""
        if device is None:
            return self
        rows = self.A.to(device)
        return Pairs(rows, rows, self.sharing, tuple(on_device(kernel, device) for kernel in self.given))

    def __getstate__(self) -> dict[str, Any]:
        # Cached matrices of all rows are not pickled but computed again.
        cached = ("same", "both", "all_gaps", "own_gaps")
        return {name: part for name, part in vars(self).items() if name not in cached}


def batches_of(codes: np.ndarray, most_rows: int = MAX_ROWS) -> list[np.ndarray]:
    """Return tables (b, n) of row numbers, -1 for padding, with blocks of similar size in one table."""
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes)
    starts = np.cumsum(counts) - counts
    by_size = np.argsort(counts, kind="stable")
    by_size = by_size[counts[by_size] > 0]
    found, begin = [], 0
    while begin < len(by_size):
        end = begin + _length_of_batch(counts[by_size[begin : begin + most_rows]], most_rows)
        members = by_size[begin:end]
        at = np.arange(int(counts[members].max()))
        rows = order[np.minimum(starts[members][:, None] + at, len(order) - 1)]
        found.append(np.where(at < counts[members][:, None], rows, -1))
        begin = end
    return found


def _length_of_batch(sizes: np.ndarray, most_rows: int) -> int:
    """Return the number of blocks in the first batch, for block sizes in ascending order."""
    number = np.arange(1, len(sizes) + 1)
    padding = 1 - np.cumsum(sizes) / (number * sizes)
    pairs = number * sizes.astype(float) ** 2
    fits = (padding <= MAX_PADDING) & (number * sizes <= most_rows) & (pairs <= MAX_ENTRIES)
    fits[0] = True
    return len(sizes) if fits.all() else int(np.argmin(fits))


def take(array: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Return the entries (b, n, ...) of an array (N, ...) at a table (b, n) of row numbers; zero for padding."""
    found = array[np.maximum(table, 0)]
    if (table < 0).any():
        found = found * (table >= 0).reshape(table.shape + (1,) * (array.ndim - 1))
    return found


def rows_of_table(X: np.ndarray, groups: Sequence[np.ndarray], table: np.ndarray) -> Rows:
    """Return the rows of a table (b, n) of row numbers of X (N, d) and of the codes (N,) of each grouping."""
    mask = table >= 0
    codes = tuple(np.where(mask, part[np.maximum(table, 0)], -1) for part in groups)
    return Rows(take(X, table), codes, None if mask.all() else mask)
