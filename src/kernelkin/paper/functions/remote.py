"""The fitted functions of tasks that are elsewhere, in blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from ...engines import Held
from .tasks import TaskFunctions


@dataclass(frozen=True)
class BlockFunctions:
    """The functions of the tasks of a block, and what predictions need beside them.

    Attributes
    ----------
    functions : those of the tasks, in the order of `labels`.
    labels : (t,) the tasks.
    classes : the classes of each task; empty for regression.
    """

    functions: TaskFunctions
    labels: np.ndarray
    classes: tuple[np.ndarray, ...] = ()


class RemoteFunctions:
    """The functions of all tasks, in blocks that an engine holds.

    Parameters
    ----------
    held : Held
        The `BlockFunctions` of each block.
    positions : sequence of arrays
        The tasks of each block, by position among all.
    n_kernels : int
    """

    new_tasks, couplings = np.empty(0), ()

    def __init__(self, held: Held, positions: Sequence[np.ndarray], n_kernels: int) -> None:
        self.held, self.positions, self.n_kernels = held, positions, n_kernels
        n_tasks = sum(map(len, positions))
        self.block_of, self.code_of = np.empty((2, n_tasks), dtype=np.intp)
        for b, at in enumerate(positions):
            self.block_of[at], self.code_of[at] = b, np.arange(len(at))

    def values(self, X: np.ndarray, codes: np.ndarray | None, only: int | None = None) -> np.ndarray:
        """X (q, d), the task of each row (q,) -> (q, M), as `TaskFunctions.values`: rows go to where the tasks are."""
        return self._gather(X, codes, block_values, only)

    def parts(self, X: np.ndarray, codes: np.ndarray | None, only: int | None = None) -> np.ndarray:
        """What each kernel adds, (q, K, M), as `TaskFunctions.parts`."""
        return self._gather(X, codes, block_parts, only)

    def intercepts(self, X: np.ndarray, codes: np.ndarray | None) -> np.ndarray:
        """The intercept of each row's task, (q, M)."""
        return self._gather(X, codes, block_intercepts)

    def rows(self) -> None:
        """The rows of the expansions are elsewhere."""

    def gather(self) -> TaskFunctions:
        """Return the functions of all tasks, brought here with their support rows."""
        blocks = self.held.call(all_functions, [()] * len(self.held))
        shares: list[Any] = [()] * len(self.block_of)
        expansions: list[Any] = []
        for at, block in zip(self.positions, blocks, strict=True):
            start = len(expansions)
            expansions += block.expansions
            for t, own in zip(at.tolist(), block.shares, strict=True):
                shares[t] = tuple(replace(share, expansion=start + share.expansion) for share in own)
        return TaskFunctions(tuple(expansions), tuple(shares), self.n_kernels)

    def _gather(
        self, X: np.ndarray, codes: np.ndarray | None, function: Callable[..., np.ndarray], *options: Any
    ) -> np.ndarray:
        assert codes is not None, "tasks in blocks have rows of their own"
        if not len(X):
            raise ValueError("no rows to predict")
        blocks = self.block_of[codes]
        order = np.argsort(blocks, kind="stable")
        present, starts = np.unique(blocks[order], return_index=True)
        parts = np.split(order, starts[1:])
        found = self.held.pick(present.tolist()).call(
            function, [(X[part], self.code_of[codes[part]], *options) for part in parts]
        )
        width = max(values.shape[-1] for values in found)
        out = np.full((len(X), *found[0].shape[1:-1], width), np.nan)
        for part, values in zip(parts, found, strict=True):
            out[part, ..., : values.shape[-1]] = values
        return out

    def __getstate__(self) -> NoReturn:
        raise TypeError(
            "the functions of this model are on the workers of a cluster: "
            "`model.functions_ = model.functions_.gather()` brings them here"
        )


def block_values(block: BlockFunctions, X: np.ndarray, codes: np.ndarray, only: int | None) -> np.ndarray:
    return block.functions.values(X, codes, only)


def block_parts(block: BlockFunctions, X: np.ndarray, codes: np.ndarray, only: int | None) -> np.ndarray:
    return block.functions.parts(X, codes, only)


def block_intercepts(block: BlockFunctions, X: np.ndarray, codes: np.ndarray) -> np.ndarray:
    return block.functions.intercepts(X, codes)


def all_functions(block: BlockFunctions) -> TaskFunctions:
    return block.functions
