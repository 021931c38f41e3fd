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
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..learners import SVM, DualSolution, Learner, Machine
from .machines import BlockDuals, SolvedMachines
from .panel import MachinePanel, PanelDuals

if TYPE_CHECKING:
    from ..solvers import Iterate, Solution


@dataclass(frozen=True)
class Evaluation:
    """Machines, values and bounds at B.

    Attributes
    ----------
    B : (K, J) the kernel weights, or what else the problem is evaluated at.
    duals : the solution of each machine.
    Q : (K, J) half the quadratic forms of the dual variables; the gradient of the machines' values is -Q.
    R : the penalty at B; 0 for problems whose term is one of the functions.
    loss, upper : sums of the machines' dual and primal values, bounds on sum L_m(B) from below and above.
    primal : upper bound on the objective at B, hence on the optimum.
    bound : lower bound on the optimum.
    curvature : (J, K, K) the Hessian of each machine's value in its kernel weights, where it was requested and each
        machine has one component.
    """

    B: np.ndarray
    duals: Sequence[DualSolution]
    Q: np.ndarray
    R: float
    loss: float
    upper: float
    primal: float
    bound: float
    curvature: np.ndarray | None = None

    @classmethod
    def of(cls, B: np.ndarray, solved: SolvedMachines, primal: float, bound: float, R: float = 0.0) -> Evaluation:
        """From machines that were solved at B, and what a problem makes of them."""
        return cls(B, solved.duals, solved.Q, R, solved.loss, solved.upper, primal, bound)

    @property
    def dual_variables(self) -> Sequence[Any]:
        """Those of each machine, to start the next evaluation from."""
        return self.duals if isinstance(self.duals, PanelDuals | BlockDuals) else [dual.a for dual in self.duals]

    @property
    def relative_gap(self) -> float:
        """Distance of this evaluation's own bounds, relative to its primal value."""
        return relative_gap(self.primal, self.bound)


def relative_gap(primal: float, bound: float) -> float:
    """Duality gap relative to the primal value; infinite where nothing is known."""
    if not math.isfinite(primal) or not math.isfinite(bound):
        return math.inf
    return max(primal - bound, 0.0) / max(abs(primal), sys.float_info.min)


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
    def of(cls, machines: Sequence[Machine], learner: Learner, *, weights: bool = True) -> Units:
        """The units in which targets and costs have size one.

        `weights`: whether the kernel weights may be rescaled, as in problems with a strength mu. Where they may not,
        beta = 1 and the costs are left as they are.
        """
        offsets = _all_offsets(machines, learner)
        spread = 1.0 if isinstance(learner, SVM) else _spread(machines, offsets)
        return cls.of_sizes(spread, _typical_cost(machines), learner, offsets, weights=weights)

    @classmethod
    def of_sizes(
        cls,
        spread: float,
        typical: float,
        learner: Learner,
        offsets: tuple[np.ndarray, ...] = (),
        *,
        weights: bool = True,
    ) -> Units:
        """The same from the spread of the targets (1 for classes) and a typical cost."""
        target = _exponent(spread)
        shift = 0 if learner.homogeneous else target
        dual = _exponent(typical) + shift if weights else target
        if max(abs(target + dual), abs(target - dual), 2 * abs(dual)) > _LARGEST_EXPONENT:
            raise ValueError(
                f"C is about {typical:.3g} and the spread of the targets about {2.0**target:.3g}: "
                "the objective of such a fit is outside the range of double precision; rescale y, C or sample_weight"
            )
        return cls(target, dual, dual - shift, offsets)

    def of_machines(self, machines: Sequence[Machine], learner: Learner) -> Units:
        """The same factors for other machines, whose offsets are their own."""
        return replace(self, offsets=_all_offsets(machines, learner))

    @property
    def _weight(self) -> int:
        return self.target - self.dual

    @property
    def _value(self) -> int:
        return self.target + self.dual

    def machines(self, machines: Sequence[Machine]) -> Sequence[Machine]:
        """The machines in standard units."""
        if isinstance(machines, MachinePanel):
            return machines.rescaled(-self.target, -self.cost)
        return [
            replace(
                machine,
                y=np.ldexp(_centred(machine, offset), -self.target),
                C=np.ldexp(machine.C, -self.cost),
            )
            for machine, offset in zip(machines, self.offsets, strict=True)
        ]

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
        return Evaluation(
            B=np.ldexp(evaluation.B, weight),
            duals=self._restore_duals(evaluation.duals),
            Q=np.ldexp(evaluation.Q, value - weight),
            R=float(np.ldexp(evaluation.R, 2 * weight)),
            loss=math.ldexp(evaluation.loss, value),
            upper=math.ldexp(evaluation.upper, value),
            primal=math.ldexp(evaluation.primal, value),
            bound=math.ldexp(evaluation.bound, value),
            curvature=None if curvature is None else np.ldexp(curvature, value - 2 * weight),
        )

    def restore_machines(
        self, duals: Sequence[DualSolution], B: np.ndarray
    ) -> tuple[Sequence[DualSolution], np.ndarray]:
        """Solutions of the machines of these units, and kernel weights, in the user's units."""
        return self._restore_duals(duals), np.ldexp(B, self._weight)

    def restore_iterate(self, iterate: Iterate) -> Iterate:
        """What a callback receives, in the user's units."""
        values: dict[str, Any] = {
            name: math.ldexp(getattr(iterate, name), self._value) for name in ("objective", "primal", "bound")
        }
        return replace(iterate, B=np.ldexp(iterate.B, self._weight), **values)

    def _restore_duals(self, duals: Sequence[DualSolution]) -> Sequence[DualSolution]:
        if isinstance(duals, BlockDuals):
            return duals  # solutions are restored once they are gathered
        if isinstance(duals, PanelDuals):
            return duals.rescaled(self.dual, self.target, self._value, self.offsets)
        return [self._restore_dual(dual, offset) for dual, offset in zip(duals, self.offsets, strict=True)]

    def _restore_dual(self, dual: DualSolution, offset: np.ndarray) -> DualSolution:
        return DualSolution(
            a=np.ldexp(dual.a, self.dual),
            intercept=np.ldexp(dual.intercept, self.target) + offset,
            lin=math.ldexp(dual.lin, self._value),
            quad=math.ldexp(dual.quad, self._value),
            primal=math.ldexp(dual.primal, self._value),
        )


def _all_offsets(machines: Sequence[Machine], learner: Learner) -> tuple[np.ndarray, ...]:
    """The mean targets (n_groups, m) of each machine; zeros for classes."""
    if isinstance(learner, SVM):
        # Its targets are -1 and +1, and not to be moved.
        return tuple(np.zeros((machine.n_groups, machine.y.shape[1])) for machine in machines)
    if not isinstance(machines, MachinePanel):
        return tuple(_offsets(machine) for machine in machines)
    return machines.split(machines.offsets)


def _offsets(machine: Machine) -> np.ndarray:
    """The mean target (n_groups, m) of the rows of each intercept that have a cost."""
    offsets = np.zeros((machine.n_groups, machine.y.shape[1]))
    if not machine.n_groups:
        return offsets
    used = machine.C > 0
    counts = np.zeros_like(offsets)
    np.add.at(counts, machine.groups, used)
    # Twice: the mean of numbers with a large offset is itself off by its rounding.
    for _ in range(2):
        residual = np.where(used, _centred(machine, offsets), 0.0)
        # Relative to the largest: sums of huge numbers would overflow.
        top = max(float(np.abs(residual).max(initial=0.0)), np.finfo(float).tiny)
        sums = np.zeros_like(offsets)
        np.add.at(sums, machine.groups, residual / top)
        offsets += sums / np.maximum(counts, 1.0) * top
    return offsets


def _centred(machine: Machine, offsets: np.ndarray) -> np.ndarray:
    return machine.y - offsets[machine.groups] if machine.n_groups else machine.y


def _spread(machines: Sequence[Machine], offsets: Sequence[np.ndarray]) -> float:
    """Root mean square of the centred targets with a cost; 1 where all of them are zero."""
    if isinstance(machines, MachinePanel):
        return machines.spread
    values = np.concatenate([_centred(m, o)[m.C > 0] for m, o in zip(machines, offsets, strict=True)])
    top = float(np.abs(values).max(initial=0.0))
    return top * float(np.sqrt(np.mean(np.square(values / top)))) if top > 0 else 1.0


def _typical_cost(machines: Sequence[Machine]) -> float:
    """Median of the costs that are not zero; 1 where there are none."""
    if isinstance(machines, MachinePanel):
        costs = machines.cost[machines.cost > 0]
    else:
        costs = np.concatenate([machine.C[machine.C > 0] for machine in machines])
    return float(np.median(costs)) if len(costs) else 1.0


def _exponent(x: float) -> int:
    """The power of two nearest to x > 0."""
    mantissa, exponent = math.frexp(x)
    return exponent if mantissa > math.sqrt(0.5) else exponent - 1
