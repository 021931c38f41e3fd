"""Ridge machines of wide data, solved together by conjugate gradients: no combined Gram matrix is formed.

With G = G(b_t), D = diag(1/C), and P taking off the mean where there is an intercept, a machine's dual variables solve
`P (G + D) P a = P y`. For any feasible a, however it was found, the gap of the machine is

    primal(a) - dual(a) = 1/2 sum_i C_i r_i^2,      r = y - c - (G + D) a,

so iterations end where the certificate needs no more. They run in single precision; values and bounds are computed from
a in double precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, overload

import numpy as np

from ..engines import Each, serially
from ..grams.arrays import Arrays
from ..grams.operator import SharedOperator
from ..learners import DualSolution, Machine

# Rounds of conjugate gradients, each from residuals in double precision, and iterations in each.
_ROUNDS, _ITERATIONS = 6, 200
# The gap of each column that iterations aim at, as a share of what is asked for: rounding comes on top.
_AIM = 0.3
# Columns that are done are taken out once no more than this share of them is left.
_FEW = 0.75


class MachinePanel(Sequence[Machine]):
    """The machines of wide data as columns over shared rows; rows without a label have no cost.

    Attributes
    ----------
    y : (n, O) targets.
    cost : (n, O), or (1, O) where all rows have a label and one cost.
    starts : (T + 1,) where the columns of each machine begin.
    rows : for each machine the rows that it uses; None for all of them.
    has_intercept : whether machines have one.
    """

    def __init__(self, machines: Sequence[Machine], rows: Sequence[np.ndarray | None], n_rows: int) -> None:
        self.rows = list(rows)
        self.starts = np.cumsum([0, *(machine.y.shape[1] for machine in machines)])
        self.has_intercept = machines[0].n_groups > 0
        self.y = np.zeros((n_rows, self.starts[-1]))
        even = all(kept is None and (m.C == m.C[:1]).all() for kept, m in zip(rows, machines, strict=True))
        self.cost = np.zeros((1 if even else n_rows, self.starts[-1]))
        for m, machine in enumerate(machines):
            where, kept = self.place(m)
            self.y[kept, where] = machine.y
            self.cost[kept, where] = machine.C[: len(self.cost)]

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Machine: ...
    @overload
    def __getitem__(self, index: slice) -> list[Machine]: ...
    def __getitem__(self, index: int | slice) -> Machine | list[Machine]:
        if isinstance(index, slice):
            return [self[m] for m in range(len(self))[index]]
        y, cost = self.part(self.y, index), self.part(np.broadcast_to(self.cost, self.y.shape), index)
        return Machine(y, cost, np.zeros(len(y), dtype=np.intp), int(self.has_intercept))

    def place(self, m: int) -> tuple[slice, Any]:
        """The columns of a machine, and its rows."""
        m = range(len(self))[m]
        rows = self.rows[m]
        return slice(self.starts[m], self.starts[m + 1]), slice(None) if rows is None else rows

    def part(self, values: np.ndarray, m: int) -> np.ndarray:
        """values (n, O) -> those of the rows and columns of one machine."""
        columns, rows = self.place(m)
        return values[:, columns][rows]

    def spread(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Arrays (n_m, outputs) of each machine -> (n, O)."""
        out = np.zeros_like(self.y)
        for m, values in enumerate(arrays):
            columns, rows = self.place(m)
            out[rows, columns] = values
        return out

    @cached_property
    def component(self) -> np.ndarray:
        """(O,) the machine of each column."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))


@dataclass(frozen=True)
class Block:
    """Some columns of a panel, with kernel weights.

    Attributes
    ----------
    operator : the Gram matrices.
    b : (K, o) kernel weights.
    y : (n, o) targets.
    cost : (n, o) or (1, o).
    mask : (n, o), one where there is a label; None where there are labels everywhere.
    has_intercept : whether the mean is free.
    """

    operator: SharedOperator
    b: Any
    y: Any
    cost: Any
    mask: Any
    has_intercept: bool

    @property
    def arrays(self) -> Arrays:
        return self.operator.arrays

    @cached_property
    def ridge(self) -> Any:
        """The diagonal D: 1/C, and zero where there is no label."""
        if self.mask is None:
            return 1.0 / self.cost
        return self.mask / self.arrays.where(self.mask > 0, self.cost, self.mask + 1.0)

    def take(self, kept: Any) -> Block:
        """Some of the columns."""
        mask = None if self.mask is None else self.mask[:, kept]
        return replace(self, b=self.b[:, kept], y=self.y[:, kept], cost=self.cost[:, kept], mask=mask)

    def in_single_precision(self) -> Block:
        parts = {name: getattr(self, name) for name in ("b", "y", "cost", "mask")}
        return replace(self, **{name: None if p is None else self.arrays.cast(p, True) for name, p in parts.items()})

    def project(self, V: Any) -> Any:
        """V (n, o) -> the nearest with zeros where there is no label, and without a mean."""
        if self.mask is None:
            return V - V.mean(0) if self.has_intercept else V
        V = V * self.mask
        return V - self.mask * (V.sum(0) / self._count) if self.has_intercept else V

    @cached_property
    def _count(self) -> Any:
        """(o,) rows with a label; at least one."""
        count = self.mask.sum(0)
        return self.arrays.where(count > 0, count, count + 1.0)

    def system(self, V: Any) -> Any:
        """V (n, o), projected -> P (G + D) V."""
        return self.project(self.operator.apply(self.b, V) + self.ridge * V)

    def precondition(self, V: Any) -> Any:
        """About inv(P (G + D) P) V: exact where all kernels are diagonal in one basis, costs equal and labels complete."""
        U = self.operator.basis.vectors
        return self.project(U @ ((U.T @ V) / self.spectrum))

    @cached_property
    def spectrum(self) -> Any:
        """(n, o) the diagonal of G + D in the basis, D its mean, in single precision."""
        ridge = self.ridge.mean(0) if self.mask is None else self.ridge.sum(0) / self._count
        b, ridge = self.arrays.cast(self.b, single=True), self.arrays.cast(ridge, single=True)
        values = self.operator.basis.spectra.T @ b
        return self.arrays.where(values > 0, values, 0.0 * values) + ridge


@dataclass(frozen=True)
class BlockSolution:
    """A block of columns at a (n, o): intercept, lin, quad and primal (o,), Q (K, o), and what is left of the residuals.

    `images` (K, n, o) are G_k a.
    """

    a: Any
    intercept: Any
    lin: Any
    quad: Any
    primal: Any
    Q: Any
    residual: Any
    images: Any

    @classmethod
    def at(cls, block: Block, a: Any) -> BlockSolution:
        """Values in double precision."""
        images = block.operator.images(a)
        f, mask = (block.b[:, None, :] * images).sum(0), block.mask
        Q = 0.5 * (a * images).sum(1)
        quad = 0.5 * (a * f).sum(0)
        residual = block.y - f if mask is None else mask * (block.y - f)
        intercept = 0.0 * quad
        if block.has_intercept:
            weight = block.cost.sum(0) * (len(a) // len(block.cost))
            weight = block.arrays.where(weight > 0, weight, weight + 1.0)
            intercept = (block.cost * residual).sum(0) / weight
            residual = residual - (intercept if mask is None else intercept * mask)
        return cls(
            a=a,
            intercept=intercept,
            lin=(block.y * a - 0.5 * block.ridge * a * a).sum(0),
            quad=quad,
            primal=quad + 0.5 * (block.cost * residual * residual).sum(0),
            Q=block.arrays.where(Q > 0, Q, 0.0 * Q),
            residual=block.project(residual - block.ridge * a),
            images=images,
        )

    def hessian(self, block: Block) -> Any:
        """About the Hessians (o, K, K) of the columns' values in kernel weights, by what the preconditioner inverts."""
        arrays, U = block.arrays, block.operator.basis.vectors
        rough = block.in_single_precision()
        turned = [U.T @ rough.project(arrays.cast(image, single=True)) for image in self.images]
        return arrays.energies(arrays.stack(turned), block.spectrum)

    @property
    def relative_gap(self) -> float:
        """Of all columns together."""
        return float((self.primal - self.lin + self.quad).sum()) / max(float(self.primal.sum()), np.finfo(float).tiny)


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

    @cached_property
    def a(self) -> np.ndarray:
        """(n, O) the dual variables."""
        return np.concatenate([self.arrays.numpy(block) for block in self.blocks], axis=1)

    def __len__(self) -> int:
        return len(self.machines)

    @overload
    def __getitem__(self, index: int) -> DualSolution: ...
    @overload
    def __getitem__(self, index: slice) -> list[DualSolution]: ...
    def __getitem__(self, index: int | slice) -> DualSolution | list[DualSolution]:
        if isinstance(index, slice):
            return [self[m] for m in range(len(self))[index]]
        where, _ = self.machines.place(index)
        intercept = self.intercept[np.newaxis, where][: int(self.machines.has_intercept)]
        values = [float(values[where].sum()) for values in (self.lin, self.quad, self.primal)]
        return DualSolution(self.machines.part(self.a, index), intercept, *values)


def solve_panel(
    operator: SharedOperator,
    machines: MachinePanel,
    B: np.ndarray,
    warm: Sequence[Any] | None,
    tol: float,
    each: Each = serially,
    curved: bool = False,
) -> tuple[PanelDuals, np.ndarray, np.ndarray | None]:
    """Solve all machines at B (K, T): the solutions, Q (K, T), and about the Hessians (T, K, K) if requested."""
    arrays, size = operator.arrays, operator.arrays.columns(operator.n_rows, operator.n_kernels)
    starts = range(0, machines.y.shape[1], size)
    same = isinstance(warm, PanelDuals) and len(warm.blocks) == len(starts)
    if warm is None or same:
        begin = [None] * len(starts) if warm is None else warm.blocks
    else:
        spread = warm.a if isinstance(warm, PanelDuals) else machines.spread(warm)
        begin = [arrays.array(spread[:, start : start + size]) for start in starts]
    operator.basis.vectors.shape  # made here, not by several threads at once

    def one(i: int) -> tuple[BlockSolution, Any]:
        block = _block(operator, machines, B, slice(starts[i], starts[i] + size))
        solution = solve_block(block, begin[i], tol)
        hessian = arrays.numpy(solution.hessian(block)) if curved else None
        return replace(solution, images=None, residual=None), hessian

    solved = each(one, range(len(starts)))
    blocks = [block for block, _ in solved]
    values = [[getattr(b, name) for b in blocks] for name in ("intercept", "lin", "quad", "primal", "Q")]
    *columns, Q = (np.concatenate([arrays.numpy(part) for part in parts], axis=-1) for parts in values)
    hessian = np.concatenate([part for _, part in solved]) if curved else None
    first = machines.starts[:-1]
    if len(first) < Q.shape[1]:
        Q = np.add.reduceat(Q, first, axis=1)
        hessian = None if hessian is None else np.add.reduceat(hessian, first, axis=0)
    return PanelDuals(machines, arrays, [b.a for b in blocks], np.array(columns)), Q, hessian


def _block(operator: SharedOperator, machines: MachinePanel, B: np.ndarray, where: slice) -> Block:
    """The columns of a panel at B (K, T)."""
    arrays = operator.arrays
    y, cost = machines.y[:, where], machines.cost[:, where]
    mask = None if len(cost) == 1 or (cost > 0).all() else arrays.array((cost > 0).astype(np.float64))
    b = arrays.array(B[:, machines.component[where]])
    return Block(operator, b, arrays.array(y), arrays.array(cost), mask, machines.has_intercept)


def solve_block(block: Block, a: Any, tol: float) -> BlockSolution:
    """Solve to a gap of `tol` times the value of all columns, from a (n, o) or None."""
    arrays, rough = block.arrays, block.in_single_precision()
    if a is None:
        a, residual = arrays.zeros_like(block.y), block.project(block.y)
    else:
        solution = BlockSolution.at(block, block.project(a))
        a, residual = solution.a, solution.residual
    for _ in range(_ROUNDS):
        with arrays.rough_products():
            change = _conjugate_gradients(rough, arrays.cast(residual, True), arrays.cast(a, True), tol)
        a = block.project(a + arrays.cast(change, single=False))
        solution = BlockSolution.at(block, a)
        residual = solution.residual
        if solution.relative_gap <= tol:
            break
    return solution


def _conjugate_gradients(block: Block, residual: Any, a: Any, tol: float) -> Any:
    """The change (n, o) of a that closes the gap of each column to a share of its value, from residuals (n, o).

    Columns that are done are taken out.
    """
    arrays, total = block.arrays, block.arrays.zeros_like(residual)
    left, y = arrays.flatnonzero(block.b[0] == block.b[0]), block.project(block.y)
    x, z = arrays.zeros_like(residual), block.precondition(residual)
    p, rho = z, (residual * z).sum(0)
    for _ in range(_ITERATIONS):
        gap = 0.5 * (block.cost * residual * residual).sum(0)
        value = 0.5 * ((a + x) * (y + residual)).sum(0)
        is_open = gap > _AIM * tol * arrays.where(value > 0, value, 0.0 * value)
        n_open = int(is_open.sum())
        if n_open <= _FEW * len(left):
            total[:, left] = x
            kept = arrays.flatnonzero(is_open)
            if n_open == 0:
                return total
            block, left, rho = block.take(kept), left[kept], rho[kept]
            residual, a, x, p, y = (V[:, kept] for V in (residual, a, x, p, y))
        image = block.system(p)
        step = _ratio(arrays, rho, (p * image).sum(0))
        x = x + step * p
        residual = residual - step * image
        z = block.precondition(residual)
        rho, old = (residual * z).sum(0), rho
        p = z + _ratio(arrays, rho, old) * p
    total[:, left] = x
    return total


def _ratio(arrays: Arrays, above: Any, below: Any) -> Any:
    """above/below; zero where there is nothing to divide by: a column that is solved to rounding."""
    positive = below > 0
    return arrays.where(positive, above / arrays.where(positive, below, below * 0.0 + 1.0), 0.0 * above)
