"""The machines of some of the tasks of a problem, with their Gram matrices: what a worker holds and does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..data import TaskData
from ..grams import KernelBank, TaskGrams, task_block_grams
from ..kernels import FittedKernel
from ..learners import DualSolution, Learner, Machine, Ridge
from .block_duals import deviation
from .machines import solve_machines
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
    """What comes back: lin, quad and primal (t,), Q (K, t), and the Hessians (t, K, K) where they were requested."""

    lin: np.ndarray
    quad: np.ndarray
    primal: np.ndarray
    Q: np.ndarray
    curvature: np.ndarray | None = None

    @classmethod
    def of(cls, duals: Sequence[DualSolution], Q: np.ndarray, curvature: np.ndarray | None = None) -> BlockValues:
        """The values of solutions."""
        lin, quad, primal = np.array([(dual.lin, dual.quad, dual.primal) for dual in duals]).T
        return cls(lin, quad, primal, Q, curvature)


@dataclass(frozen=True)
class BlockFacts:
    """What a block says about its kernels (2, K; see `check_kernels`) and the targets (t,) of its tasks."""

    kernels: np.ndarray
    deviations: np.ndarray


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

    def facts(self) -> BlockFacts:
        """Build the Gram matrices, and return what all blocks together have to say."""
        return BlockFacts(self.grams()[2], np.array([deviation(machine) for machine in self.machines]))

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


def block_facts(block: TaskBlock) -> BlockFacts:
    """See `TaskBlock.facts`."""
    return block.facts()


def evaluate_block(block: TaskBlock, B: np.ndarray, request: Request) -> BlockValues:
    """See `TaskBlock.evaluate`."""
    return block.evaluate(B, request)


def block_solutions(
    block: TaskBlock, B: np.ndarray, request: Request
) -> tuple[Sequence[DualSolution], BlockValues, KernelBank]:
    """See `TaskBlock.solutions`."""
    return block.solutions(B, request)
