"""Support vector machines, for classes and for real targets, by sequential minimal optimisation.

One compiled solver of

    max  p'a - epsilon |a|_1 - 1/2 a'Ga    subject to  lo <= a <= hi,  the sum of a over each group = 0

with ``lo <= 0 <= hi``. The hinge loss has p = y, epsilon = 0 and a box on one side of zero; the epsilon-insensitive
loss a box on both. Each step moves a pair of rows of the group that violates the optimality conditions most, chosen
by second-order information (Fan, Chen and Lin, 2005); without intercepts it moves single rows. A step stops at
a = 0, where |a| is not differentiable. Where steps make slow progress, Newton steps move all free rows together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from ...decompositions import solve_symmetric
from .base import DualSolution, HessianFunction, Learner, Machine
from .ridge import indicators


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


# Rows closer than this to a bound, relative to their cost, are at the bound.
_ROUNDING = 1e-9
# The Gram of the free rows may be singular. This fraction of its mean diagonal is added to its diagonal.
_JITTER = 1e-8
# Free rows are few if they are at most this part of all: their Gram is then kept for each machine.
_FEW = 8


def box_hessian(gram: Any, machine: Machine, a: np.ndarray) -> HessianFunction:
    """Return the Hessian of the machine's value at a (n, m), as a function of images; see `Learner.linearise`.

    `gram` is that of a solution just found: where its rows are computed when they are read, those among free rows are
    read off now, if they are few, as the memory that they are in will be used for another machine.
    """
    size, cost = np.abs(a), machine.C
    free = (size > _ROUNDING * cost) & (size < (1.0 - _ROUNDING) * cost)
    rows = [column.nonzero()[0] for column in free.T]
    # With several intercepts the solver has written out the whole matrix, elsewhere.
    few = hasattr(gram, "read") and machine.n_groups <= 1 and max(map(len, rows)) <= len(gram) // _FEW
    return partial(_hessian, gram, machine, rows, [gram.read(part) for part in rows] if few else None)


def _hessian(
    gram: Any, machine: Machine, free: list[np.ndarray], parts: list[np.ndarray] | None, images: np.ndarray
) -> np.ndarray:
    """images G_k a (K, n, m) -> (K, K), from the free rows of each output; `parts`: the Gram among these, if known."""
    H = np.zeros((len(images), len(images)))
    for k, rows in enumerate(free):
        part = _block(gram, rows) if parts is None else parts[k]
        scale = part.trace() / max(len(rows), 1)
        if scale > 0.0:  # without kernel weights there are no margins
            V = images[:, rows, k]
            H += _solve_bordered(part, _JITTER * scale, _indicators(machine, rows), V) @ V.T
    return 0.5 * (H + H.T)


def _block(gram: Any, rows: np.ndarray) -> np.ndarray:
    """The Gram among some rows."""
    return gram.block(rows) if hasattr(gram, "block") else gram[rows[:, np.newaxis], rows]


def _indicators(machine: Machine, rows: np.ndarray) -> np.ndarray:
    """Z (f, g), one where a row has an intercept; g counts those that any of the rows (f,) has."""
    if machine.n_groups <= 1:
        return np.ones((len(rows), machine.n_groups))
    Z = indicators(machine.groups[rows], machine.n_groups)
    return Z[:, Z.any(axis=0)]


def _solve_bordered(gram: np.ndarray, jitter: float, Z: np.ndarray, V: np.ndarray) -> np.ndarray:
    """The A (K, f) that solves ``A (G + jitter I) + c Z' = V, A Z = 0`` for V (K, f)."""
    f, n = len(gram), sum(Z.shape)
    system, target = np.zeros((n, n)), np.zeros((len(V), n))
    system[:f, :f], system[:f, f:], system[f:, :f], target[:, :f] = gram, Z, Z.T, V
    system.ravel()[: f * n : n + 1] += jitter
    return solve_symmetric(system, target)[:, :f]


class BoxLearner(Learner):
    """A learner whose dual variables are in a box."""

    homogeneous: ClassVar[bool] = True

    def linearise(
        self, gram: np.ndarray, machine: Machine, a0: np.ndarray | None = None, tol: float = 1e-3
    ) -> tuple[DualSolution, HessianFunction]:
        """Solve and return the Hessian with respect to the kernel weights; see `box_hessian`."""
        solution = self.solve(gram, machine, a0, tol)
        return solution, box_hessian(gram, machine, solution.a)


@dataclass(frozen=True)
class SVM(BoxLearner):
    """Hinge loss: primal ``1/2 |w|^2 + sum_i C_i max(0, 1 - y_i (f_i + c))`` with y in {-1, +1}."""

    name: ClassVar[str] = "svm"

    def solve(
        self, gram: np.ndarray, machine: Machine, a0: np.ndarray | None = None, tol: float = 1e-3
    ) -> DualSolution:
        """Maximise ``y'a - 1/2 a'Ga`` over ``0 <= y_i a_i <= C_i`` with zero sums; see `Learner`."""
        bound = machine.y * machine.C
        return solve_box(gram, machine, np.minimum(bound, 0.0), np.maximum(bound, 0.0), 0.0, a0, tol)

    def loss(self, machine: Machine, f: np.ndarray) -> float:
        """Cost of values f (n, m); see `Learner`."""
        return float(np.sum(machine.C * np.maximum(0.0, 1.0 - machine.y * f)))


@dataclass(frozen=True)
class SVR(BoxLearner):
    """Epsilon-insensitive loss: primal ``1/2 |w|^2 + sum_i C_i max(0, |y_i - f_i - c| - epsilon)``.

    Parameters
    ----------
    epsilon : float
        Half the width of the tube without loss, not negative.
    """

    epsilon: float = 0.1
    name: ClassVar[str] = "svr"

    def solve(
        self, gram: np.ndarray, machine: Machine, a0: np.ndarray | None = None, tol: float = 1e-3
    ) -> DualSolution:
        """Maximise ``y'a - epsilon |a|_1 - 1/2 a'Ga`` over ``|a_i| <= C_i`` with zero sums; see `Learner`."""
        return solve_box(gram, machine, -machine.C, machine.C, float(self.epsilon), a0, tol)

    def loss(self, machine: Machine, f: np.ndarray) -> float:
        """Cost of values f (n, m); see `Learner`."""
        return float(np.sum(machine.C * np.maximum(0.0, np.abs(machine.y - f) - self.epsilon)))
