"""How a machine with a box bends: its free rows stay on their margin as kernel weights change, all others stay put.

The value is smooth but where a row meets a bound, and this is its Hessian between such places. Import this module
lazily: numba is slow to import.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .base import Machine

# Rows closer than this to a bound, relative to their cost, are at the bound.
_ROUNDING = 1e-9
# The Gram of the free rows may be singular. This much of its mean diagonal is added to it.
_RIDGE = 1e-8


def free_curvature(gram: np.ndarray, machine: Machine, a: np.ndarray, images: np.ndarray) -> np.ndarray:
    """a (n, m), images (K, n, m) -> the Hessian (K, K) of the machine's value in its kernel weights."""
    # Of one layout, whatever it is cut from: each other would be compiled for itself.
    images, cost = np.ascontiguousarray(images), np.ascontiguousarray(machine.C)
    H = _sum_outputs(gram, machine.groups, machine.n_groups, np.abs(a), cost, images)
    return 0.5 * (H + H.T)


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _sum_outputs(gram, groups, n_groups, size, cost, images):
    H = np.zeros((len(images), len(images)))
    for k in range(size.shape[1]):
        inside = (size[:, k] > _ROUNDING * cost[:, k]) & (size[:, k] < (1.0 - _ROUNDING) * cost[:, k])
        rows = np.flatnonzero(inside)
        scale = 0.0
        for row in rows:
            scale += gram[row, row] / len(rows)
        # Without kernel weights there are no margins, and nothing bends.
        if scale > 0.0:
            V = np.empty((len(rows), len(images)))
            for i in range(len(rows)):
                V[i] = images[:, rows[i], k]
            H += np.dot(V.T, _answer(gram, rows, groups, n_groups, _RIDGE * scale, V))
    return H


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _answer(gram, rows, groups, n_groups, ridge, V):
    """The A (f, K) that solves ``(G + ridge I) A + Z c = V, Z'A = 0`` on the free rows."""
    f = len(rows)
    place = np.full(n_groups, -1)  # of the intercepts that free rows have
    present = 0
    for row in rows:
        if n_groups > 0 and place[groups[row]] < 0:
            place[groups[row]] = f + present
            present += 1
    system, target = np.zeros((f + present, f + present)), np.zeros((f + present, V.shape[1]))
    target[:f] = V
    for i in range(f):
        for j in range(f):
            system[i, j] = gram[rows[i], rows[j]]
        system[i, i] += ridge
        if n_groups > 0:
            system[i, place[groups[rows[i]]]] = system[place[groups[rows[i]]], i] = 1.0
    return np.ascontiguousarray(np.linalg.solve(system, target)[:f])
