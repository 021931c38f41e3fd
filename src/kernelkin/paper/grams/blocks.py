"""A Gram matrix of own blocks plus a factor of low rank: solved by one factorisation a block and one of the rank."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg.blas import dsyrk

from ...decompositions import Cholesky

# Rows of matrices whose squares are added up by one product.
_ROWS = 1024


class BlockLowRank:
    """G = blockdiag(blocks) + U U', with U (n, R) given block by block.

    Parameters
    ----------
    blocks : symmetric matrices (n_t, n_t).
    reach : the rows of U of each block, (n_t, R_t): its columns `columns[t]`, the only ones that are not zero there.
        They may be computed on access.
    columns : for each block, the positions (R_t,) of these columns among all R; None where each has all of them.
    rank : R.
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

    @property
    def shape(self) -> tuple[int, int]:
        n = int(self.ends[-1])
        return n, n

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        """The matrix written out, for machines that need its entries."""
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

    @property
    def rows(self) -> list[slice]:
        """The rows of each block."""
        return [slice(end - len(block), end) for block, end in zip(self.blocks, self.ends.tolist(), strict=True)]

    def at(self, t: int) -> slice | np.ndarray:
        """Which columns of U the rows of a block have."""
        return slice(None) if self.columns is None else self.columns[t]

    def take(self, rows: np.ndarray) -> BlockLowRank:
        """The matrix of some rows (m,), ascending; blocks of which none is left are left out."""
        parts = np.split(rows, np.searchsorted(rows, self.ends[:-1]))
        kept = [(t, part - self.rows[t].start) for t, part in enumerate(parts) if len(part)]
        return BlockLowRank(
            [self.blocks[t][np.ix_(part, part)] for t, part in kept],
            [self.reach[t][part] for t, part in kept],
            None if self.columns is None else [self.columns[t] for t, _ in kept],
            self.rank,
        )

    def select(self, blocks: Sequence[int]) -> BlockLowRank:
        """The matrix of some of the blocks."""
        columns = None if self.columns is None else [self.columns[b] for b in blocks]
        return BlockLowRank([self.blocks[b] for b in blocks], [self.reach[b] for b in blocks], columns, self.rank)

    def solver(self, root: np.ndarray, borders: Sequence[np.ndarray] | None = None) -> BlockSystem:
        """root (n, 1) = sqrt(C) -> the factors of `I + P root G root' P`; see `BlockSystem`.

        `borders` are the columns that P projects out, orthonormal and zero outside one block, (n_t, g_t) for each.
        """
        return BlockSystem(self, root, borders)


class BlockSystem:
    """The system `I + P root G root' P`, factorised by Woodbury.

    With I + (root G_t root') projected = L_t L_t' for each block, W_t = inv(L_t) P root U_t and the core
    I + sum_t W_t' W_t, its inverse is `inv(L L') - inv(L') W inv(core) W' inv(L)`.

    Raises LinAlgError where there is no Cholesky factor. Entries are then of size 1e16 and more, for which the
    differences above have no digits left: the entries of the matrix have to be factorised instead.
    """

    def __init__(self, gram: BlockLowRank, root: np.ndarray, borders: Sequence[np.ndarray] | None) -> None:
        self.gram, self.borders = gram, borders
        self._factors: list[Cholesky] = []
        self.halves: list[np.ndarray] = []
        core = SquareSum(gram.rank)
        for t, (rows, block) in enumerate(zip(gram.rows, gram.blocks, strict=True)):
            scaled = root[rows] * block * root[rows].T
            self._factors.append(Cholesky(self._project(t, self._project(t, scaled).T)))
            self.halves.append(self._half(t, root[rows] * gram.reach[t]))
            core.add(self.halves[t], gram.at(t))
        self.core = Cholesky(core.total())

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
            through[self.gram.at(t)] += self.halves[t].T @ halves[t]
        through = self.core.solve(through)
        x = np.empty(r.shape)
        for t, rows in enumerate(self.gram.rows):
            x[rows] = self._factors[t].second_half(halves[t] - self.halves[t] @ through[self.gram.at(t)])
        return x

    def diagonal(self) -> np.ndarray:
        """(n,) the diagonal of the inverse, projected."""
        diagonal = np.empty(len(self.gram))
        for t, rows in enumerate(self.gram.rows):
            whole = np.zeros((self.gram.rank, self.halves[t].shape[0]))
            whole[self.gram.at(t)] = self._factors[t].second_half(self.halves[t]).T
            own = np.square(self._half(t, np.eye(len(self.gram.blocks[t])))).sum(axis=0)
            diagonal[rows] = own - np.square(self.core.half(whole)).sum(axis=0)
        return diagonal


class SquareSum:
    """The upper triangle of the sum of W_t'W_t (R, R) over matrices W_t (n_t, R_t) that have some of R columns each.

    Matrices with few rows are put together first: a product for each would read and write all R^2 numbers.
    """

    def __init__(self, width: int) -> None:
        self._sum = np.zeros((width, width))
        self._waiting: list[np.ndarray] = []

    def add(self, W: np.ndarray, columns: slice | np.ndarray) -> None:
        """Add W'W (R_t, R_t) at these columns."""
        if not isinstance(columns, slice):
            self._sum[np.ix_(columns, columns)] += W.T @ W
            return
        self._waiting.append(W)
        if sum(map(len, self._waiting)) >= _ROWS:
            self._add_waiting()

    def total(self) -> np.ndarray:
        """(R, R); what is below the diagonal is undefined."""
        self._add_waiting()
        return self._sum

    def _add_waiting(self) -> None:
        if self._waiting and len(self._sum):
            stacked = np.vstack(self._waiting)
            # In place and in one triangle: with few rows, passes over the matrix take as long as the product.
            self._sum = dsyrk(1.0, stacked.T, beta=1.0, c=self._sum.T, lower=1, overwrite_c=1).T
        self._waiting.clear()
