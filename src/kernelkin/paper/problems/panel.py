"""The machines of wide data as columns over shared rows, and their solutions, in blocks that fit into memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, overload

import numpy as np

from ...engines import Each, serially
from ..grams import CoupledGrams, Grams, SharedGrams
from ..grams.operator import MANY_ROWS, Arrays, SharedOperator
from ..learners import DualSolution, Machine
from .columns import Block, BlockSolution, CoupledBlock, solve_block
from .machines import SolvedMachines

# Sums of any number of targets below this size do not overflow.
_LARGE = 1e250
# Where conjugate gradients pay: see `panel_pays`.
LEAST_ROWS, ROWS_PER_KERNEL, COUPLED_ROWS = 400, 50, 1500


def panel_pays(n_rows: int, n_tasks: int, n_kernels: int, *, coupled: bool = False) -> bool:
    """Whether conjugate gradients for all tasks take less time than a factorisation for each, or for all if coupled.

    An evaluation is about ten products with every kernel, at first also a basis for the preconditioner, which costs
    little where it has leading eigenvectors alone.
    """
    if coupled:
        return n_rows * n_tasks >= COUPLED_ROWS and n_tasks > 1
    if n_rows >= MANY_ROWS and n_tasks >= n_kernels:
        return True
    return n_rows >= max(LEAST_ROWS, ROWS_PER_KERNEL * n_kernels) and n_tasks >= 4 * (n_kernels + 5)


@dataclass(frozen=True)
class MachinePanel(Sequence[Machine]):
    """The machines of wide data as columns over shared rows; rows without a label have no cost.

    Tasks that share parts of their functions are one system, of which each task is counted as a machine here.

    Attributes
    ----------
    y : (n, O) targets; zero where there is no label.
    cost : (n, O), or (1, O) where all rows have a label and one cost.
    starts : (T + 1,) where the columns of each task begin.
    rows : for each task the rows that it uses; None for all of them.
    has_intercept : whether tasks have one.
    """

    y: np.ndarray
    cost: np.ndarray
    starts: np.ndarray
    rows: Sequence[np.ndarray | None]
    has_intercept: bool

    @classmethod
    def of(cls, machines: Sequence[Machine], rows: Sequence[np.ndarray], n_rows: int) -> MachinePanel:
        """From machines of which each has these rows of n."""
        starts = np.cumsum([0, *(machine.y.shape[1] for machine in machines)])
        kept = [None if len(part) == n_rows else part for part in rows]
        even = all(part is None and (m.C[:1] == m.C).all() for part, m in zip(kept, machines, strict=True))
        panel = cls.empty(starts, kept, n_rows, even, machines[0].n_groups > 0)
        for m, machine in enumerate(machines):
            panel.put(m, machine.y, machine.C)
        return panel

    @classmethod
    def empty(
        cls, starts: np.ndarray, rows: Sequence[np.ndarray | None], n_rows: int, even: bool, has_intercept: bool
    ) -> MachinePanel:
        """Without targets; `even` where all rows have a label and each column one cost."""
        y, cost = np.zeros((n_rows, starts[-1])), np.zeros((1 if even else n_rows, starts[-1]))
        return cls(y, cost, starts, rows, has_intercept)

    def put(self, task: int, y: np.ndarray, cost: np.ndarray) -> None:
        """Set the targets and costs (n_t, outputs) of one task."""
        columns, rows = self.place(task)
        self.y[rows, columns] = y
        self.cost[rows, columns] = cost[: len(self.cost)]

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Machine: ...
    @overload
    def __getitem__(self, index: slice) -> list[Machine]: ...
    def __getitem__(self, index: int | slice) -> Machine | list[Machine]:
        if isinstance(index, slice):
            return [self[m] for m in range(len(self))[index]]
        y, cost = self.task(self.y, index), self.task(np.broadcast_to(self.cost, self.y.shape), index)
        return Machine(y, cost, np.zeros(len(y), dtype=np.intp), int(self.has_intercept))

    def place(self, task: int) -> tuple[slice, Any]:
        """The columns of a task, and its rows."""
        rows = self.rows[task]
        return slice(self.starts[task], self.starts[task + 1]), slice(None) if rows is None else rows

    def task(self, values: np.ndarray, task: int) -> np.ndarray:
        """values (n, O) -> (n_t, outputs): those of one task."""
        columns, rows = self.place(task)
        return values[:, columns][rows]

    def side_by_side(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Arrays (n_t, outputs) of each task -> (n, O)."""
        out = np.zeros_like(self.y)
        for task, values in enumerate(arrays):
            columns, rows = self.place(task)
            out[rows, columns] = values
        return out

    def split(self, values: np.ndarray) -> tuple[np.ndarray, ...]:
        """values (O,) -> (n_groups, outputs) of each task: a row where there is an intercept."""
        parts = np.split(values[np.newaxis], self.starts[1:-1], axis=1)
        return tuple(parts if self.has_intercept else (part[:0] for part in parts))

    def without(self, held: np.ndarray) -> MachinePanel:
        """Without the labels that `held` (n, O) marks."""
        cost = np.where(held, 0.0, np.broadcast_to(self.cost, self.y.shape))
        return replace(self, y=np.where(held, 0.0, self.y), cost=cost)

    def means(self) -> np.ndarray:
        """(O,) the mean target of each column, by costs."""
        cost = np.broadcast_to(self.cost, self.y.shape)
        return (cost * self.y).sum(axis=0) / np.maximum(cost.sum(axis=0), np.finfo(float).tiny)

    def offsets(self) -> tuple[np.ndarray, ...]:
        """The mean target (n_groups, outputs) of each task over rows that have a cost."""
        return self.split(self._centred[0])

    @cached_property
    def _centred(self) -> tuple[np.ndarray, np.ndarray]:
        """The mean targets (O,), zero without intercepts, and the targets (n, O) less these, zero without a cost."""
        if self._is_complete and float(np.abs(self.y).max(initial=0.0)) < _LARGE:
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

    def rescaled(self, target: int, cost: int, offsets: Any = None) -> MachinePanel:
        """Targets less their offsets, times 2^target, and costs times 2^cost."""
        return replace(self, y=self._centred[1] * 2.0**target, cost=np.ldexp(self.cost, cost))

    def spread(self, offsets: Any = None) -> float:
        """Root mean square of the targets that have a cost, less their offsets; 1 where all of them are zero."""
        values = self._centred[1]
        if not self._is_complete:
            values = values[np.broadcast_to(self.cost > 0, values.shape)]
        top = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
        if top == 0:
            return 1.0
        if not 1e-100 < top < 1e100:
            # Squares would overflow or vanish.
            return top * float(np.sqrt(np.mean(np.square(values / top))))
        return float(np.sqrt(np.vdot(values, values) / values.size))

    def typical_cost(self) -> float:
        """Median of the costs that are not zero; 1 where there are none."""
        costs = self.cost[self.cost > 0]
        return float(np.median(costs)) if len(costs) else 1.0

    def deviation(self) -> float:
        """Half the squared targets, which are centred in standard units, times their costs."""
        if len(self.cost) == 1:
            return 0.5 * float(self.cost[0] @ np.einsum("ij,ij->j", self.y, self.y))
        return 0.5 * float(np.sum(self.cost * np.square(self.y)))

    def solve(
        self, grams: Grams, learner: Any, B: np.ndarray, warm: Any, tol: float, each: Each, curved: bool
    ) -> SolvedMachines:
        """Solve all columns together, without combined Gram matrices; see `solve_machines`."""
        own, factors = own_and_factors(grams)
        duals, Q, H = solve_panel(own.operator, self, B, warm, tol, each, curved and not factors, factors)
        return SolvedMachines.of(B, duals, Q, None if H is None else lambda: H)

    @property
    def _is_complete(self) -> bool:
        """Whether every row of every column has a label and a cost."""
        return len(self.cost) == 1 and bool((self.cost > 0).all())

    def columns(self, arrays: Arrays, where: slice) -> tuple[Any, Any, Any]:
        """Targets and costs of some columns, and a mask of their labels (None: all there), where `arrays` are.

        What was copied to a device once is kept there.
        """
        key = (arrays, where.start, where.stop)
        if key in self._copies:
            return self._copies[key]
        y, cost = self.y[:, where], self.cost[:, where]
        mask = None if len(cost) == 1 or (cost > 0).all() else arrays.array((cost > 0).astype(np.float64))
        found = arrays.array(y), arrays.array(cost), mask
        if not arrays.in_main_memory:
            self._copies[key] = found
        return found

    def release(self) -> None:
        """Give up what was copied to a device."""
        self._copies.clear()

    @cached_property
    def _copies(self) -> dict[Any, tuple[Any, Any, Any]]:
        return {}

    @cached_property
    def component(self) -> np.ndarray:
        """(O,) the task of each column."""
        return np.repeat(np.arange(len(self.rows)), np.diff(self.starts))


class PanelDuals(Sequence[DualSolution]):
    """The solutions of the machines of a panel, in blocks of columns.

    Attributes
    ----------
    blocks : where the dual variables are.
    intercept, lin, quad, primal : (O,).
    """

    def __init__(self, machines: MachinePanel, arrays: Arrays, blocks: Sequence[Any], values: np.ndarray) -> None:
        self.machines, self.arrays, self.blocks = machines, arrays, blocks
        self.intercept, self.lin, self.quad, self.primal = values

    @property
    def values(self) -> np.ndarray:
        """(3, T) lin, quad and primal of each task."""
        return np.add.reduceat([self.lin, self.quad, self.primal], self.machines.starts[:-1], axis=1)

    @property
    def variables(self) -> PanelDuals:
        """Itself: the dual variables stay where they are."""
        return self

    def restored(self, target: int, dual: int, offsets: Sequence[np.ndarray]) -> PanelDuals:
        """The solutions in other units, in main memory; see `Duals`."""
        blocks = [self.arrays.numpy(block * 2.0**dual) for block in self.blocks]
        intercept = np.ldexp(self.intercept, target)
        if self.machines.has_intercept:
            intercept += np.concatenate(offsets, axis=1)[0]
        numbers = np.ldexp([self.lin, self.quad, self.primal], target + dual)
        return PanelDuals(self.machines, Arrays(), blocks, np.array([intercept, *numbers]))

    @classmethod
    def of_arrays(cls, machines: MachinePanel, arrays: Arrays, a: np.ndarray) -> PanelDuals:
        """Dual variables (n, O) to start from, of which no values are known."""
        return cls(machines, arrays, [arrays.array(a)], np.zeros((4, a.shape[1])))

    @cached_property
    def a(self) -> np.ndarray:
        """(n, O) the dual variables."""
        blocks = [self.arrays.numpy(block) for block in self.blocks]
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)

    def by_task(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The dual variables (n_t, outputs) and the intercepts (outputs,) of each task."""
        tasks, starts = range(len(self.machines.rows)), self.machines.starts.tolist()
        a = [self.machines.task(self.a, task) for task in tasks]
        return a, [self.intercept[starts[task] : starts[task + 1]] for task in tasks]

    def columns(self, where: slice) -> Any:
        """The dual variables (n, o) of some columns, where they are."""
        start = 0
        for block in self.blocks:
            if start <= where.start and where.stop <= start + block.shape[1]:
                return block[:, where.start - start : where.stop - start]
            start += block.shape[1]
        return self.arrays.array(self.a[:, where])

    def __len__(self) -> int:
        return len(self.machines)

    @overload
    def __getitem__(self, index: int) -> DualSolution: ...
    @overload
    def __getitem__(self, index: slice) -> list[DualSolution]: ...
    def __getitem__(self, index: int | slice) -> DualSolution | list[DualSolution]:
        if isinstance(index, slice):
            return [self[m] for m in range(len(self))[index]]
        where = self.machines.place(index)[0]
        intercept = self.intercept[np.newaxis, where][: int(self.machines.has_intercept)]
        values = [float(v[where].sum()) for v in (self.lin, self.quad, self.primal)]
        return DualSolution(self.machines.task(self.a, index), intercept, *values)


def solve_panel(
    operator: SharedOperator,
    machines: MachinePanel,
    B: np.ndarray,
    warm: Sequence[Any] | None,
    tol: float,
    each: Each = serially,
    curved: bool = False,
    factors: Sequence[np.ndarray] = (),
) -> tuple[PanelDuals, np.ndarray, np.ndarray | None]:
    """Solve all machines at B (K, J): the solutions, Q (K, J), and about the Hessians (T, K, K) if requested.

    `factors` are those of couplings, whose components follow the tasks'; with them there are no Hessians, and all
    columns are solved together. Otherwise fewer are solved at one time where the memory of a device does not suffice.
    """
    size = machines.y.shape[1] if factors else operator.arrays.columns(operator.n_rows, operator.n_kernels)
    if warm is not None and not isinstance(warm, PanelDuals):
        warm = PanelDuals.of_arrays(machines, operator.arrays, machines.side_by_side(warm))
    operator.prepare()
    # A device runs one block after the other, and each on all of it.
    each = each if operator.arrays.in_main_memory else serially
    while True:
        try:
            return _solve_columns(operator, machines, B, warm, tol, each, curved, size, factors)
        except operator.arrays.out_of_memory:
            if size == 1 or factors:
                raise
            size = -(-size // 2)
            machines.release()
            operator.arrays.release()


def _solve_columns(
    operator: SharedOperator,
    machines: MachinePanel,
    B: np.ndarray,
    warm: PanelDuals | None,
    tol: float,
    each: Each,
    curved: bool,
    size: int,
    factors: Sequence[np.ndarray],
) -> tuple[PanelDuals, np.ndarray, np.ndarray | None]:
    """The same, `size` columns at one time."""
    arrays = operator.arrays

    def one(first: int) -> tuple[BlockSolution, Any]:
        where = slice(first, min(first + size, machines.y.shape[1]))
        block = _block(operator, machines, B, where, factors)
        solution = solve_block(block, None if warm is None else warm.columns(where), tol)
        hessian = arrays.numpy(solution.hessian(block)) if curved else None
        return replace(solution, images=None, residual=None), hessian

    solved = each(one, range(0, machines.y.shape[1], size))
    values = [[getattr(block, name) for block, _ in solved] for name in ("intercept", "lin", "quad", "primal", "Q")]
    *columns, Q = (np.concatenate([arrays.numpy(part) for part in parts], axis=-1) for parts in values)
    hessian = np.concatenate([part for _, part in solved]) if curved else None
    first = machines.starts[:-1]
    if len(first) < machines.y.shape[1]:
        Q = np.add.reduceat(Q, first, axis=1)
        hessian = None if hessian is None else np.add.reduceat(hessian, first, axis=0)
    duals = PanelDuals(machines, arrays, [block.a for block, _ in solved], np.array(columns))
    return duals, Q, hessian


def _block(
    operator: SharedOperator, machines: MachinePanel, B: np.ndarray, where: slice, factors: Sequence[np.ndarray]
) -> Block:
    """The columns of a panel at B (K, J)."""
    arrays = operator.arrays
    b = arrays.array(B[:, machines.component[where]])
    parts = (operator, b, *machines.columns(arrays, where), machines.has_intercept)
    if not factors:
        return Block(*parts)
    shared = arrays.array(B[:, len(machines.rows) :])
    return CoupledBlock(*parts, factors=tuple(map(arrays.array, factors)), shared=shared)


def own_and_factors(grams: Grams) -> tuple[SharedGrams, Sequence[np.ndarray]]:
    """The Gram matrices of wide data, and the factors of its couplings."""
    own, factors = (grams.own, grams.factors) if isinstance(grams, CoupledGrams) else (grams, [])
    assert isinstance(own, SharedGrams)
    return own, factors


def panel_values(grams: Grams, B: np.ndarray, duals: PanelDuals) -> np.ndarray:
    """(n, O): the functions of a panel's columns at all rows, with their intercepts, at kernel weights B (K, J)."""
    own, factors = own_and_factors(grams)
    operator, machines = own.operator, duals.machines
    arrays, width = operator.arrays, machines.y.shape[1]
    size = width if factors else arrays.columns(operator.n_rows, operator.n_kernels)
    parts = []
    for first in range(0, width, size):
        where = slice(first, min(first + size, width))
        parts.append(arrays.numpy(_block(operator, machines, B, where, factors).apply(duals.columns(where))))
    return np.concatenate(parts, axis=1) + duals.intercept


def panel_part_shares(grams: Grams, B: np.ndarray, duals: PanelDuals) -> np.ndarray:
    """(T, 1 + couplings): what `CoupledGrams.part_shares` computes, from products with all columns of a panel."""
    own, factors = own_and_factors(grams)
    operator, machines, V = own.operator, duals.machines, duals.a
    parts = np.zeros((1 + len(factors), *V.shape))
    for k in range(operator.n_kernels):
        image = operator.arrays.numpy(operator.matrix(k) @ operator.arrays.array(V))
        parts[0] += B[k, machines.component] * image
        for j, factor in enumerate(factors):
            parts[1 + j] += B[k, len(machines.rows) + j] * ((image @ factor) @ factor.T)
    mask = np.broadcast_to(machines.cost > 0, V.shape)
    parts -= (parts * mask).sum(axis=1, keepdims=True) / np.maximum(mask.sum(axis=0), 1)
    shares = np.einsum("pit,it->tp", parts, parts.sum(axis=0) * mask)
    total = shares.sum(axis=1, keepdims=True)
    return np.divide(shares, total, out=np.zeros_like(shares), where=total > 0)
