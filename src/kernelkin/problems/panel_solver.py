"""Solving all machines of a panel, in blocks of columns that fit into memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..engines import Each, serially
from ..grams import CoupledGrams, Grams, SharedGrams
from ..grams.operator import SharedOperator
from .columns import Block, BlockSolution, solve_block
from .coupled_columns import CoupledBlock
from .panel import MachinePanel, PanelDuals


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
