"""A Gram matrix of own blocks plus a factor of low rank: solved by one factorisation a block and one of the rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..decompositions import Cholesky


class BlockLowRank:
    """G = blockdiag(blocks) + U U', with U (n, R) given block by block.

    Parameters
    ----------
    blocks : symmetric matrices (n_t, n_t).
    reach : the rows of U of each block, (n_t, R).
    """

    def __init__(self, blocks: Sequence[np.ndarray], reach: Sequence[np.ndarray]) -> None:
        self.blocks, self.reach = list(blocks), list(reach)
        self.ends = np.cumsum([len(block) for block in self.blocks])

    @property
    def shape(self) -> tuple[int, int]:
        n = int(self.ends[-1])
        return n, n

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        """The matrix written out, for machines that need its entries."""
        U = np.vstack(self.reach)
        dense = U @ U.T
        for block, end in zip(self.blocks, self.ends, strict=True):
            rows = slice(end - len(block), end)
            dense[rows, rows] += block
        return dense if dtype is None else dense.astype(dtype)

    def __matmul__(self, a: np.ndarray) -> np.ndarray:
        parts = self._split(a)
        middle = sum(U.T @ part for U, part in zip(self.reach, parts, strict=True))
        return np.vstack(
            [block @ part + U @ middle for block, U, part in zip(self.blocks, self.reach, parts, strict=True)]
        )

    def select(self, blocks: Sequence[int]) -> BlockLowRank:
        """Return the matrix of some of the blocks."""
        return BlockLowRank([self.blocks[b] for b in blocks], [self.reach[b] for b in blocks])

    def solver(self, root: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """root (n, 1) = sqrt(C) -> a function that solves `(I + root G root') x = r` for r (n, m), by Woodbury.

        Raises LinAlgError where there is no Cholesky factor. Entries are then of size 1e16 and more, for which the
        differences below have no digits left: the entries of the matrix have to be factorised instead.
        """
        pairs = list(zip(self.blocks, self._split(root), strict=True))
        factors = [Cholesky(part * block * part.T) for block, part in pairs]
        reach = [part * U for U, (_, part) in zip(self.reach, pairs, strict=True)]
        damped = [factor.solve(U) for factor, U in zip(factors, reach, strict=True)]
        core = Cholesky(np.sum([U.T @ Z for U, Z in zip(reach, damped, strict=True)], axis=0))

        def solve(r: np.ndarray) -> np.ndarray:
            direct = [factor.solve(part) for factor, part in zip(factors, self._split(r), strict=True)]
            through = core.solve(sum(Z.T @ part for Z, part in zip(reach, direct, strict=True)))
            return np.vstack([part - Z @ through for part, Z in zip(direct, damped, strict=True)])

        return solve

    def _split(self, array: np.ndarray) -> list[np.ndarray]:
        return np.split(array, self.ends[:-1])
