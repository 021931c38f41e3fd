"""Rows in blocks: what the terms of a mixed kernel model are evaluated on.

A block is a set of rows whose covariance is a dense matrix; rows of different blocks are tied by features alone. Exact
models have one block of all rows. With many rows each group of the first grouping is a block, and blocks of like size
are padded to a batch, so that a hundred thousand groups of three rows are a few array operations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

# A batch ends where padding would make up more than this share of it, or where V would have more entries than this.
MAX_PADDING = 0.3
MAX_ENTRIES = 4_000_000


@dataclass(frozen=True)
class Rows:
    """Rows in blocks that are padded to one size.

    Attributes
    ----------
    X : (b, n, d) columns in standard units.
    groups : for each grouping (b, n), the position of each row's group; -1 where it is not known.
    mask : (b, n) false for padding; None where there is none.
    """

    X: np.ndarray
    groups: tuple[np.ndarray, ...]
    mask: np.ndarray | None = None


@dataclass(frozen=True)
class Pairs:
    """Pairs of rows of the same blocks, with what terms need of them that does not depend on parameters.

    Attributes
    ----------
    A, B : rows (b, n, d) and (b, m, d).
    sharing : the factor of common terms inside blocks: 1 in exact models, 0 where features stand for them.
    given : for each kernel that the user gave, its values (b, n, m).
    """

    A: Rows
    B: Rows
    sharing: float
    given: tuple[np.ndarray, ...] = ()

    @cached_property
    def same(self) -> tuple[np.ndarray, ...]:
        """For each grouping (b, n, m): 1 where both rows are in one group; 0 for padding."""
        return tuple(
            ((a[:, :, None] == b[:, None, :]) & (a >= 0)[:, :, None]).astype(np.float64)
            for a, b in zip(self.A.groups, self.B.groups, strict=True)
        )

    @cached_property
    def both(self) -> np.ndarray | None:
        """(b, n, m) 0 for padding; None where there is none."""
        if self.A.mask is None and self.B.mask is None:
            return None
        left, right = (np.ones(R.X.shape[:2], bool) if R.mask is None else R.mask for R in (self.A, self.B))
        return (left[:, :, None] & right[:, None, :]).astype(np.float64)

    @cached_property
    def gaps(self) -> list[np.ndarray]:
        """For each column (b, n, m): sqrt(5) times the distance of both rows, what Matern kernels of it depend on."""
        A, B = np.sqrt(5.0) * self.A.X, np.sqrt(5.0) * self.B.X
        return [np.abs(A[:, :, j, None] - B[:, None, :, j]) for j in range(A.shape[2])]

    def __getstate__(self) -> dict[str, Any]:
        # What is computed from the rows is computed anew: a pickle has no matrices of all rows.
        return {name: part for name, part in vars(self).items() if name not in ("same", "both", "gaps")}


def batches_of(codes: np.ndarray) -> list[np.ndarray]:
    """Codes (N,) of the blocks of rows -> tables (b, n) of row numbers, -1 for padding; blocks of like size in one."""
    order = np.argsort(codes, kind="stable")
    counts = np.bincount(codes)
    starts = np.cumsum(counts) - counts
    by_size = np.argsort(counts, kind="stable")
    by_size = by_size[counts[by_size] > 0]
    found, begin = [], 0
    while begin < len(by_size):
        end = begin + _length_of_batch(counts[by_size[begin:]])
        members = by_size[begin:end]
        at = np.arange(int(counts[members].max()))
        rows = order[np.minimum(starts[members][:, None] + at, len(order) - 1)]
        found.append(np.where(at < counts[members][:, None], rows, -1))
        begin = end
    return found


def _length_of_batch(sizes: np.ndarray) -> int:
    """Sizes of blocks in ascending order -> how many of the first make a batch."""
    number = np.arange(1, len(sizes) + 1)
    padding = 1 - np.cumsum(sizes) / (number * sizes)
    fits = (padding <= MAX_PADDING) & (number * sizes.astype(float) ** 2 <= MAX_ENTRIES)
    fits[0] = True
    return len(sizes) if fits.all() else int(np.argmin(fits))


def take(array: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Entries (N, ...) of the rows of a table (b, n) -> (b, n, ...), zero for padding."""
    found = array[np.maximum(table, 0)]
    if (table < 0).any():
        found = found * (table >= 0).reshape(table.shape + (1,) * (array.ndim - 1))
    return found


def rows_of_table(X: np.ndarray, groups: Sequence[np.ndarray], table: np.ndarray) -> Rows:
    """Return the rows of a table (b, n) of row numbers of X (N, d) and of the codes (N,) of each grouping."""
    mask = table >= 0
    codes = tuple(np.where(mask, part[np.maximum(table, 0)], -1) for part in groups)
    return Rows(take(X, table), codes, None if mask.all() else mask)
