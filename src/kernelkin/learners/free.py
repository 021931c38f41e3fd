"""How a machine with a box bends: as one with squared errors of no cost, on the rows whose dual variables are free."""

from __future__ import annotations

import numpy as np

from .base import Machine
from .bordered import Bordered, indicators

# Rows closer than this to a bound, relative to their cost, are at the bound.
_ROUNDING = 1e-9
# The Gram of the free rows may be singular. This much of its mean diagonal is added to it.
_RIDGE = 1e-8


def free_curvature(gram: np.ndarray, machine: Machine, a: np.ndarray, images: np.ndarray) -> np.ndarray:
    """a (n, m), images (K, n, m) -> the Hessian (K, K) of the machine's value in its kernel weights.

    The free rows stay on their margin as weights change, all others where they are: the value is smooth but where a
    row meets a bound, and this is its Hessian between such places.
    """
    H = np.zeros((len(images), len(images)))
    for column in range(a.shape[1]):
        share = np.abs(a[:, column]) / np.maximum(machine.C[:, column], np.finfo(float).tiny)
        rows = np.flatnonzero((share > _ROUNDING) & (share < 1 - _ROUNDING))
        free = np.asarray(gram)[np.ix_(rows, rows)]
        # Without kernel weights there are no margins, and nothing bends.
        if free.any():
            cost = np.full(len(rows), 1 / (_RIDGE * free.diagonal().mean()))
            system = Bordered(free, cost, indicators(machine.groups[rows], machine.n_groups))
            H += system.energy(images[:, rows, column].T)
    return H
