"""The machine of tasks that share parts of their functions, in blocks of tasks that an engine holds.

An evaluation takes two rounds. In the first, every block returns what the shared part is solved from, a matrix of the
size of its rank, summed over blocks where they are. In the second it gets the shared part and returns the values of its
tasks, and the projections of their dual variables that all blocks' sums make the shared quadratic forms of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError

from ..couplings import Coupling, connected_tasks
from ..decompositions import Cholesky
from ..engines import Held
from ..grams import KernelBank, check_kernels
from ..grams.landmarks import LandmarkKernels
from ..grams.lowrank import mean_scaling
from ..learners import DualSolution
from .block_duals import BlockDuals, RemoteMachines
from .blocks import RemoteGrams, join_values
from .linked_block import LinkedFacts, LinkedPoint, eliminate_block, finish_block, linked_facts, linked_solutions
from .task_block import BlockValues


@dataclass(frozen=True, eq=False)
class LinkedDuals(BlockDuals):
    """Values of the solutions of linked tasks.

    Attributes
    ----------
    s : (R, m) what the shared part is made of.
    projections : Phi'a (R, r m) for each coupling, summed over all tasks.
    """

    s: np.ndarray
    projections: tuple[np.ndarray, ...]

    @classmethod
    def of(
        cls, number: int, tol: float, values: np.ndarray, s: np.ndarray, projections: tuple[np.ndarray, ...]
    ) -> LinkedDuals:
        """From lin, quad and primal (3, T)."""
        lin, quad, primal = values
        return cls(number, tol, lin, quad, primal, s, projections)


class LinkedBlocks(RemoteMachines):
    """Machines of tasks that share parts, in blocks of tasks.

    Parameters
    ----------
    held : Held
        The `LinkedBlock` of each block.
    positions : sequence of arrays
        The tasks of each block, by their columns of B.
    link : LandmarkKernels
        The kernels of the shared parts.
    couplings : sequence of Coupling
    normalize : {"trace", None}
    charges : array (K,)
        What the Gram matrices of each kernel are divided by.

    Attributes
    ----------
    scaling : that of the kernels of the shared parts.
    missing : (K,) the share of the trace of each kernel that its factor lacks.
    n_rows : rows of all tasks.
    """

    def __init__(
        self,
        held: Held,
        positions: Sequence[np.ndarray],
        link: LandmarkKernels,
        couplings: Sequence[Coupling],
        normalize: str | None,
        charges: np.ndarray,
    ) -> None:
        self.held, self.positions, self.link, self.couplings = held, positions, link, tuple(couplings)
        self._numbers = count()
        facts = held.call(linked_facts, [()] * len(held))
        check_kernels([kernel.name for kernel in link.kernels], np.any([each.kernels for each in facts], axis=0))
        means = sum(each.diagonals for each in facts) / sum(each.weight for each in facts)
        self.scaling = mean_scaling(normalize, means[:, np.newaxis], charges)
        whole, kept = np.sum([each.traces for each in facts], axis=0)
        self.missing = np.maximum(1.0 - kept / np.where(whole > 0, whole, 1.0), 0.0)
        self.n_rows = sum(each.n_rows for each in facts)
        self.deviations = self._deviations(facts)
        self._outputs = facts[0].moments.shape[2]

    def _deviations(self, facts: Sequence[LinkedFacts]) -> np.ndarray:
        """(T,) as in `RemoteMachines`, from the mean target of all tasks that are linked."""
        n_tasks = sum(map(len, self.positions))
        moments = np.empty((3, n_tasks, facts[0].moments.shape[2]))
        for at, each in zip(self.positions, facts, strict=True):
            moments[:, at] = each.moments
        deviations = np.empty(n_tasks)
        for members in connected_tasks(self.couplings, n_tasks):
            weight, first, second = moments[:, members]
            mean = first.sum(axis=0) / weight.sum(axis=0)
            deviations[members] = 0.5 * (second - 2.0 * mean * first + mean**2 * weight).sum(axis=1)
        return deviations

    @property
    def grams(self) -> RemoteGrams:
        """The sizes of the Gram matrices."""
        return RemoteGrams(len(self.link.kernels), len(self), len(self.couplings))

    def solve(
        self, B: np.ndarray, warm: Sequence[Any] | None, tol: float, curved: bool
    ) -> tuple[LinkedDuals, np.ndarray, None]:
        """Solve the machine at B (K, T + couplings); there are no Hessians of single tasks."""
        number = next(self._numbers)
        points = self.points(B, number)
        try:
            s = self._shared(self.held.total(eliminate_block, [(point,) for point in points]))
        except LinAlgError:
            raise ValueError(
                "C times the kernel weights is so large that the part that tasks share cannot be eliminated from "
                "blocks of tasks in double precision; lower C, or use engine='threads'"
            ) from None
        parts = self.held.call(finish_block, [(point, s) for point in points])
        pairs = zip(*(part.projections for part in parts), strict=True)
        projections = tuple(np.sum(each, axis=0) for each in pairs)
        numbers, own = join_values([part.own for part in parts], self.positions)
        return LinkedDuals.of(number, tol, numbers, s, projections), self._forms(own, projections), None

    def points(self, B: np.ndarray, number: int) -> list[LinkedPoint]:
        """What each block needs to know of B (K, T + couplings)."""
        weights = B[:, len(self) :] * self.scaling.factor[:, np.newaxis]
        return [LinkedPoint(number, B[:, at], weights) for at in self.positions]

    def join(self, parts: Sequence[BlockValues], duals: LinkedDuals) -> tuple[LinkedDuals, np.ndarray]:
        """Values of all blocks at the weights of an earlier evaluation -> those of all tasks, and Q (K, J)."""
        numbers, own = join_values(parts, self.positions)
        found = LinkedDuals.of(duals.number, duals.tol, numbers, duals.s, duals.projections)
        return found, self._forms(own, duals.projections)

    def _shared(self, total: np.ndarray) -> np.ndarray:
        """The sum of what blocks return, (R + m, R + m) -> s (R, m)."""
        rank = len(total) - self._outputs
        if rank == 0:
            return np.zeros((0, self._outputs))
        return Cholesky(total[:rank, :rank].copy()).solve(total[:rank, rank:])

    def _forms(self, own: np.ndarray, projections: Sequence[np.ndarray]) -> np.ndarray:
        """Q (K, T) of the tasks -> (K, J), with that of the shared parts."""
        return np.column_stack([own, *(self.scaling.factor * self.link.forms(P) for P in projections)])


class GatheredLinked(RemoteMachines):
    """The same machines, whose solutions are brought here: those of one evaluation.

    Attributes
    ----------
    banks : of each block.
    shares : (T, 1 + couplings) the shares of each task's variance that its parts account for.
    """

    def __init__(self, blocks: LinkedBlocks) -> None:
        self._blocks, self.deviations = blocks, blocks.deviations
        self.banks: list[KernelBank] = []
        self.shares = np.empty((len(blocks), 1 + len(blocks.couplings)))

    def solve(
        self, B: np.ndarray, warm: Sequence[Any] | None, tol: float, curved: bool
    ) -> tuple[list[DualSolution], np.ndarray, None]:
        """Return the solution of the evaluation `warm` at B: one for each set of linked tasks."""
        assert isinstance(warm, LinkedDuals)
        blocks = self._blocks
        arguments = [(point, warm.s, warm.projections) for point in blocks.points(B, warm.number)]
        found = blocks.held.call(linked_solutions, arguments)
        self.banks = [each.bank for each in found]
        duals: dict[int, DualSolution] = {}
        for at, each in zip(blocks.positions, found, strict=True):
            self.shares[at] = each.shares
            duals |= dict(zip(at.tolist(), each.duals, strict=True))
        linked = connected_tasks(blocks.couplings, len(self))
        joined = [_join([duals[t] for t in members.tolist()]) for members in linked]
        return joined, blocks.join([each.own for each in found], warm)[1], None


def _join(duals: Sequence[DualSolution]) -> DualSolution:
    """The solution of a machine, from the parts of its tasks."""
    return DualSolution(
        a=np.vstack([dual.a for dual in duals]),
        intercept=np.vstack([dual.intercept for dual in duals]),
        lin=sum(dual.lin for dual in duals),
        quad=sum(dual.quad for dual in duals),
        primal=sum(dual.primal for dual in duals),
    )
