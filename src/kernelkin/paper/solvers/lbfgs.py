"""L-BFGS in ask-and-tell form, for functions that the caller evaluates; variables may be kept from being negative.

Variables at zero that would become negative are held there; the others follow the quasi-Newton direction of the steps
made so far, and each step is cut off at zero (Bertsekas, 1982). A step has to fall by a share of what its slope
promises. SciPy's L-BFGS-B cannot be asked for one step at a time, as a solver of kernel machines must be; for the
models of the joint solver, which could use it, it takes 1.3 to 3 times as long (`benchmarks/inner_minimiser.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

# Value and gradient (n,) at x (n,).
Function = Callable[[np.ndarray], tuple[float, np.ndarray]]

# Share of the fall that the slope promises which must come true.
_ENOUGH = 1e-4
# A step shorter than this share of the first trial will not help.
_SHORTEST = 1e-16
# Variables as near to zero as this, whose gradient is positive, go to zero.
_NEAR = 1e-6
# Steps that are remembered while a model is minimised: more take longer than they save.
_MODEL_MEMORY = 6
# Pairs with s'y below this share of |y|^2 are left out: they would make the Hessian indefinite.
_FLAT = 1e-10


@dataclass(frozen=True)
class LBFGS:
    """Options of the method.

    Parameters
    ----------
    memory : int
        Steps that a direction remembers.
    bounded : bool
        Whether the variables must not be negative.
    first_step : float
        How far the first step may move a variable: variables are expected to be of order one.
    max_trials : int
        Points that a line search tries at most.
    """

    memory: int = 20
    bounded: bool = False
    first_step: float = 0.1
    max_trials: int = 60

    def init(self, x: np.ndarray) -> Descent:
        """Begin at x (n,)."""
        return Descent(trial=x, options=self)

    def direction(self, x: np.ndarray, gradient: np.ndarray, S: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """The step (n,) from x (n,), by two loops over past steps S (m, n) and changes Y (m, n) of the gradient."""
        held = (x <= _NEAR) & (gradient > 0) if self.bounded else np.zeros(len(x), dtype=bool)
        step = -gradient
        if held.any():
            free = ~held
            step, S, Y = step * free, S * free, Y * free
        curvatures, squares = np.einsum("in,in->i", S, Y), np.einsum("in,in->i", Y, Y)
        used = (curvatures > _FLAT * squares).nonzero()[0].tolist()
        if not used:
            # By the whole gradient: where the steepest variables are held at zero, the others are near their best.
            step *= self.first_step / max(float(np.abs(gradient).max()), np.finfo(float).tiny)
        shares = {}
        for i in reversed(used):
            shares[i] = float(S[i] @ step) / curvatures[i]
            step -= shares[i] * Y[i]
        if used:
            step *= curvatures[used[-1]] / squares[used[-1]]
        for i in used:
            step += (shares[i] - float(Y[i] @ step) / curvatures[i]) * S[i]
        return np.where(held, -x, step)


@dataclass(frozen=True)
class Descent:
    """A descent under way: evaluate the function at `trial`, and `tell` its value and gradient.

    Attributes
    ----------
    trial : (n,) the next point to evaluate.
    x, value, gradient : the best point so far; None before the first evaluation.
    S, Y : (m, n) the last steps, and the changes of the gradient along them.
    is_done : whether no step promises a lower value.
    """

    trial: np.ndarray
    options: LBFGS
    x: np.ndarray | None = None
    value: float = np.inf
    gradient: np.ndarray | None = None
    step: np.ndarray | None = None
    length: float = 1.0
    trials: int = 0
    S: np.ndarray | None = None
    Y: np.ndarray | None = None
    is_done: bool = False

    def tell(self, value: float, gradient: np.ndarray) -> Descent:
        """After an evaluation at `trial`."""
        if self.x is None or self.gradient is None or self.S is None or self.Y is None or self.step is None:
            nothing = np.empty((0, len(gradient)))
            return self._moved(value, gradient, nothing, nothing)
        move = self.trial - self.x
        promised = float(self.gradient @ move)
        if promised < 0 and value <= self.value + _ENOUGH * promised:
            S, Y = np.vstack([self.S, move]), np.vstack([self.Y, gradient - self.gradient])
            return self._moved(value, gradient, S[-self.options.memory :], Y[-self.options.memory :])
        # Where the parabola through both values is least.
        shorter = float(np.clip(0.5 * promised / (promised - value + self.value), 1e-3, 0.5)) if promised < 0 else 0.5
        length, trials = self.length * shorter, self.trials + 1
        if length < _SHORTEST or promised == 0 or trials >= self.options.max_trials:
            return replace(self, is_done=True)
        return replace(self, trial=self._end(self.x, self.step, length), length=length, trials=trials)

    def _moved(self, value: float, gradient: np.ndarray, S: np.ndarray, Y: np.ndarray) -> Descent:
        x, step = self.trial, self.options.direction(self.trial, gradient, S, Y)
        trial = self._end(x, step, 1.0)
        return Descent(trial, self.options, x, value, gradient, step, S=S, Y=Y, is_done=np.array_equal(trial, x))

    def _end(self, x: np.ndarray, step: np.ndarray, length: float) -> np.ndarray:
        end = x + length * step
        return np.maximum(end, 0.0) if self.options.bounded else end


def minimise_bounded(function: Function, x: np.ndarray, forcing: float, limit: int = 10**4) -> tuple[np.ndarray, float]:
    """From x (n,) >= 0 to where the projected gradient is `forcing` times that at x: that point, and the fall to it.

    At most `limit` evaluations are made; where rounding forbids further progress it ends earlier.
    """
    first, gradient = function(x)
    goal = forcing * _violation(x, gradient)
    if goal == 0.0:
        return x, 0.0
    best, descent = first, LBFGS(_MODEL_MEMORY, bounded=True).init(x).tell(first, gradient)
    for _ in range(limit):
        if descent.is_done:
            break
        trial = descent.trial
        value, gradient = function(trial)
        if value < best:
            x, best = trial, value
            if _violation(x, gradient) <= goal:
                break
        descent = descent.tell(value, gradient)
    return x, first - best


def _violation(x: np.ndarray, gradient: np.ndarray) -> float:
    """The largest entry of the projected gradient."""
    return float(np.abs(np.minimum(gradient, x)).max())
