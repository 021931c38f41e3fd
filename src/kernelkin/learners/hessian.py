"""The Hessian of a machine's value with respect to kernel weights, for machines with a box.

As kernel weights change, free rows (those inside their box) stay on their margin and all others stay at their bound.
The value is twice differentiable except where a row meets a bound.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..decompositions import solve_symmetric
from .base import HessianFunction, Machine
from .bordered import indicators

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
