"""The machines of a problem in blocks of tasks, which an engine holds.

An evaluation sends each block its columns of B and gets `lin`, `quad`, `primal`, Q and, where it is requested, the
Hessians back: a few numbers a task. Rows and Gram matrices never travel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from ...data import TaskData
from ...engines import Held
from ...kernels import FittedKernel
from ..grams import KernelBank, TaskGrams, check_kernels, task_block_grams
from ..learners import DualSolution, Learner, Machine, Ridge
from .machines import BlockDuals, SolvedMachines, deviation, solve_machines
from .units import Units


@dataclass(frozen=True)
class Request:
    """What an evaluation asks of a block.

    Attributes
    ----------
    number : that of the evaluation.
    start : the evaluation whose dual variables machines start from, where the block still has them.
    kept : the evaluations whose solutions may still be asked for.
    tol : the relative gap of each machine.
    curved : whether the Hessians are needed.
    """

    number: int
    start: int | None
    kept: frozenset[int]
    tol: float
    curved: bool = False


@dataclass(frozen=True)
class BlockValues:
    """What comes back: lin, quad and primal (3, t), Q (K, t), and the Hessians (t, K, K) where they were requested."""

    numbers: np.ndarray
    Q: np.ndarray
    curvature: np.ndarray | None = None

    @classmethod
    def of(cls, duals: Sequence[DualSolution], Q: np.ndarray, curvature: np.ndarray | None = None) -> BlockValues:
        return cls(np.array([(dual.lin, dual.quad, dual.primal) for dual in duals]).T, Q, curvature)


@dataclass(eq=False)
class TaskBlock:
    """Machines of some tasks in standard units, and what their Gram matrices are made from.

    A pickle has no Gram matrices and no solutions: a block that moves, or comes back from a disk, builds the former
    anew and solves its machines from scratch.

    Attributes
    ----------
    data : the rows of these tasks alone.
    kernels, normalize, charges : as for `task_block_grams`.
    machines, learner, units : in standard units, and what leads back.
    keeps_grams : whether Gram matrices stay in memory after an evaluation.
    """

    data: TaskData
    kernels: tuple[FittedKernel, ...]
    normalize: str | None
    charges: np.ndarray
    machines: Sequence[Machine]
    learner: Learner
    units: Units
    keeps_grams: bool
    _built: tuple[TaskGrams, KernelBank, np.ndarray] | None = field(default=None, repr=False)
    _solved: dict[int, Sequence[DualSolution]] = field(default_factory=dict, repr=False)

    def grams(self) -> tuple[TaskGrams, KernelBank, np.ndarray]:
        """Return the Gram matrices, how they were scaled, and what there is of the kernels; see `task_block_grams`."""
        built = self._built or task_block_grams(self.data, self.kernels, self.normalize, self.charges)
        if self.keeps_grams:
            self._built = built
        return built

    def facts(self) -> tuple[np.ndarray, np.ndarray]:
        """Return what there is of each kernel (2, K; see `check_kernels`), and the deviation (t,) of each task."""
        return self.grams()[2], np.array([deviation(machine) for machine in self.machines])

    def evaluate(self, B: np.ndarray, request: Request) -> BlockValues:
        """Solve the machines at B (K, t)."""
        start = self._solved.get(-1 if request.start is None else request.start)
        solved = solve_machines(
            self.grams()[0],
            self.machines,
            self.learner,
            B,
            warm=None if start is None else [dual.a for dual in start],
            tol=request.tol,
            curved=request.curved,
        )
        curvature = None if solved.curvature is None else solved.curvature()
        self._solved = {number: duals for number, duals in self._solved.items() if number in request.kept}
        if not isinstance(self.learner, Ridge):  # these start from nothing, and are exact
            self._solved[request.number] = solved.duals
        return BlockValues.of(solved.duals, solved.Q, curvature)

    def solutions(self, B: np.ndarray, request: Request) -> tuple[Sequence[DualSolution], BlockValues, KernelBank]:
        """Return the solutions of an earlier evaluation at B (K, t), and how kernels are scaled.

        Machines are solved again where their solutions are lost.
        """
        duals = self._solved.get(request.number)
        grams, bank, _ = self.grams()
        if duals is None:
            solved = solve_machines(grams, self.machines, self.learner, B, tol=request.tol)
            return solved.duals, BlockValues.of(solved.duals, solved.Q), bank
        Q = grams.quadratic_forms([dual.a for dual in duals], range(len(duals)))
        return duals, BlockValues.of(duals, Q), bank

    def __sizeof__(self) -> int:
        """Bytes, by which a scheduler judges where work is cheapest and a worker what it can hold."""
        size = self.data.X.nbytes + sum(4 * y.nbytes + 1000 for y in self.data.y)
        if self._built is not None:
            size += sum(stack.values.nbytes for stack in self._built[0].stacks)
        return size

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_built": None, "_solved": {}}


class MachineBlocks(Sequence[Machine]):
    """Machines in blocks of tasks that an engine holds; also stands for their Gram matrices, which are there too.

    Parameters
    ----------
    held : Held
        The `TaskBlock` of each block.
    positions : sequence of arrays
        The tasks of each block, by their columns of B.
    names : sequence of K str
        Names of the kernels, for errors.

    Attributes
    ----------
    deviations : (T,) half the squared deviations of the targets of each machine, times their costs.
    """

    def __init__(self, held: Held, positions: Sequence[np.ndarray], names: Sequence[str]) -> None:
        self.held, self.positions, self.n_kernels = held, positions, len(names)
        self.n_components = self.n_machines = sum(map(len, positions))
        self._numbers = count()
        # Solutions that someone here may still ask for: blocks keep them.
        self._known: WeakValueDictionary[int, BlockDuals] = WeakValueDictionary()
        self.deviations = np.zeros(len(self))
        facts = held.call(TaskBlock.facts, [()] * len(held))
        check_kernels(names, np.any([kernels for kernels, _ in facts], axis=0))
        for at, (_, own) in zip(positions, facts, strict=True):
            self.deviations[at] = own

    def __len__(self) -> int:
        return self.n_machines

    def __getitem__(self, index: Any) -> Any:
        raise TypeError("machines in blocks are where the blocks are")

    def solve(self, B: np.ndarray, warm: Any, tol: float, curved: bool) -> SolvedMachines:
        """Solve all machines at B (K, T), from the solutions of the evaluation `warm`."""
        start = warm.number if isinstance(warm, BlockDuals) else None
        request = Request(next(self._numbers), start, frozenset(self._known), tol, curved)
        parts = self.held.call(TaskBlock.evaluate, [(B[:, at], request) for at in self.positions])
        solved = self.join(B, parts, BlockDuals(request.number, tol, *np.empty((3, len(self)))))
        assert isinstance(solved.duals, BlockDuals)
        self._known[solved.duals.number] = solved.duals
        return solved

    def requests(self, B: np.ndarray, duals: BlockDuals) -> list[tuple[np.ndarray, Request]]:
        """Return what to ask each block for the solutions of an evaluation at B (K, T)."""
        request = Request(duals.number, None, frozenset(), duals.tol)
        return [(B[:, at], request) for at in self.positions]

    def solutions(self, B: np.ndarray, duals: BlockDuals) -> tuple[SolvedMachines, list[KernelBank]]:
        """Bring the solutions of an evaluation at B (K, T) here, and how each block scaled its kernels."""
        found = self.held.call(TaskBlock.solutions, self.requests(B, duals))
        values = self.join(B, [part for _, part, _ in found], duals)
        every = in_order([own for own, _, _ in found], self.positions)
        return SolvedMachines.of(B, every, values.Q), [bank for _, _, bank in found]

    def join(self, B: np.ndarray, parts: Sequence[BlockValues], duals: BlockDuals) -> SolvedMachines:
        """The values of all blocks at B (K, T) -> those of all tasks, under the number of `duals`."""
        numbers, Q = np.empty((3, len(self))), np.empty(B.shape)
        for at, part in zip(self.positions, parts, strict=True):
            numbers[:, at], Q[:, at] = part.numbers, part.Q
        curvature = None
        if all(part.curvature is not None for part in parts):
            curvature = np.empty((len(self), self.n_kernels, self.n_kernels))
            for at, part in zip(self.positions, parts, strict=True):
                curvature[at] = part.curvature
        found = BlockDuals(duals.number, duals.tol, *numbers)
        return SolvedMachines.of(B, found, Q, None if curvature is None else lambda: curvature)


def in_order(parts: Sequence[Sequence[Any]], positions: Sequence[np.ndarray]) -> list[Any]:
    """What there is of the tasks of each block -> of all tasks, in order."""
    found: dict[int, Any] = {}
    for at, own in zip(positions, parts, strict=True):
        found |= dict(zip(at.tolist(), own, strict=False))
    return [found[t] for t in sorted(found)]
