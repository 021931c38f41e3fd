"""The Hessian of a machine's value with respect to kernel weights, for machines with a box.

As kernel weights change, free rows (those inside their box) stay on their margin and all others stay at their bound.
The value is twice differentiable except where a row meets a bound.
"""

from __future__ import annotations

import numpy as np

from .base import Machine
from .bordered import indicators
from .factorisation import solve_symmetric

# Rows closer than this to a bound, relative to their cost, are at the bound.
_ROUNDING = 1e-9
# The Gram of the free rows may be singular. This fraction of its mean diagonal is added to its diagonal.
_JITTER = 1e-8


def box_hessian(gram: np.ndarray, machine: Machine, a: np.ndarray, images: np.ndarray) -> np.ndarray:
    """a (n, m), images G_k a (K, n, m) -> the Hessian (K, K) of the machine's value in its kernel weights."""
    size = np.abs(a)
    free = (size > _ROUNDING * machine.C) & (size < (1.0 - _ROUNDING) * machine.C)
    H = np.zeros((len(images), len(images)))
    for k in range(a.shape[1]):
        rows = np.flatnonzero(free[:, k])
        if len(rows):
            Z = indicators(machine.groups[rows], machine.n_groups)
            H += _output_hessian(gram[np.ix_(rows, rows)], Z[:, Z.any(axis=0)], images[:, rows, k].T)
    return 0.5 * (H + H.T)


def _output_hessian(gram: np.ndarray, Z: np.ndarray, V: np.ndarray) -> np.ndarray:
    """V'A (K, K), where ``(G + jitter I) A + Z c = V`` and ``Z'A = 0``: gram (f, f), Z (f, g), V (f, K)."""
    f, g = Z.shape
    scale = np.trace(gram) / f
    if scale <= 0.0:  # without kernel weights there are no margins
        return np.zeros((V.shape[1], V.shape[1]))
    system, target = np.zeros((f + g, f + g)), np.zeros((f + g, V.shape[1]))
    system[:f, :f] = gram
    system.flat[: f * (f + g) : f + g + 1] += _JITTER * scale
    system[:f, f:], system[f:, :f] = Z, Z.T
    target[:f] = V
    return V.T @ solve_symmetric(system, target)[:f]
