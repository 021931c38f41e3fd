"""The last evaluation of a fit on rows that are elsewhere: functions are made, and stay where the rows are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..couplings import Coupling
from ..data import TaskData
from ..engines import Engine, Held
from ..functions import BlockFunctions, Expansion, task_functions
from ..problems import BlockDuals, LinkedBlock, LinkedBlocks, LinkedDuals, MachineBlocks, RemoteMachines, TaskBlock
from ..problems.linked_block import LinkedPoint
from ..problems.task_block import BlockValues, Request
from .linked import SharedPart, of_tasks
from .targets import split_by_task


class FinalMachines(RemoteMachines):
    """The machines of blocks at the weights of one evaluation, whose functions are left where the blocks are."""

    def __init__(self, blocks: MachineBlocks) -> None:
        self._blocks, self.deviations = blocks, blocks.deviations
        self.functions: Any = None
        self.intercepts: list[np.ndarray] = []

    def solve(
        self, B: np.ndarray, warm: Sequence[Any] | None, tol: float, curved: bool
    ) -> tuple[BlockDuals, np.ndarray, None]:
        """Make the functions of the evaluation `warm` at B (K, T)."""
        assert isinstance(warm, BlockDuals)
        blocks = self._blocks
        arguments = [(B[:, at], blocks.request(warm)) for at in blocks.positions]
        self.functions = blocks.held.derive(fit_block, arguments)
        found = block_results(self.functions)
        self.intercepts = in_order([each.intercepts for each in found], blocks.positions)
        duals, Q = blocks.join([each.numbers for each in found], warm)
        return duals, Q, None


class FinalLinked(RemoteMachines):
    """The same for tasks that share parts of their functions.

    Parameters
    ----------
    blocks : LinkedBlocks
    expansions : the functions of each coupling.
    engine : that of the blocks.
    """

    def __init__(self, blocks: LinkedBlocks, expansions: tuple[Expansion, ...], engine: Engine) -> None:
        self._blocks, self.deviations = blocks, blocks.deviations
        self._expansions, self._engine = expansions, engine
        self.functions: Any = None
        self.intercepts: list[np.ndarray] = []
        self._shares = np.empty((len(blocks), 1 + len(blocks.couplings)))

    def solve(
        self, B: np.ndarray, warm: Sequence[Any] | None, tol: float, curved: bool
    ) -> tuple[LinkedDuals, np.ndarray, None]:
        """Make the functions of the evaluation `warm` at B (K, T + couplings)."""
        assert isinstance(warm, LinkedDuals)
        blocks, shared = self._blocks, self._engine.share((self._expansions, blocks_couplings(self._blocks)))
        points = blocks.points(B, warm.number)
        arguments = [(point, warm.s, warm.projections, shared) for point in points]
        self.functions = blocks.held.derive(fit_linked_block, arguments)
        found = block_results(self.functions)
        self.intercepts = in_order([each.intercepts for each in found], blocks.positions)
        self._shares[...] = in_order([each.shares for each in found], blocks.positions)
        duals, Q = blocks.join([each.numbers for each in found], warm)
        return duals, Q, None

    def shared(self) -> SharedPart:
        """Return what is known of the parts that tasks share."""
        return SharedPart.of(self._blocks, self._shares, self._expansions)


@dataclass(frozen=True)
class BlockResult:
    """What comes back of a fitted block: the values of its machines, and for each task intercepts and shares."""

    numbers: BlockValues
    intercepts: Sequence[np.ndarray]
    shares: Sequence[np.ndarray] = ()


@dataclass(frozen=True)
class FittedBlock(BlockFunctions):
    """The functions of a block, with what comes back of it."""

    result: BlockResult | None = None


def fit_block(block: TaskBlock, B: np.ndarray, request: Request) -> FittedBlock:
    """Return the functions of the tasks of a block at B (K, t), in the user's units."""
    duals, numbers, bank = block.solutions(B, request)
    restored, weights = block.units.restore_machines(duals, B)
    a, intercepts = split_by_task(restored, block.machines, block.data, ())
    functions = task_functions(block.data, bank, weights, a, intercepts)
    return FittedBlock(functions, block.data.labels, _classes(block.data), BlockResult(numbers, intercepts))


def fit_linked_block(
    block: LinkedBlock,
    point: LinkedPoint,
    s: np.ndarray,
    projections: Sequence[np.ndarray],
    shared: tuple[tuple[Expansion, ...], tuple[Coupling, ...]],
) -> FittedBlock:
    """Return the functions of the tasks of a block at a point, in the user's units.

    `shared` are the functions of the couplings, and these without their factors.
    """
    tasks, found, (expansions, couplings) = block.tasks, block.solutions(point, s, projections), shared
    restored, weights = tasks.units.restore_machines(found.duals, point.B)
    a, intercepts = split_by_task(restored, tasks.machines, tasks.data, ())
    own = of_tasks(couplings, block.couplings)
    functions = task_functions(tasks.data, found.bank, weights, a, intercepts, own, shared=expansions)
    result = BlockResult(found.own, intercepts, list(found.shares))
    return FittedBlock(functions, tasks.data.labels, _classes(tasks.data), result)


def _classes(data: TaskData) -> tuple[np.ndarray, ...]:
    """The classes of each task; empty for regression."""
    return () if data.y[0].dtype.kind == "f" else tuple(np.unique(y) for y in data.y)


def block_results(functions: Held) -> list[BlockResult]:
    """Return what comes back of fitted blocks."""
    return functions.call(block_result, [()] * len(functions))


def block_result(block: FittedBlock) -> BlockResult:
    """Return what comes back of a fitted block."""
    assert block.result is not None
    return block.result


def in_order(parts: Sequence[Sequence[np.ndarray]], positions: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Arrays of the tasks of each block -> those of all tasks, in order."""
    found: dict[int, np.ndarray] = {}
    for at, own in zip(positions, parts, strict=True):
        found |= dict(zip(at.tolist(), own, strict=True))
    return [found[t] for t in range(len(found))]


def blocks_couplings(blocks: LinkedBlocks) -> tuple[Coupling, ...]:
    """Return couplings without their factors, of which every block has its rows."""
    return of_tasks(blocks.couplings, [coupling.factor[:0] for coupling in blocks.couplings])
