"""L-BFGS in ask-and-tell form, for functions that the caller evaluates.

A direction minimises the quadratic model of the steps made so far; where variables must not be negative it does so
among the steps that keep them so, which costs little beside an evaluation of kernel machines. A step has to fall by a
share of what its slope promises.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .bounded import minimise_bounded
from .secants import curved_pairs, secant_hessian, secant_inverse

# Share of the fall that the slope promises which must come true.
_ENOUGH = 1e-4
# A step shorter than this share of the first trial will not help.
_SHORTEST = 1e-16
# The projected gradient of a bounded model is made this much smaller.
_FORCING = 1e-6


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
        """The step (n,) to the minimiser of the model at x (n,), from steps S (m, n) and changes Y of the gradient."""
        S, Y = curved_pairs(S, Y)
        if not len(S):
            step = -gradient * (self.first_step / max(float(np.abs(gradient).max()), np.finfo(float).tiny))
            return np.maximum(x + step, 0.0) - x if self.bounded else step
        if not self.bounded:
            return -secant_inverse(S, Y)(gradient)
        hessian = secant_hessian(S, Y)

        def model(end: np.ndarray) -> tuple[float, np.ndarray]:
            step = end - x
            image = hessian(step)
            return float(gradient @ step) + 0.5 * float(step @ image), gradient + image

        return minimise_bounded(model, x, _FORCING)[0] - x


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
    step: np.ndarray | None = None
    length: float = 1.0
    trials: int = 0
    pairs: tuple[tuple[np.ndarray, np.ndarray], ...] = ()
    is_done: bool = False

    def tell(self, value: float, gradient: np.ndarray) -> Descent:
        """After an evaluation at `trial`."""
        if self.x is None or self.gradient is None or self.step is None:
            return self._moved(value, gradient, ())
        promised = float(self.gradient @ (self.trial - self.x))
        if promised < 0 and value <= self.value + _ENOUGH * promised:
            pair = (self.trial - self.x, gradient - self.gradient)
            return self._moved(value, gradient, (*self.pairs, pair)[-self.options.memory :])
        # Where the parabola through both values is least.
        shorter = float(np.clip(0.5 * promised / (promised - value + self.value), 1e-3, 0.5)) if promised < 0 else 0.5
        length, trials = self.length * shorter, self.trials + 1
        if length < _SHORTEST or promised >= 0 or trials >= self.options.max_trials:
            return replace(self, is_done=True)
        return replace(self, trial=self.x + length * self.step, length=length, trials=trials)

    def _moved(self, value: float, gradient: np.ndarray, pairs: tuple) -> Descent:
        x = self.trial
        S, Y = (np.array([pair[i] for pair in pairs]).reshape(len(pairs), len(x)) for i in (0, 1))
        step = self.options.direction(x, gradient, S, Y)
        # Adding the step may leave a variable that goes to its bound below it, by rounding.
        trial = np.maximum(x + step, 0.0) if self.options.bounded else x + step
        return replace(
            self,
            trial=trial,
            x=x,
            value=value,
            gradient=gradient,
            step=step,
            length=1.0,
            trials=0,
            pairs=pairs,
            is_done=bool((trial == x).all()),
        )
