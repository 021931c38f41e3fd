"""L-BFGS in ask-and-tell form, for functions whose evaluation belongs to somebody else.

Variables may be bounded by zero from below: those at zero that would go below it are held there, the others follow the
quasi-Newton direction of the steps made so far, each step cut off at zero (Bertsekas, 1982). A step has to fall by a
share of what its slope promises; a pair of points is remembered where the function is curved upwards between them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

import numpy as np

# Share of the fall that the slope promises which must come true.
_ENOUGH = 1e-4
# A step shorter than this share of the first trial will not help.
_SHORTEST = 1e-16
# Pairs whose curvature is below this are not remembered.
_FLAT = 1e-10
# Bounded variables as near to zero as this, and pushed towards it, go there.
_NEAR = 1e-6


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


@dataclass(frozen=True)
class Descent:
    """A descent under way: evaluate the function at `trial`, and `tell` its value and gradient.

    Attributes
    ----------
    trial : (n,) the next point to evaluate.
    x, value, gradient : the best point so far; None before the first evaluation.
    is_done : whether no step promises a lower value.
    """

    trial: np.ndarray
    options: LBFGS
    x: np.ndarray | None = None
    value: float = np.inf
    gradient: np.ndarray | None = None
    direction: np.ndarray | None = None
    length: float = 1.0
    trials: int = 0
    pairs: tuple[tuple[np.ndarray, np.ndarray], ...] = ()
    is_done: bool = False

    def tell(self, value: float, gradient: np.ndarray) -> Descent:
        """After an evaluation at `trial`."""
        if self.x is None or self.gradient is None:
            return self._moved(value, gradient, ())
        promised = float(self.gradient @ (self.trial - self.x))
        if promised < 0 and value <= self.value + _ENOUGH * promised:
            pair = (self.trial - self.x, gradient - self.gradient)
            return self._moved(value, gradient, (*self.pairs, pair)[-self.options.memory :])
        # Where the parabola through both values is least.
        shorter = float(np.clip(0.5 * promised / (promised - value + self.value), 1e-3, 0.5)) if promised < 0 else 0.5
        length, trials = self.length * shorter, self.trials + 1
        if length < _SHORTEST or promised == 0 or trials >= self.options.max_trials:
            return replace(self, is_done=True)
        assert self.direction is not None
        return replace(self, trial=self._point(self.x, self.direction, length), length=length, trials=trials)

    def violation(self) -> float:
        """The largest entry of the (projected) gradient at the best point."""
        assert self.x is not None and self.gradient is not None
        bounded = np.minimum(self.gradient, self.x) if self.options.bounded else self.gradient
        return float(np.abs(bounded).max())

    def _moved(self, value: float, gradient: np.ndarray, pairs: tuple) -> Descent:
        x = self.trial
        direction = self._direction(x, gradient, pairs)
        trial = self._point(x, direction, 1.0)
        return replace(
            self,
            trial=trial,
            x=x,
            value=value,
            gradient=gradient,
            direction=direction,
            length=1.0,
            trials=0,
            pairs=pairs,
            is_done=bool((trial == x).all()),
        )

    def _point(self, x: np.ndarray, direction: np.ndarray, length: float) -> np.ndarray:
        end = x + length * direction
        return np.maximum(end, 0.0) if self.options.bounded else end

    def _direction(self, x: np.ndarray, gradient: np.ndarray, pairs: tuple) -> np.ndarray:
        """Quasi-Newton direction (n,) among the variables that are not held at zero."""
        free = (x > _NEAR) | (gradient <= 0.0) if self.options.bounded else np.ones(len(x), dtype=bool)
        d = np.where(free, -gradient, 0.0)
        scale = self.options.first_step / max(float(np.abs(d).max()), 1e-300)
        used: deque[tuple[np.ndarray, np.ndarray, float, float]] = deque()
        for s, y in reversed(pairs):
            s, y = np.where(free, s, 0.0), np.where(free, y, 0.0)
            sy, yy = float(s @ y), float(y @ y)
            if sy > _FLAT * float(np.sqrt((s @ s) * yy)):
                scale = sy / yy if not used else scale
                share = float(s @ d) / sy
                d = d - share * y
                used.append((s, y, sy, share))
        d = scale * d
        for s, y, sy, share in reversed(used):
            d = d + (share - float(y @ d) / sy) * s
        return np.where(free, d, -x)


def minimise(function, x: np.ndarray, options: LBFGS, forcing: float, limit: int = 10**4) -> tuple[np.ndarray, float]:
    """From x (n,) to where the (projected) gradient is `forcing` times that at x: that point, and the fall to it.

    `function` returns value and gradient (n,) at x (n,). At most `limit` evaluations are made; where rounding forbids
    further progress it ends earlier.
    """
    descent = options.init(x).tell(*function(x))
    first, goal = descent.value, forcing * descent.violation()
    for _ in range(limit):
        if descent.is_done or descent.violation() <= goal:
            break
        descent = descent.tell(*function(descent.trial))
    assert descent.x is not None
    return descent.x, first - descent.value
