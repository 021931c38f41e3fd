"""The exact best intercept of a piecewise linear loss.

Compiled, so import it lazily: numba is slow to import.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def piecewise_loss(residual: float, lo: float, hi: float, epsilon: float) -> float:
    """Loss of one row: ``max over lo <= a <= hi of a * residual - epsilon |a|``, where ``lo <= 0 <= hi``.

    ``lo = -C, hi = C`` is the epsilon-insensitive loss. With ``y = 1`` the hinge has ``lo = 0, hi = C``, with
    ``y = -1`` it has ``lo = -C, hi = 0``, both with ``epsilon = 0`` and the residual ``y - f - intercept``.
    """
    return hi * max(0.0, residual - epsilon) - lo * max(0.0, -residual - epsilon)


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def best_intercept(residual: np.ndarray, lo: np.ndarray, hi: np.ndarray, epsilon: float) -> float:
    """The c that minimises ``sum_i piecewise_loss(residual_i - c, lo_i, hi_i, epsilon)``: a weighted quantile.

    The midpoint where the minimisers form an interval, its finite end where that is a half-line, and zero where the
    loss does not depend on c. All arrays (n,).
    """
    points, jumps = _breakpoints(residual, lo, hi, epsilon)
    if len(points) == 0:
        return 0.0
    order = np.argsort(points)
    slope = -np.sum(hi)
    flat = 1e-13 * np.sum(jumps)
    for position, index in enumerate(order):
        if slope >= -flat:  # all the way down before the first breakpoint: a half-line to the left
            return points[index]
        slope += jumps[index]
        if slope > flat or position + 1 == len(order):
            return points[index]
        if slope >= -flat:
            return 0.5 * (points[index] + points[order[position + 1]])
    return 0.0


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _breakpoints(residual, lo, hi, epsilon):
    """Where the slope of the loss in c jumps, and by how much; rows without a jump are left out."""
    points, jumps = np.empty(2 * len(residual)), np.empty(2 * len(residual))
    count = 0
    for i in range(len(residual)):
        if hi[i] > 0.0:
            points[count], jumps[count] = residual[i] - epsilon, hi[i]
            count += 1
        if lo[i] < 0.0:
            points[count], jumps[count] = residual[i] + epsilon, -lo[i]
            count += 1
    return points[:count], jumps[:count]
