"""The Hessian of a machine's value with respect to kernel weights, for machines with a box.

As kernel weights change, free rows (those inside their box) stay on their margin and all others stay at their bound.
The value is twice differentiable except where a row meets a bound.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..decompositions import solve_symmetric
from .base import Machine
from .bordered import indicators

# Rows closer than this to a bound, relative to their cost, are at the bound.
_ROUNDING = 1e-9
# The Gram of the free rows may be singular. This fraction of its mean diagonal is added to its diagonal.
_JITTER = 1e-8


def box_hessian(gram: Any, machine: Machine, a: np.ndarray, images: np.ndarray) -> np.ndarray:
    """a (n, m), images G_k a (K, n, m) -> the Hessian (K, K) of the machine's value in its kernel weights."""
    size, cost = np.abs(a), machine.C
    free = (size > _ROUNDING * cost) & (size < (1.0 - _ROUNDING) * cost)
    H = np.zeros((len(images), len(images)))
    for k in range(a.shape[1]):
        rows = free[:, k].nonzero()[0]
        part = gram.block(rows) if hasattr(gram, "block") else gram[rows[:, np.newaxis], rows]
        scale = part.trace() / max(len(rows), 1)
        if scale > 0.0:  # without kernel weights there are no margins
            V = images[:, rows, k]
            H += _solve_bordered(part, _JITTER * scale, _indicators(machine, rows), V) @ V.T
    return 0.5 * (H + H.T)


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
