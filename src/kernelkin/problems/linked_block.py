"""The tasks of a block that share parts of their functions with tasks of other blocks: what a worker holds and does.

All linked tasks are one ridge machine. With U_t = the rows of task t in a factor of the shared part, P what intercepts
leave, and r = sqrt(C), its dual variables are a = r x, where for every task

    (I + P r G_t r P) x_t = P r (y_t - U_t s),      s = sum_t U_t'a_t.

So `eliminate` returns the sums over its tasks from which s follows, a matrix of the size of the shared part's rank; and
with s, `finish` solves each task by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..grams import KernelBank, TaskGrams
from ..grams.blocks import BlockLowRank, OwnFactors, SquareSum
from ..grams.coupled import variance_shares
from ..grams.landmarks import LandmarkKernels, weighted_factor
from ..grams.links import Reach
from ..kernels import diagonals
from ..learners import DualSolution, Machine
from .task_block import BlockValues, TaskBlock


@dataclass(frozen=True)
class LinkedPoint:
    """Where a block is evaluated.

    Attributes
    ----------
    number : that of the evaluation.
    B : (K, t) kernel weights of the tasks' own parts.
    weights : (K, couplings) those of the shared parts, times what scales their kernels.
    """

    number: int
    B: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True)
class LinkedFacts:
    """What a block says about its rows.

    Attributes
    ----------
    kernels : (2, K) see `check_kernels`.
    diagonals : (K,) sum of the kernels k(x, x), weighted as the rows are.
    n_rows, weight : number of rows, and the sum of their weights.
    traces : (2, K) sums of k(x, x) and of what the factors have of them.
    moments : (3, t, m) sums of C, C y and C y^2 of each task.
    """

    kernels: np.ndarray
    diagonals: np.ndarray
    n_rows: int
    weight: float
    traces: np.ndarray
    moments: np.ndarray


@dataclass(frozen=True)
class LinkedValues:
    """What comes back of an evaluation: the values of each task, and Phi'a (R, r m) for each coupling."""

    own: BlockValues
    projections: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class LinkedSolutions:
    """What comes back of a solution: `DualSolution` and shares of the variance (1 + couplings,) of each task."""

    duals: Sequence[DualSolution]
    shares: np.ndarray
    own: BlockValues
    bank: KernelBank


@dataclass(frozen=True)
class _System:
    """The machines of a block at one point.

    Attributes
    ----------
    grams, bank : the Gram matrices of the tasks, and how they were scaled.
    phi : the factors (N, r_k) of the kernels.
    gram : the combined Gram matrices of the tasks, and the factor of the shared part.
    own : factors of the former.
    """

    grams: TaskGrams
    bank: KernelBank
    phi: tuple[np.ndarray, ...]
    gram: BlockLowRank
    own: OwnFactors

    def quadratic_forms(self, a: Sequence[np.ndarray]) -> np.ndarray:
        """a (n_t, m) of each task -> Q (K, t) of its own part."""
        return self.grams.quadratic_forms(a, range(len(a)))


@dataclass(eq=False)
class LinkedBlock:
    """Machines of some tasks, their Gram matrices, and their rows of the factors of what all tasks share.

    As of a `TaskBlock`, a pickle has none of the matrices.

    Attributes
    ----------
    tasks : the machines without what is shared.
    link : the kernels of the shared parts, by landmarks.
    couplings : L_j (t, r_j), the rows of these tasks in the factor of each coupling.
    """

    tasks: TaskBlock
    link: LandmarkKernels
    couplings: tuple[np.ndarray, ...]
    _factors: tuple[np.ndarray, ...] | None = field(default=None, repr=False)
    _last: tuple[int, _System] | None = field(default=None, repr=False)

    def factors(self) -> tuple[np.ndarray, ...]:
        """Phi_k (N, r_k) of each kernel over the rows of these tasks, in order."""
        factors = self._factors or self.link.factors(self._rows)
        if self.tasks.keeps_grams:
            self._factors = factors
        return factors

    def facts(self) -> LinkedFacts:
        """Build the matrices, and return what all blocks together have to say."""
        X, data = self._rows, self.tasks.data
        weight = data.sample_weight[np.concatenate(data.rows)]
        values = np.asarray(diagonals(list(self.link.kernels), X), dtype=np.float64)
        kept = [np.einsum("ir,ir->", Phi, Phi, dtype=np.float64) for Phi in self.factors()]
        moments = [[(m.C * m.y**power).sum(axis=0) for m in self.tasks.machines] for power in range(3)]
        return LinkedFacts(
            kernels=self.tasks.facts().kernels,
            diagonals=values @ weight,
            n_rows=len(X),
            weight=float(weight.sum()),
            traces=np.array([values.sum(axis=1), kept]),
            moments=np.array(moments),
        )

    def eliminate(self, point: LinkedPoint) -> np.ndarray:
        """Return the sum over tasks of W'W (R + m, R + m), where W = inv(L_t) P r [U_t, y_t].

        L_t is the factor of the task's own system, `L_t L_t' = I + P r G_t r P`. The lower triangle is undefined.
        """
        system = self._system(point)
        gram, own = system.gram, system.own
        outputs = gram.rank + np.arange(self._outputs)
        total = SquareSum(gram.rank + self._outputs)
        for t, machine in enumerate(self.tasks.machines):
            columns = gram.at(t)
            both = own.roots[t] * np.hstack([gram.reach[t], machine.y])
            total.add(own.half(t, both), columns if isinstance(columns, slice) else np.append(columns, outputs))
        return total.total()

    def finish(self, point: LinkedPoint, s: np.ndarray) -> LinkedValues:
        """Solve the machines, where s (R, m) is what the shared part is made of."""
        system = self._system(point)
        duals = self._solve(system, s)
        a = [dual.a for dual in duals]
        spread = [self._spread(factor, np.vstack(a)) for factor in self.couplings]
        projections = tuple(np.vstack([Phi.T @ V for Phi in system.phi]) for V in spread)
        return LinkedValues(BlockValues.of(duals, system.quadratic_forms(a)), projections)

    def solutions(self, point: LinkedPoint, s: np.ndarray, projections: Sequence[np.ndarray]) -> LinkedSolutions:
        """Return the solutions, where `projections` are Phi'a (R, r m) of each coupling, of all blocks."""
        system = self._system(point)
        duals = self._solve(system, s)
        a = [dual.a for dual in duals]
        parts = [np.vstack([block @ own for block, own in zip(system.gram.blocks, a, strict=True)])]
        for j, (factor, P) in enumerate(zip(self.couplings, projections, strict=True)):
            terms = zip(system.phi, self.link.places, point.weights[:, j], strict=True)
            image = sum((weight * (Phi @ P[place]) for Phi, place, weight in terms), np.zeros(()))
            parts.append(
                np.einsum("ir,irm->im", factor[self._task_of_row], image.reshape(len(image), factor.shape[1], -1))
            )
        values = BlockValues.of(duals, system.quadratic_forms(a))
        return LinkedSolutions(duals, variance_shares(parts, self._places), values, system.bank)

    def _solve(self, system: _System, s: np.ndarray) -> list[DualSolution]:
        """The part of each task in the solution of all."""
        gram, own, duals = system.gram, system.own, []
        for t, machine in enumerate(self.tasks.machines):
            shared, root = gram.reach[t] @ s[gram.at(t)], own.roots[t]
            a = root * own.second_half(t, own.half(t, root * (machine.y - shared)))
            for _ in range(2 if machine.n_groups else 0):  # for the last bit
                a -= a.mean(axis=0)
            duals.append(_evaluate(machine, a, gram.blocks[t] @ a + shared))
        return duals

    def _system(self, point: LinkedPoint) -> _System:
        """The machines at a point; those of the last one are kept for the second half of its evaluation."""
        if self._last is not None and self._last[0] == point.number:
            return self._last[1]
        (grams, bank, _), phi, machines = self.tasks.grams(), self.factors(), self.tasks.machines
        reach = Reach([weighted_factor(phi, weights) for weights in point.weights.T], self.couplings, self._places)
        blocks = [gram for batch in grams.batches() for gram in grams.combine(point.B, batch)]
        gram = BlockLowRank(blocks, reach, reach.columns, reach.rank)
        roots = [np.sqrt(machine.C[:, :1]) for machine in machines]
        borders = [root / np.linalg.norm(root) for root in roots] if machines[0].n_groups else None
        system = _System(grams, bank, phi, gram, OwnFactors(gram, np.vstack(roots), borders))
        self._last = (point.number, system) if self.tasks.keeps_grams else None
        return system

    def _spread(self, factor: np.ndarray, whole: np.ndarray) -> np.ndarray:
        """whole (N, m) -> (N, r m): weighted by each column of a coupling's factor L (t, r) at the rows' tasks."""
        weights = factor[self._task_of_row]
        return (weights[:, :, np.newaxis] * whole[:, np.newaxis, :]).reshape(len(whole), -1)

    @property
    def _rows(self) -> np.ndarray:
        """The rows of these tasks, in order."""
        return self.tasks.data.X[np.concatenate(self.tasks.data.rows)]

    @property
    def _outputs(self) -> int:
        return self.tasks.machines[0].y.shape[1]

    @cached_property
    def _places(self) -> list[slice]:
        """The rows of each task among those of all."""
        ends = np.cumsum([len(rows) for rows in self.tasks.data.rows]).tolist()
        return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False)]

    @cached_property
    def _task_of_row(self) -> np.ndarray:
        sizes = [len(rows) for rows in self.tasks.data.rows]
        return np.repeat(np.arange(len(sizes)), sizes)

    def __sizeof__(self) -> int:
        kept = 0 if self._factors is None else sum(Phi.nbytes for Phi in self._factors)
        return self.tasks.__sizeof__() + kept

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_factors": None, "_last": None}


def _evaluate(machine: Machine, a: np.ndarray, f: np.ndarray) -> DualSolution:
    """The values of a task at dual variables a (n_t, m) and values f (n_t, m) of its function.

    The shared part's norm is counted as far as this task adds to it: a'f is a sum over tasks.
    """
    C, residual, c = machine.C, machine.y - f, np.zeros((0, a.shape[1]))
    if machine.n_groups:
        c = (C * residual).sum(axis=0, keepdims=True) / C.sum(axis=0)
        residual = residual - c
    lin, quad = float(np.sum(machine.y * a) - 0.5 * np.sum(a**2 / C)), 0.5 * float(np.sum(a * f))
    return DualSolution(a, c, lin, quad, quad + 0.5 * float(np.sum(C * residual**2)))


def linked_facts(block: LinkedBlock) -> LinkedFacts:
    """See `LinkedBlock.facts`."""
    return block.facts()


def eliminate_block(block: LinkedBlock, point: LinkedPoint) -> np.ndarray:
    """See `LinkedBlock.eliminate`."""
    return block.eliminate(point)


def finish_block(block: LinkedBlock, point: LinkedPoint, s: np.ndarray) -> LinkedValues:
    """See `LinkedBlock.finish`."""
    return block.finish(point, s)


def linked_solutions(
    block: LinkedBlock, point: LinkedPoint, s: np.ndarray, projections: Sequence[np.ndarray]
) -> LinkedSolutions:
    """See `LinkedBlock.solutions`."""
    return block.solutions(point, s, projections)
