"""The least value of a smooth function of variables that are not negative.

Projected L-BFGS: variables at zero that would go below it are held there, the others follow the quasi-Newton direction
of the steps made so far, each step cut off at zero (Bertsekas, 1982). Each evaluation costs as much as the function and
little more, where the wrappers of a general minimiser would cost several times the function of a small problem. Import
this module lazily: numba is slow to import.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit

# Value and gradient (n,) at x (n,).
Function = Callable[[np.ndarray], tuple[float, np.ndarray]]

# Steps that a direction remembers, and how far the first may move a variable: their mean is expected to be near one.
_MEMORY, _FIRST = 20, 0.1
# Variables as near to zero as this, and pushed towards it, go there.
_NEAR = 1e-6
# A share of the fall that the slope promises must come true; a step shorter than this will not help.
_ENOUGH, _SHORTEST = 1e-4, 1e-16


def descend(function: Function, x: np.ndarray, forcing: float, limit: int = 10**4) -> tuple[np.ndarray, float]:
    """From x (n,) >= 0 to where the projected gradient is `forcing` times that at x: that point, and the fall to it.

    At most `limit` evaluations are made; where rounding forbids further progress it ends earlier.
    """
    value, gradient = first, _ = function(x)
    goal = forcing * _violation(x, gradient)
    S, Y = np.empty((_MEMORY, len(x))), np.empty((_MEMORY, len(x)))
    steps = evaluations = 0
    while _violation(x, gradient) > goal and evaluations < limit:
        direction = _direction(x, gradient, S, Y, steps)
        length = 1.0
        while True:
            end = np.maximum(x + length * direction, 0.0)
            there, slope = function(end)
            evaluations += 1
            promised = float(gradient @ (end - x))
            if there <= value + _ENOUGH * promised and promised < 0:
                break
            # Where the parabola through both values is least.
            length *= float(np.clip(0.5 * promised / (promised - there + value), 1e-3, 0.5)) if promised < 0 else 0.5
            if length < _SHORTEST or promised == 0:
                return x, first - value
        S[steps % _MEMORY], Y[steps % _MEMORY] = end - x, slope - gradient
        steps += 1
        x, value, gradient = end, there, slope
    return x, first - value


def _violation(x: np.ndarray, gradient: np.ndarray) -> float:
    """The largest entry of the projected gradient."""
    return float(np.abs(np.minimum(gradient, x)).max())


@njit(cache=True, nogil=True, fastmath=False, error_model="numpy")
def _direction(x, gradient, S, Y, steps):
    """The way down (n,) by the last steps S and changes of gradient Y, rings of rows, among the variables not held."""
    n, memory = len(x), min(steps, len(S))
    d, free = np.empty(n), np.empty(n, dtype=np.bool_)
    steepest = 0.0
    for i in range(n):
        free[i] = x[i] > _NEAR or gradient[i] <= 0.0
        d[i] = -gradient[i] if free[i] else 0.0
        steepest = max(steepest, abs(d[i]))
    scale = _FIRST / max(steepest, 1e-300)
    curved, shares = np.zeros(memory), np.zeros(memory)
    for back in range(memory):
        s, y = S[(steps - 1 - back) % len(S)], Y[(steps - 1 - back) % len(S)]
        sy, sd, ss, yy = 0.0, 0.0, 0.0, 0.0
        for i in range(n):
            if free[i]:
                sy += s[i] * y[i]
                sd += s[i] * d[i]
                ss += s[i] * s[i]
                yy += y[i] * y[i]
        if sy > 1e-10 * np.sqrt(ss * yy):
            if not curved.any():
                scale = sy / yy
            curved[back], shares[back] = sy, sd / sy
            for i in range(n):
                d[i] -= shares[back] * y[i] if free[i] else 0.0
    for i in range(n):
        d[i] *= scale
    for back in range(memory - 1, -1, -1):
        if curved[back] > 0.0:
            s, y = S[(steps - 1 - back) % len(S)], Y[(steps - 1 - back) % len(S)]
            yd = 0.0
            for i in range(n):
                yd += y[i] * d[i] if free[i] else 0.0
            for i in range(n):
                d[i] += (shares[back] - yd / curved[back]) * s[i] if free[i] else 0.0
    for i in range(n):
        if not free[i]:
            d[i] = -x[i]
    return d
