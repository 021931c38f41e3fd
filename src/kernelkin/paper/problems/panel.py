"""The machines of wide data as columns over shared rows, solved in blocks that fit into memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ...engines.threads import Each, serially
from ..grams.coupled import CoupledGrams, Grams, shares_of
from ..grams.operator import MANY_ROWS, Arrays, SharedOperator, in_blocks
from ..grams.stack import SharedGrams
from ..learners.machines import DualSolution, Machine
from .columns import Block, BlockSolution, solve_block
from .machines import Offsets, SolvedMachines

# Sums of any number of targets below this size do not overflow.
_LARGE = 1e250
# Sizes above which conjugate gradients are faster: see `panel_pays`.
LEAST_ROWS, ROWS_PER_KERNEL, COUPLED_ROWS = 400, 50, 1500


def panel_pays(n_rows: int, n_tasks: int, n_kernels: int, *, coupled: bool = False) -> bool:
    """Return whether conjugate gradients for all tasks are faster than a factorisation per task, or per coupled set.

    An evaluation takes about ten products with every kernel. The first one also computes a basis for the
    preconditioner, which is fast if it has only leading eigenvectors.
    """
    if coupled:
        return n_rows * n_tasks >= COUPLED_ROWS and n_tasks > 1
    if n_rows >= MANY_ROWS and n_tasks >= n_kernels:
        return True
    return n_rows >= max(LEAST_ROWS, ROWS_PER_KERNEL * n_kernels) and n_tasks >= 4 * (n_kernels + 5)


@dataclass(frozen=True)
class MachinePanel:
    """The machines of wide data as columns over shared rows; rows without a label have no cost.

    Tasks that share parts of their functions are one system, of which each task is counted as a machine here.
    """

    y: np.ndarray  # (n, O) targets; zero where there is no label
    cost: np.ndarray  # (n, O), or (1, O) where all rows have a label and one cost
    starts: np.ndarray  # (T + 1,) where the columns of each task begin
    rows: Sequence[np.ndarray | None]  # for each task the rows that it uses; None for all of them
    has_intercept: bool  # whether tasks have one
    _copies: dict[Any, tuple[Any, Any, Any]] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, machines: Sequence[Machine], rows: Sequence[np.ndarray], n_rows: int) -> MachinePanel:
        """From machines of which each has these rows of n."""
        starts = np.cumsum([0, *(machine.y.shape[1] for machine in machines)])
        kept = [None if len(part) == n_rows else part for part in rows]
        even = all(part is None and (m.C[:1] == m.C).all() for part, m in zip(kept, machines, strict=True))
        y, cost = np.zeros((n_rows, starts[-1])), np.zeros((1 if even else n_rows, starts[-1]))
        panel = cls(y, cost, starts, kept, machines[0].n_groups > 0)
        for m, machine in enumerate(machines):
            columns, at = panel.place(m)
            y[at, columns] = machine.y
            cost[at, columns] = machine.C[: len(cost)]
        return panel

    def __len__(self) -> int:
        return len(self.rows)

    def place(self, task: int) -> tuple[slice, Any]:
        """The columns of a task, and its rows."""
        rows = self.rows[task]
        return slice(self.starts[task], self.starts[task + 1]), slice(None) if rows is None else rows

    def task(self, values: np.ndarray, task: int) -> np.ndarray:
        """values (n, O) -> (n_t, outputs): those of one task."""
        columns, rows = self.place(task)
        return values[:, columns][rows]

    @cached_property
    def component(self) -> np.ndarray:
        """(O,) the task of each column."""
        return np.repeat(np.arange(len(self.rows)), np.diff(self.starts))

    @cached_property
    def _centred(self) -> tuple[np.ndarray, np.ndarray]:
        """The mean targets (O,), zero without intercepts, and the targets (n, O) less these, zero without a cost."""
        complete = len(self.cost) == 1 and bool((self.cost > 0).all())
        if complete and max(self.y.max(initial=0.0), -self.y.min(initial=0.0)) < _LARGE:
            if not self.has_intercept:
                return np.zeros(self.y.shape[1]), self.y
            # Twice: the mean of numbers with a large offset is itself off by its rounding.
            first = self.y.mean(axis=0)
            centred = self.y - first
            second = centred.mean(axis=0)
            centred -= second
            return first + second, centred
        offsets, used = np.zeros(self.y.shape[1]), np.broadcast_to(self.cost > 0, self.y.shape)
        count = np.maximum(np.count_nonzero(used, axis=0), 1)
        for _ in range(2 * self.has_intercept):
            residual = np.where(used, self.y - offsets, 0.0)
            # Relative to the largest: sums of huge numbers would overflow.
            top = np.maximum(np.abs(residual).max(axis=0), np.finfo(float).tiny)
            offsets += (residual / top).sum(axis=0) / count * top
        return offsets, np.where(used, self.y - offsets, 0.0)

    def scales(self) -> tuple[Offsets, float, float]:
        """The offsets of the targets, their spread and the median cost; see `MachineList.scales`."""
        offsets, values = self._centred
        parts, costs = np.split(offsets[np.newaxis], self.starts[1:-1], axis=1), self.cost[self.cost > 0]
        count = len(costs) * (len(self.y) // len(self.cost))
        top = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
        # Squares of what is very large or small would overflow or vanish.
        unit = 1.0 if 1e-100 < top < 1e100 else top or 1.0
        total = float(np.vdot(values, values)) if unit == 1.0 else float(np.square(values / unit).sum())
        spread = unit * float(np.sqrt(total / count)) if top > 0 else 1.0
        median = float(np.median(costs)) if len(costs) else 1.0
        return parts if self.has_intercept else [part[:0] for part in parts], spread, median

    def rescaled(self, target: int, cost: int, offsets: Any = None) -> MachinePanel:
        """Targets less their offsets, times 2^target, and costs times 2^cost."""
        return replace(self, y=self._centred[1] * 2.0**target, cost=np.ldexp(self.cost, cost))

    def deviation(self) -> float:
        """Half the squared targets, which are centred in standard units, times their costs."""
        if len(self.cost) == 1:
            return 0.5 * float(self.cost[0] @ np.einsum("ij,ij->j", self.y, self.y))
        return 0.5 * float(np.sum(self.cost * np.square(self.y)))

    def solve(
        self, grams: Grams, learner: Any, B: np.ndarray, warm: Any, tol: float, each: Each, curved: bool
    ) -> SolvedMachines:
        """Solve all columns together, without combined Gram matrices; see `MachineList.solve`.

        Without couplings, smaller blocks of columns are solved if the memory of a device is too small.
        """
        own, factors = own_and_factors(grams)
        operator, width, curved = own.operator, self.y.shape[1], curved and not factors
        arrays = operator.arrays
        assert operator.basis  # computed once, before several threads use it

        def one(where: slice) -> tuple[BlockSolution, Any]:
            block = self._block(operator, B, where, factors)
            solution = solve_block(block, None if warm is None else warm.columns(where), tol)
            hessian = arrays.numpy(solution.hessian(block)) if curved else None
            solution.images = solution.residual = None  # their memory is needed for the next columns
            return solution, hessian

        # A device solves one block at a time.
        each = each if arrays.in_main_memory else serially
        size = width if factors else arrays.columns(operator.n_rows, operator.n_kernels)
        solved = in_blocks(arrays, width, size, one, each, self._copies.clear)
        parts = [[getattr(block, name) for block, _ in solved] for name in ("intercept", "lin", "quad", "primal", "Q")]
        intercept, *values, Q = (np.concatenate([arrays.numpy(part) for part in one], axis=-1) for one in parts)
        H = np.concatenate([part for _, part in solved]) if curved else None
        if len(self) < width:
            Q = np.add.reduceat(Q, self.starts[:-1], axis=1)
            H = None if H is None else np.add.reduceat(H, self.starts[:-1], axis=0)
        by_task = np.add.reduceat(values, self.starts[:-1], axis=1)
        duals = PanelDuals(self, arrays, [block.a for block, _ in solved], intercept, by_task)
        return SolvedMachines(B, duals, by_task, Q, None if H is None else lambda: H)

    def _block(self, operator: SharedOperator, B: np.ndarray, where: slice, factors: Sequence[np.ndarray]) -> Block:
        """Return some columns at B (K, J), on the device of the operator; copies on a device are kept."""
        arrays, key = operator.arrays, (operator.arrays, where.start, where.stop)
        found = self._copies.get(key)
        if found is None:
            y, cost = self.y[:, where], self.cost[:, where]
            mask = None if len(cost) == 1 or (cost > 0).all() else arrays.array((cost > 0).astype(np.float64))
            found = arrays.array(y), arrays.array(cost), mask
            if not arrays.in_main_memory:
                self._copies[key] = found
        b, shared = B[:, self.component[where]], B[:, len(self) :]
        couplings = tuple(map(arrays.array, factors)), arrays.array(shared) if factors else None
        return Block(operator, arrays.array(b), *found, self.has_intercept, *couplings)


@dataclass(frozen=True)
class PanelDuals(Sequence):
    """The solutions of the machines of a panel; the dual variables are in blocks of columns, where `arrays` are.

    `intercept` (O,) is that of each column, `values` (3, T) are lin, quad and primal of each task.
    """

    machines: MachinePanel
    arrays: Arrays
    blocks: Sequence[Any]
    intercept: np.ndarray
    values: np.ndarray

    def divided(self, s: float) -> PanelDuals:
        """Return the dual variables divided by s, for a warm start; `values` do not belong to them."""
        return replace(self, blocks=[block / s for block in self.blocks])

    def restored(self, target: int, dual: int, offsets: Offsets) -> PanelDuals:
        """Return the solutions in the user's units, in main memory; see `MachineDuals`."""
        blocks = [self.arrays.numpy(block * 2.0**dual) for block in self.blocks]
        intercept = np.ldexp(self.intercept, target)
        if self.machines.has_intercept:
            intercept += np.concatenate(offsets, axis=1)[0]
        return PanelDuals(self.machines, Arrays(), blocks, intercept, np.ldexp(self.values, target + dual))

    @cached_property
    def a(self) -> np.ndarray:
        """(n, O) the dual variables."""
        blocks = [self.arrays.numpy(block) for block in self.blocks]
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)

    def by_task(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The dual variables (n_t, outputs) and the intercepts (outputs,) of each task."""
        tasks = range(len(self.machines))
        a = [self.machines.task(self.a, task) for task in tasks]
        return a, [self.intercept[self.machines.place(task)[0]] for task in tasks]

    def columns(self, where: slice) -> Any:
        """The dual variables (n, o) of some columns, where they are."""
        start = 0
        for block in self.blocks:
            if start <= where.start and where.stop <= start + block.shape[1]:
                return block[:, where.start - start : where.stop - start]
            start += block.shape[1]
        return self.arrays.array(self.a[:, where])

    def part_shares(self, grams: CoupledGrams, B: np.ndarray) -> np.ndarray:
        """(T, 1 + couplings): what `CoupledGrams.part_shares` computes, from products with all columns."""
        own, factors = own_and_factors(grams)
        operator, machines, V = own.operator, self.machines, self.a
        parts = np.zeros((1 + len(factors), *V.shape))
        for k in range(operator.n_kernels):
            image = operator.arrays.numpy(operator.matrix(k) @ operator.arrays.array(V))
            parts[0] += B[k, machines.component] * image
            for j, factor in enumerate(factors):
                parts[1 + j] += B[k, len(machines) + j] * ((image @ factor) @ factor.T)
        mask = np.broadcast_to(machines.cost > 0, V.shape)
        parts -= (parts * mask).sum(axis=1, keepdims=True) / np.maximum(mask.sum(axis=0), 1)
        return shares_of(np.einsum("pit,it->tp", parts, parts.sum(axis=0) * mask))

    def __len__(self) -> int:
        return len(self.machines)

    def __getitem__(self, index: Any) -> Any:
        """The solution of one task."""
        m = range(len(self))[index]
        intercept = self.intercept[np.newaxis, self.machines.place(m)[0]][: int(self.machines.has_intercept)]
        return DualSolution(self.machines.task(self.a, m), intercept, *self.values[:, m].tolist())


def own_and_factors(grams: Any) -> tuple[SharedGrams, Sequence[np.ndarray]]:
    """The Gram matrices of wide data, and the factors of its couplings."""
    return (grams.own, grams.factors) if isinstance(grams, CoupledGrams) else (grams, [])
