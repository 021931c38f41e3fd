"""The Hessian of a machine's value with respect to kernel weights, for machines with a box.

As kernel weights change, free rows (those inside their box) stay on their margin and all others stay at their bound.
The value is twice differentiable except where a row meets a bound.
"""

from __future__ import annotations

import numpy as np

from .base import Machine
from .factorisation import solve_symmetric

# Rows closer than this to a bound, relative to their cost, are at the bound.
_ROUNDING = 1e-9
# The Gram of the free rows may be singular. This fraction of its mean diagonal is added to its diagonal.
_JITTER = 1e-8


def box_hessian(gram: np.ndarray, machine: Machine, a: np.ndarray, images: np.ndarray) -> np.ndarray:
    """a (n, m), images G_k a (K, n, m) -> the Hessian (K, K) of the machine's value in its kernel weights."""
    size, cost = np.abs(a), machine.C
    free = (size > _ROUNDING * cost) & (size < (1.0 - _ROUNDING) * cost)
    H = np.zeros((len(images), len(images)))
    for k in range(a.shape[1]):
        rows = free[:, k].nonzero()[0]
        part = gram[rows[:, np.newaxis], rows]
        scale = part.trace() / max(len(rows), 1)
        if scale > 0.0:  # without kernel weights there are no margins
            V = images[:, rows, k]
            H += _solve_bordered(part, _JITTER * scale, _group_indices(machine, rows), V) @ V.T
    return 0.5 * (H + H.T)


def _group_indices(machine: Machine, rows: np.ndarray) -> np.ndarray | None:
    """The groups of the rows (f,), numbered without those that have none of them; None without intercepts."""
    if machine.n_groups <= 1:
        return np.zeros(len(rows), dtype=np.intp) if machine.n_groups else None
    return np.unique(machine.groups[rows], return_inverse=True)[1]


def _solve_bordered(gram: np.ndarray, jitter: float, groups: np.ndarray | None, V: np.ndarray) -> np.ndarray:
    """The A (K, f) that solves ``A (G + jitter I) + c Z' = V, A Z = 0`` for V (K, f), where Z indicates the groups."""
    f = len(gram)
    n = f if groups is None else f + int(groups.max()) + 1
    system, target = np.zeros((n, n)), np.zeros((len(V), n))
    system[:f, :f], target[:, :f] = gram, V
    system.ravel()[: f * n : n + 1] += jitter
    if groups is not None:
        rows = np.arange(f)
        system[rows, f + groups] = system[f + groups, rows] = 1.0
    return solve_symmetric(system, target)[:, :f]
