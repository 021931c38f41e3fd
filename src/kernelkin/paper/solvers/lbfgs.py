"""L-BFGS as a generator, for functions that the caller evaluates; variables may be kept from being negative.

Variables at zero that would become negative are held there; the others follow the quasi-Newton direction of the steps
made so far, and each step is cut off at zero (Bertsekas, 1982). A step has to fall by a share of what its slope
promises. SciPy's L-BFGS-B cannot be asked for one step at a time, as a solver of kernel machines must be; for the
models of the joint solver, which could use it, it takes 1.3 to 3 times as long (`benchmarks/inner_minimiser.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np

# Value and gradient (n,) at x (n,).
Function = Callable[[np.ndarray], tuple[float, np.ndarray]]
Descent = Generator[np.ndarray, tuple[float, np.ndarray], np.ndarray]

# Share of the fall that the slope promises which must come true.
_ENOUGH = 1e-4
# A step shorter than this share of the first trial will not help.
_SHORTEST = 1e-16
# Variables as near to zero as this, whose gradient is positive, go to zero.
_NEAR = 1e-6
# How far the first step may move a variable: variables are expected to be of order one.
_FIRST_STEP = 0.1
# Steps that are remembered while a model is minimised: more take longer than they save.
_MODEL_MEMORY = 6
# Pairs with s'y below this share of |y|^2 are left out: they would make the Hessian indefinite.
_FLAT = 1e-10


def descend(x: np.ndarray, memory: int = 20, bounded: bool = False, max_trials: int = 60) -> Descent:
    """Yield points (n,) from x on, receive the value and gradient at each, and return the best where no step helps.

    Parameters
    ----------
    x : (n,) array
    memory : int
        Steps that a direction remembers.
    bounded : bool
        Whether the variables must not be negative.
    max_trials : int
        Points that a line search tries at most.
    """
    value, gradient = yield x
    S = Y = np.empty((0, len(x)))
    while True:
        step, length, trials = _direction(x, gradient, S, Y, bounded), 1.0, 0
        trial = np.maximum(x + step, 0.0) if bounded else x + step
        if np.array_equal(trial, x):
            return x
        while True:
            reached, slope = yield trial
            move = trial - x
            promised = float(gradient @ move)
            if promised < 0 and reached <= value + _ENOUGH * promised:
                break
            # Where the parabola through both values is least.
            shorter = float(np.clip(0.5 * promised / (promised - reached + value), 1e-3, 0.5)) if promised < 0 else 0.5
            length, trials = length * shorter, trials + 1
            if length < _SHORTEST or promised == 0 or trials >= max_trials:
                return x
            trial = np.maximum(x + length * step, 0.0) if bounded else x + length * step
        S, Y = np.vstack([S, move])[-memory:], np.vstack([Y, slope - gradient])[-memory:]
        x, value, gradient = trial, reached, slope


def _direction(x: np.ndarray, gradient: np.ndarray, S: np.ndarray, Y: np.ndarray, bounded: bool) -> np.ndarray:
    """The step (n,) from x (n,), by two loops over past steps S (m, n) and changes Y (m, n) of the gradient."""
    held = (x <= _NEAR) & (gradient > 0) if bounded else np.zeros(len(x), dtype=bool)
    step = -gradient
    if held.any():
        free = ~held
        step, S, Y = step * free, S * free, Y * free
    curvatures, squares = np.einsum("in,in->i", S, Y), np.einsum("in,in->i", Y, Y)
    used = (curvatures > _FLAT * squares).nonzero()[0].tolist()
    if not used:
        # By the whole gradient: where the steepest variables are held at zero, the others are near their best.
        step *= _FIRST_STEP / max(float(np.abs(gradient).max()), np.finfo(float).tiny)
    shares = {}
    for i in reversed(used):
        shares[i] = float(S[i] @ step) / curvatures[i]
        step -= shares[i] * Y[i]
    if used:
        step *= curvatures[used[-1]] / squares[used[-1]]
    for i in used:
        step += (shares[i] - float(Y[i] @ step) / curvatures[i]) * S[i]
    return np.where(held, -x, step)


def minimise_bounded(function: Function, x: np.ndarray, forcing: float, limit: int = 10**4) -> tuple[np.ndarray, float]:
    """From x (n,) >= 0 to where the projected gradient is `forcing` times that at x: that point, and the fall to it.

    At most `limit` evaluations are made; where rounding forbids further progress it ends earlier.
    """
    first, gradient = function(x)
    goal = forcing * float(np.abs(np.minimum(gradient, x)).max())
    if goal == 0.0:
        return x, 0.0
    best, value, descent = first, first, descend(x, _MODEL_MEMORY, bounded=True)
    next(descent)
    for _ in range(limit):
        try:
            trial = descent.send((value, gradient))
        except StopIteration:
            break
        value, gradient = function(trial)
        if value < best:
            x, best = trial, value
            if float(np.abs(np.minimum(gradient, x)).max()) <= goal:
                break
    return x, first - best
