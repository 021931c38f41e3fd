"""Sequential minimal optimisation for every machine with a box and group sums.

One compiled solver of

    max  p'a - epsilon |a|_1 - 1/2 a'Ga    subject to  lo <= a <= hi,  the sum of a over each group = 0

with ``lo <= 0 <= hi``. The hinge loss has p = y, epsilon = 0 and a box on one side of zero; the epsilon-insensitive
loss a box on both. Each step moves a pair of rows of the group that violates the optimality conditions most, chosen
by second-order information (Fan, Chen and Lin, 2005); without intercepts it moves single rows. A step stops at
a = 0, where |a| is not differentiable. Where steps make slow progress, Newton steps move all free rows together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import DualSolution, Machine


def solve_box(
    gram: Any,
    machine: Machine,
    lo: np.ndarray,
    hi: np.ndarray,
    epsilon: float,
    a0: np.ndarray | None,
    tol: float,
) -> DualSolution:
    """Solve a machine whose dual has the box ``lo, hi`` (n, m) and the linear term ``y'a - epsilon |a|_1``.

    `gram` may compute its rows when they are read (`rows_when_read`), where there is one intercept or none.
    """
    if machine.n_groups > 1 or not hasattr(gram, "rows_when_read"):
        gram = np.asarray(gram)  # a Gram with structure is written out
    a = np.zeros(machine.y.shape) if a0 is None else np.asarray(a0)
    if machine.n_groups <= 1:
        starts = np.array([0, len(a)][: machine.n_groups + 1], dtype=np.uint64)
        return DualSolution(*_solve_outputs(gram, machine.y, lo, hi, epsilon, starts, a, tol))
    sizes = np.bincount(machine.groups, minlength=machine.n_groups)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.uint64)
    if np.all(machine.groups[1:] >= machine.groups[:-1]):
        return DualSolution(*_solve_outputs(gram, machine.y, lo, hi, epsilon, starts, a, tol))
    # The compiled code needs the rows of each group side by side.
    order = np.argsort(machine.groups, kind="stable")
    gram = gram[np.ix_(order, order)]
    fields = _solve_outputs(gram, machine.y[order], lo[order], hi[order], epsilon, starts, a[order], tol)
    a = np.empty_like(fields[0])
    a[order] = fields[0]
    return DualSolution(a, *fields[1:])


def _solve_outputs(
    gram: Any,
    p: np.ndarray,
    lo: np.ndarray,
    hi: np.ndarray,
    epsilon: float,
    starts: np.ndarray,
    a: np.ndarray,
    tol: float,
) -> tuple[np.ndarray, np.ndarray, float, float, float]:
    """The fields of `DualSolution`, one output after the other."""
    from .smo_core import DIAGONAL, HI, LO, N_ARRAYS, A, P, solve_output  # lazy: numba is slow to import

    if hasattr(gram, "rows_when_read"):
        diagonal = gram.diagonal()
        gram, source = gram.rows_when_read()
    else:
        # The compiled code has one signature: writable arrays in C order.
        gram = np.require(gram, np.float64, ["C", "W"])
        diagonal, source = gram.diagonal(), _all_rows(len(gram))
    solution, intercept = np.empty(a.shape), np.empty((a.shape[1], len(starts) - 1))
    lin = quad = primal = 0.0
    w = np.empty((N_ARRAYS, len(a)))
    for k in range(a.shape[1]):
        w[DIAGONAL], w[P], w[LO], w[HI], w[A] = diagonal, p[:, k], lo[:, k], hi[:, k], a[:, k]
        values = solve_output(gram, source, w, starts, epsilon, intercept[k], tol)
        solution[:, k] = w[A]
        lin, quad, primal = lin + values[0], quad + values[1], primal + values[2]
    return solution, intercept.T, lin, quad, primal


def _all_rows(n: int) -> tuple[np.ndarray, ...]:
    """The `source` of a Gram (n, n) of which all rows are there."""
    single, double = np.empty((0, 0, 0), dtype=np.float32), np.empty((0, 0, 0))
    return single, double, np.empty(0), np.empty(0, dtype=np.uint64), np.ones(n, dtype=np.uint8)
