"""Rescaling a problem to order one, so that neither tiny nor huge targets, costs or strengths matter.

With y = s y', a = alpha a' and B = beta B', beta = s/alpha, every term of the problem is phi = s alpha times that of
the rescaled one, if the costs are

    C = alpha C'        for the hinge and epsilon-insensitive losses, whose dual variables are bounded by C
    C = (alpha/s) C'    for the squared loss, whose dual has the term a^2/(2C)

and epsilon = s epsilon', mu' = mu beta^2/phi = mu s/alpha^3. For the squared loss and costs of size c, alpha = s c, and
this is mu' = mu/(s^2 c^3). All factors are powers of two, so that rescaling is exact. Intercepts absorb any offset of
their targets, so the targets of each are centred first: what is left has the size of the spread, and no digits are lost
to the offset.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..learners import SVM, Learner, Machine
from .machines import as_machines

if TYPE_CHECKING:
    from ..solvers import Iterate, Solution
    from .problem import Evaluation


# Strengths beyond this cannot be distinguished from none or from infinite strength: weights go with their cube root.
_WEAKEST, _STRONGEST = 1e-30, 1e30
# Exponents of two within which values have all their digits.
_LARGEST_EXPONENT = 960


@dataclass(frozen=True)
class Units:
    """The factors between a problem and its rescaled form, and the offsets of the targets.

    Attributes
    ----------
    target, dual : exponents of two of s and alpha.
    cost : exponent of two of C/C'.
    offsets : (n_groups, m) for each machine: what was subtracted from the targets of each intercept.
    """

    target: int
    dual: int
    cost: int
    offsets: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, machines: Iterable[Machine], learner: Learner, *, weights: bool = True) -> Units:
        """The units in which targets and costs have size one.

        `weights`: whether the kernel weights may be rescaled, as in problems with a strength mu. Where they may not,
        beta = 1 and the costs are left as they are.

        Raises ValueError where costs and the spread of the targets are out of all proportion.
        """
        known = as_machines(machines)
        offsets, typical, spread = known.offsets(), known.typical_cost(), 1.0
        if isinstance(learner, SVM):
            # Its targets are -1 and +1, and not to be moved.
            offsets = tuple(np.zeros_like(each) for each in offsets)
        else:
            spread = known.spread(offsets)
        target = _exponent(spread)
        shift = 0 if learner.homogeneous else target
        dual = _exponent(typical) + shift if weights else target
        if max(abs(target + dual), abs(target - dual), 2 * abs(dual)) > _LARGEST_EXPONENT:
            raise ValueError(
                f"C is about {typical:.3g} and the spread of the targets about {2.0**target:.3g}: "
                "the objective of such a fit is outside the range of double precision; rescale y, C or sample_weight"
            )
        return cls(target, dual, dual - shift, offsets)

    @property
    def _weight(self) -> int:
        return self.target - self.dual

    @property
    def _value(self) -> int:
        return self.target + self.dual

    def machines(self, machines: Iterable[Machine]) -> Any:
        """The machines in standard units."""
        return as_machines(machines).rescaled(-self.target, -self.cost, self.offsets)

    def learner(self, learner: Learner) -> Learner:
        """The learner in standard units: its epsilon has the units of the targets."""
        known: Any = learner
        if not hasattr(known, "epsilon"):
            return learner
        return replace(known, epsilon=math.ldexp(float(known.epsilon), -self.target))

    def mu(self, mu: float) -> float:
        """The strength in standard units; raises ValueError where it is too small or too large to matter."""
        mantissa, exponent = math.frexp(mu)
        exponent += self.target - 3 * self.dual
        decimal = math.log10(mantissa) + exponent * math.log10(2.0) if mantissa > 0 else -np.inf
        if not math.log10(_WEAKEST) <= decimal <= math.log10(_STRONGEST):
            strength = "infinite strength" if decimal > 0 else "none"
            raise ValueError(
                f"mu={mu!r} cannot be distinguished from {strength} for these data (C about {2.0**self.cost:.3g}, "
                f"spread of the targets about {2.0**self.target:.3g}): relative to them it is 1e{decimal:.0f}, and "
                f"must be between {_WEAKEST:g} and {_STRONGEST:g}"
            )
        return math.ldexp(mantissa, exponent)

    def weights(self, B: np.ndarray) -> np.ndarray:
        """Kernel weights (K, J) in standard units, of weights in the user's."""
        return np.ldexp(B, -self._weight)

    def restore(self, solution: Solution) -> Solution:
        """A solution in the user's units, of one in standard units."""
        history = dict(solution.history)
        for name in ("objective", "primal", "bound"):
            history[name] = np.ldexp(history[name], self._value)
        return replace(
            solution,
            evaluation=self.restore_evaluation(solution.evaluation),
            bound=math.ldexp(solution.bound, self._value),
            history=history,
        )

    def restore_evaluation(self, evaluation: Evaluation) -> Evaluation:
        """An evaluation in the user's units."""
        value, weight = self._value, self._weight
        curvature = evaluation.curvature
        return replace(
            evaluation,
            B=np.ldexp(evaluation.B, weight),
            duals=evaluation.duals.restored(self.target, self.dual, self.offsets),
            Q=np.ldexp(evaluation.Q, value - weight),
            R=float(np.ldexp(evaluation.R, 2 * weight)),
            curvature=None if curvature is None else np.ldexp(curvature, value - 2 * weight),
            **{name: math.ldexp(getattr(evaluation, name), value) for name in ("loss", "upper", "primal", "bound")},
        )

    def restore_iterate(self, iterate: Iterate) -> Iterate:
        """What a callback receives, in the user's units."""
        values: dict[str, Any] = {
            name: math.ldexp(getattr(iterate, name), self._value) for name in ("objective", "primal", "bound")
        }
        return replace(iterate, B=np.ldexp(iterate.B, self._weight), **values)


def _exponent(x: float) -> int:
    """The power of two nearest to x > 0."""
    mantissa, exponent = math.frexp(x)
    return exponent if mantissa > math.sqrt(0.5) else exponent - 1
