"""A Gram matrix of own blocks plus a factor of low rank: solved by one factorisation a block and one of the rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.linalg import cho_factor, cho_solve


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

    def solver(self, root: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """root (n, 1) = sqrt(C) -> a function that solves `(I + root G root') x = r` for r (n, m), by Woodbury."""
        roots = self._split(root)
        factors = [
            cho_factor(np.eye(len(block)) + part * block * part.T, lower=True, overwrite_a=True, check_finite=False)
            for block, part in zip(self.blocks, roots, strict=True)
        ]
        reach = [part * U for U, part in zip(self.reach, roots, strict=True)]
        damped = [cho_solve(factor, U, check_finite=False) for factor, U in zip(factors, reach, strict=True)]
        middle = np.eye(reach[0].shape[1]) + sum(U.T @ Z for U, Z in zip(reach, damped, strict=True))
        core = cho_factor(middle, lower=True, overwrite_a=True, check_finite=False)

        def solve(r: np.ndarray) -> np.ndarray:
            direct = [
                cho_solve(factor, part, check_finite=False)
                for factor, part in zip(factors, self._split(r), strict=True)
            ]
            through = cho_solve(
                core, sum(Z.T @ part for Z, part in zip(reach, direct, strict=True)), check_finite=False
            )
            return np.vstack([part - Z @ through for part, Z in zip(direct, damped, strict=True)])

        return solve

    def _split(self, array: np.ndarray) -> list[np.ndarray]:
        return np.split(array, self.ends[:-1])
