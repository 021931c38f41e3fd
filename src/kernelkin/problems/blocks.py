"""The machines of a problem in blocks of tasks, which an engine holds.

An evaluation sends each block its columns of B and gets `lin`, `quad`, `primal`, Q and, where it is requested, the
Hessians back: a few numbers a task. Rows and Gram matrices never travel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, NoReturn
from weakref import WeakValueDictionary

import numpy as np

from ..engines import Each, Held, serially
from ..grams import Grams, KernelBank, check_kernels
from ..learners import DualSolution
from .block_duals import BlockDuals, RemoteMachines
from .task_block import BlockValues, Request, block_facts, block_solutions, evaluate_block


class RemoteGrams(Grams):
    """The sizes of Gram matrices that are elsewhere."""

    def __init__(self, n_kernels: int, n_tasks: int, n_couplings: int = 0) -> None:
        self.n_kernels, self.n_components, self.n_machines = n_kernels, n_tasks + n_couplings, n_tasks

    def batches(self) -> Iterator[range]:
        self._refuse()

    def combine(self, B: np.ndarray, machines: range, each: Each = serially) -> Sequence[Any]:
        self._refuse()

    def quadratic_forms(self, a: Sequence[np.ndarray], machines: range, each: Each = serially) -> np.ndarray:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise TypeError("Gram matrices of blocks are where the blocks are")


class MachineBlocks(RemoteMachines):
    """Machines in blocks of tasks.

    Parameters
    ----------
    held : Held
        The `TaskBlock` of each block.
    positions : sequence of arrays
        The tasks of each block, by their columns of B.
    names : sequence of K str
        Names of the kernels, for errors.
    """

    def __init__(self, held: Held, positions: Sequence[np.ndarray], names: Sequence[str]) -> None:
        self._held, self.positions, self._n_kernels = held, positions, len(names)
        self._numbers = count()
        # Solutions that someone here may still ask for: blocks keep them.
        self._known: WeakValueDictionary[int, BlockDuals] = WeakValueDictionary()
        self.deviations = np.zeros(sum(map(len, positions)))
        facts = held.call(block_facts, [()] * len(held))
        check_kernels(names, np.any([each.kernels for each in facts], axis=0))
        for at, each in zip(positions, facts, strict=True):
            self.deviations[at] = each.deviations

    @property
    def grams(self) -> RemoteGrams:
        """The sizes of the Gram matrices."""
        return RemoteGrams(self._n_kernels, len(self))

    @property
    def held(self) -> Held:
        """The blocks."""
        return self._held

    def solve(
        self, B: np.ndarray, warm: Sequence[Any] | None, tol: float, curved: bool
    ) -> tuple[BlockDuals, np.ndarray, np.ndarray | None]:
        start = warm.number if isinstance(warm, BlockDuals) else None
        request = Request(next(self._numbers), start, frozenset(self._known), tol, curved)
        parts = self._held.call(evaluate_block, [(B[:, at], request) for at in self.positions])
        duals, Q = self._join(parts, request)
        self._known[duals.number] = duals
        curvature = None
        if all(part.curvature is not None for part in parts):
            curvature = np.empty((len(self), self._n_kernels, self._n_kernels))
            for at, part in zip(self.positions, parts, strict=True):
                curvature[at] = part.curvature
        return duals, Q, curvature

    def request(self, duals: BlockDuals) -> Request:
        """The request for the solutions of an evaluation."""
        return Request(duals.number, None, frozenset(), duals.tol)

    def join(self, parts: Sequence[BlockValues], duals: BlockDuals) -> tuple[BlockDuals, np.ndarray]:
        """Values of all blocks at the weights of an earlier evaluation -> those of all tasks, and Q (K, T)."""
        return self._join(parts, self.request(duals))

    def _join(self, parts: Sequence[BlockValues], request: Request) -> tuple[BlockDuals, np.ndarray]:
        numbers, Q = join_values(parts, self.positions)
        return BlockDuals(request.number, request.tol, *numbers), Q


def join_values(parts: Sequence[BlockValues], positions: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The values of blocks -> lin, quad and primal (3, T) of all tasks, and Q (K, T)."""
    n_tasks = sum(map(len, positions))
    numbers, Q = np.empty((3, n_tasks)), np.empty((len(parts[0].Q), n_tasks))
    for at, part in zip(positions, parts, strict=True):
        numbers[:, at] = part.lin, part.quad, part.primal
        Q[:, at] = part.Q
    return numbers, Q


class GatheredMachines(RemoteMachines):
    """The same machines, whose solutions are brought here: those of one evaluation."""

    def __init__(self, blocks: MachineBlocks) -> None:
        self._blocks, self.deviations = blocks, blocks.deviations
        self.banks: list[KernelBank] = []

    def solve(
        self, B: np.ndarray, warm: Sequence[Any] | None, tol: float, curved: bool
    ) -> tuple[list[DualSolution], np.ndarray, None]:
        """Return the solutions of the evaluation `warm` at B (K, T)."""
        assert isinstance(warm, BlockDuals)
        blocks = self._blocks
        request = blocks.request(warm)
        found = blocks.held.call(block_solutions, [(B[:, at], request) for at in blocks.positions])
        _, Q = blocks.join([values for _, values, _ in found], warm)
        self.banks = [bank for _, _, bank in found]
        duals: dict[int, DualSolution] = {}
        for at, (solved, _, _) in zip(blocks.positions, found, strict=True):
            duals |= dict(zip(at.tolist(), solved, strict=True))
        return [duals[t] for t in range(len(self))], Q, None
