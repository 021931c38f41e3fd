"""The compiled steps of sequential minimal optimisation; `smo` says which problem they solve.

The hot loops take whole arrays and unsigned bounds instead of slices: a slice costs a reference count and a signed
index a test of its sign, which together double the time of a step on a hundred rows. Import this module lazily.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, uint64

TINY = 1e-300


class State(NamedTuple):
    """One output being solved; the arrays a, slope, up and down change in place.

    ``slope = p - Ga``. ``slope + up`` is the derivative of the dual as a row's a rises (-inf at the upper bound) and
    ``slope + down`` the derivative as it falls (inf at the lower bound): up and down change only for rows that move.
    Rows ``starts[g]`` to ``starts[g + 1]`` form group g.
    """

    gram: np.ndarray
    diagonal: np.ndarray
    p: np.ndarray
    lo: np.ndarray
    hi: np.ndarray
    epsilon: float
    starts: np.ndarray
    a: np.ndarray
    slope: np.ndarray
    up: np.ndarray
    down: np.ndarray


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def burst(s, fraction, floor, limit):
    """Step until the violation is ``fraction`` of the present one or at most ``floor``, at most ``limit`` times.

    Returns the number of steps, their gain in the dual and the violation that is left.
    """
    gain = 0.0
    i, group, violation = steepest(s.slope, s.up, s.down, s.diagonal, s.starts)
    goal = max(fraction * violation, floor)
    for step in range(limit):
        if violation <= goal:
            return step, gain, violation
        if group < 0:
            gain += _move_one(s.gram, s.diagonal, s.lo, s.hi, s.epsilon, s.a, s.slope, s.up, s.down, i)
        else:
            first, last = uint64(s.starts[group]), uint64(s.starts[group + 1])
            j, curvature = _partner(s.slope, s.up, s.down, s.diagonal, s.gram, i, first, last)
            gain += _move_pair(s.gram, s.lo, s.hi, s.epsilon, s.a, s.slope, s.up, s.down, i, j, curvature)
        i, group, violation = steepest(s.slope, s.up, s.down, s.diagonal, s.starts)
    return limit, gain, violation


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def steepest(slope, up, down, diagonal, starts):
    """The first row of the next step, its group (-1 without groups) and the violation, zero if none gains."""
    if len(starts) == 1:
        return _best_single(slope, up, down, diagonal, uint64(0), uint64(len(slope)))
    row, worst_group, worst = uint64(0), -1, 0.0
    for group in range(len(starts) - 1):
        i, highest, lowest = extremes(slope, up, down, uint64(starts[group]), uint64(starts[group + 1]))
        if highest - lowest > worst:
            row, worst_group, worst = i, group, highest - lowest
    return row, worst_group, worst


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def extremes(slope, up, down, first, last):
    """The row of one group that gains most by rising, its derivative, and the least derivative by falling."""
    row, highest, lowest = first, -np.inf, np.inf
    for k in range(first, last):
        if slope[k] + up[k] > highest:
            row, highest = k, slope[k] + up[k]
        if slope[k] + down[k] < lowest:
            lowest = slope[k] + down[k]
    return row, highest, lowest


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _best_single(slope, up, down, diagonal, first, last):
    """Without groups: the row whose own step would gain most, and the largest violation."""
    row, best, violation = first, 0.0, 0.0
    for k in range(first, last):
        v = max(slope[k] + up[k], -slope[k] - down[k])
        if v > 0.0:
            violation = max(violation, v)
            c = max(diagonal[k], TINY)
            if v * v > best * c:
                row, best = k, v * v / c
    return row, -1, violation


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _partner(slope, up, down, diagonal, gram, i, first, last):
    """The row whose fall gains most while row i rises, and the curvature along that pair."""
    own, height = diagonal[i], slope[i] + up[i]
    row, best, curvature, flat = first, 0.0, 0.0, 1e-12 * own + TINY
    for k in range(first, last):
        v = height - (slope[k] + down[k])  # these brackets make it exactly zero for row i itself
        if v > 0.0:
            c = max(own + diagonal[k] - 2.0 * gram[i, k], flat)
            if v * v > best * c:
                row, best, curvature = k, v * v / c, c
    return row, curvature


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _move_pair(gram, lo, hi, epsilon, a, slope, up, down, i, j, curvature):
    """Raise row i and lower row j by the same amount; the gain in the dual."""
    violation = slope[i] + up[i] - (slope[j] + down[j])
    top, bottom = next_above(a[i], hi[i], epsilon), next_below(a[j], lo[j], epsilon)
    delta = min(violation / curvature, top - a[i], a[j] - bottom)
    a[i] = top if delta == top - a[i] else a[i] + delta
    a[j] = bottom if delta == a[j] - bottom else a[j] - delta
    up[i], down[i] = kinks(a[i], lo[i], hi[i], epsilon)
    up[j], down[j] = kinks(a[j], lo[j], hi[j], epsilon)
    for k in range(uint64(len(slope))):
        slope[k] -= delta * (gram[i, k] - gram[j, k])
    return delta * (violation - 0.5 * delta * curvature)


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _move_one(gram, diagonal, lo, hi, epsilon, a, slope, up, down, i):
    """Move row i alone to the best of its own values; the gain in the dual."""
    rise, fall = slope[i] + up[i], -slope[i] - down[i]
    curvature = max(diagonal[i], TINY)
    end = next_above(a[i], hi[i], epsilon) if rise > fall else next_below(a[i], lo[i], epsilon)
    delta = min(max(rise, fall) / curvature, abs(end - a[i]))
    signed = delta if rise > fall else -delta
    a[i] = end if delta == abs(end - a[i]) else a[i] + signed
    up[i], down[i] = kinks(a[i], lo[i], hi[i], epsilon)
    for k in range(uint64(len(slope))):
        slope[k] -= signed * gram[i, k]
    return delta * (max(rise, fall) - 0.5 * delta * curvature)


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def kinks(a, lo, hi, epsilon):
    """One-sided derivatives of ``-epsilon |a|`` as a rises and as it falls, infinite where the box ends."""
    up = -np.inf if a >= hi else (-epsilon if a >= 0.0 else epsilon)
    down = np.inf if a <= lo else (-epsilon if a > 0.0 else epsilon)
    return up, down


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def next_above(a, hi, epsilon):
    """How far a may rise: to its bound, or to the kink at zero."""
    return 0.0 if epsilon > 0.0 and a < 0.0 else hi


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def next_below(a, lo, epsilon):
    """How far a may fall: to its bound, or to the kink at zero."""
    return 0.0 if epsilon > 0.0 and a > 0.0 else lo
