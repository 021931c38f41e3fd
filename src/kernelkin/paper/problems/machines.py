"""The machines of a problem, and how they are solved at given kernel weights.

There are three forms of machines, with one interface: `MachineList` has one machine for each task or set of coupled
tasks, `MachinePanel` (panel.py) the machines of wide data as columns over shared rows, and `MachineBlocks` (blocks.py)
those that an engine holds. Each has `solve`, `rescaled`, `offsets`, `spread`, `typical_cost` and `deviation`.

Problems are solved in standard units (`Units`), so that neither tiny nor huge targets, costs or strengths matter.
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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from ...engines.threads import Each
from ..learners.machines import SVM, DualSolution, Learner, Machine

if TYPE_CHECKING:
    from ..solvers.driver import Iterate
    from .problem import Evaluation

Solved = TypeVar("Solved", bound="Evaluation")

_TINY = np.finfo(float).tiny


class MachineDuals(list[DualSolution]):
    """The solution of each machine.

    Those of other forms of machines have the same properties, and `restored`.
    """

    @property
    def values(self) -> np.ndarray:
        """(3, M) lin, quad and primal of each machine."""
        return np.array([(dual.lin, dual.quad, dual.primal) for dual in self]).T

    @property
    def variables(self) -> list[np.ndarray]:
        """The dual variables (n_m, outputs) of each machine."""
        return [dual.a for dual in self]

    def part_shares(self, grams: Any, B: np.ndarray) -> np.ndarray:
        """(T, 1 + couplings); see `CoupledGrams.part_shares`."""
        return grams.part_shares(B, self.variables)

    def restored(self, target: int, dual: int, offsets: Sequence[np.ndarray]) -> MachineDuals:
        """The solutions in other units: targets times 2^target, dual variables times 2^dual, and offsets added.

        `offsets` (n_groups, outputs) are those of each machine.
        """
        values = np.ldexp(self.values.T, target + dual).tolist()
        return MachineDuals(
            DualSolution(np.ldexp(own.a, dual), np.ldexp(own.intercept, target) + offset, *numbers)
            for own, offset, numbers in zip(self, offsets, values, strict=True)
        )


class SolvedMachines:
    """The machines at one B (K, J), and the sums over them that bounds are made of.

    Attributes
    ----------
    duals : the solutions of the machines.
    Q : (K, J) half the quadratic forms of the dual variables.
    curvature : computes the Hessians (J, K, K); None where they were not requested.
    lin : sum of the dual terms without the Gram matrices.
    quad : <B, Q>.
    upper : sum of the primal values, with a margin for rounding.
    rounding : what both bounds have to allow for rounding.
    """

    def __init__(
        self, B: np.ndarray, duals: Any, Q: np.ndarray, curvature: Callable[[], np.ndarray] | None = None
    ) -> None:
        self.duals, self.Q, self.curvature = duals, Q, curvature
        self.lin, own, primal = duals.values.sum(axis=1).tolist()
        # The same number twice, added up in two ways: what they differ by is the rounding of both bounds.
        self.quad = float(np.vdot(B, Q))
        self.rounding = abs(own - self.quad)
        self.upper = primal + self.rounding


class MachineList(list[Machine]):
    """One machine for each task, or for each set of coupled tasks."""

    def solve(
        self, grams: Any, learner: Learner, B: np.ndarray, warm: Any, tol: float, each: Each, curved: bool
    ) -> SolvedMachines:
        """Solve every machine at B (K, J), to relative gap `tol`, from the dual variables `warm` or None.

        `curved` requests the Hessians, where each machine has one component.
        """
        Q = np.zeros((grams.n_kernels, grams.n_components))
        duals, hessians = MachineDuals(), []
        curved = curved and hasattr(grams, "images")  # where each machine has one component
        learn: Any = learner.linearise if curved else learner.solve
        pending: Callable[[], list[np.ndarray]] | None = None
        for batch in grams.batches():
            if pending is not None:
                # Now, as the next batch may write over the Grams of this one; and they are to be let go.
                hessians += pending()
            starts = [None if warm is None else warm[m] for m in batch]
            tasks = zip(grams.combine(B, batch, each), self[batch.start : batch.stop], starts, strict=True)
            solved = each(lambda given: learn(*given, tol), list(tasks))
            if curved:
                found = [dual for dual, _ in solved]
                part, images = grams.images([dual.a for dual in found], batch, each)
                functions = [function for _, function in solved]
                pending = partial(each, lambda pair: pair[0](pair[1]), list(zip(functions, images, strict=True)))
            else:
                found = solved
                part = grams.quadratic_forms([dual.a for dual in found], batch, each)
            Q += part
            duals += found
        last = pending
        return SolvedMachines(B, duals, Q, None if last is None else lambda: np.array([*hessians, *last()]))

    def offsets(self) -> tuple[np.ndarray, ...]:
        """The mean target (n_groups, outputs) of the rows of each intercept that have a cost."""
        found = []
        for machine in self:
            offsets, used = np.zeros((machine.n_groups, machine.y.shape[1])), machine.C > 0
            # Twice: the mean of numbers with a large offset is itself off by its rounding.
            for _ in range(2 if machine.n_groups else 0):
                residual = np.where(used, _centred(machine, offsets), 0.0)
                # Relative to the largest: sums of huge numbers would overflow.
                top = max(float(np.abs(residual).max(initial=0.0)), _TINY)
                sums, counts = np.zeros_like(offsets), np.zeros_like(offsets)
                np.add.at(sums, machine.groups, residual / top)
                np.add.at(counts, machine.groups, used)
                offsets += sums / np.maximum(counts, 1.0) * top
            found.append(offsets)
        return tuple(found)

    def spread(self, offsets: Sequence[np.ndarray]) -> float:
        """Root mean square of the targets with a cost, less their offsets; 1 where all of them are zero."""
        values = np.concatenate([_centred(m, o)[m.C > 0] for m, o in zip(self, offsets, strict=True)])
        top = float(np.abs(values).max(initial=0.0))
        return top * float(np.sqrt(np.mean(np.square(values / top)))) if top > 0 else 1.0

    def typical_cost(self) -> float:
        """Median of the costs that are not zero; 1 where there are none."""
        costs = np.concatenate([machine.C[machine.C > 0] for machine in self])
        return float(np.median(costs)) if len(costs) else 1.0

    def rescaled(self, target: int, cost: int, offsets: Sequence[np.ndarray]) -> MachineList:
        """Targets less their offsets, times 2^target, and costs times 2^cost."""
        return MachineList(
            replace(machine, y=np.ldexp(_centred(machine, offset), target), C=np.ldexp(machine.C, cost))
            for machine, offset in zip(self, offsets, strict=True)
        )

    def deviation(self) -> float:
        """Half the squared deviations of the targets from their means, times their costs."""
        total = 0.0
        for machine in self:
            mean = np.average(machine.y, axis=0, weights=np.maximum(machine.C, _TINY))
            total += 0.5 * float(np.sum(machine.C * np.square(machine.y - mean)))
        return total


def _centred(machine: Machine, offsets: np.ndarray) -> np.ndarray:
    return machine.y - offsets[machine.groups] if machine.n_groups else machine.y


def as_machines(machines: Iterable[Machine]) -> Any:
    """Return machines in one of the three forms; a plain sequence becomes a `MachineList`."""
    return machines if hasattr(machines, "solve") else MachineList(machines)


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
        target = round(math.log2(spread))
        shift = 0 if learner.homogeneous else target
        dual = round(math.log2(typical)) + shift if weights else target
        if max(abs(target + dual), abs(target - dual), 2 * abs(dual)) > _LARGEST_EXPONENT:
            raise ValueError(
                f"C is about {typical:.3g} and the spread of the targets about {2.0**target:.3g}: "
                "the objective of such a fit is outside the range of double precision; rescale y, C or sample_weight"
            )
        return cls(target, dual, dual - shift, offsets)

    def rescale(self, machines: Iterable[Machine], learner: Learner) -> tuple[Any, Learner]:
        """The machines and the learner in standard units: its epsilon has the units of the targets."""
        scaled, known = as_machines(machines).rescaled(-self.target, -self.cost, self.offsets), cast(Any, learner)
        if hasattr(known, "epsilon"):
            known = replace(known, epsilon=math.ldexp(float(known.epsilon), -self.target))
        return scaled, known

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
        return np.ldexp(B, self.dual - self.target)

    def restore(self, evaluation: Solved) -> Solved:
        """An evaluation or a solution in the user's units, of one in standard units."""
        value, weight = self.target + self.dual, self.target - self.dual
        curvature, further = evaluation.curvature, {}
        if hasattr(evaluation, "history"):
            columns = {name: np.ldexp(evaluation.history[name], value) for name in ("objective", "primal", "bound")}
            further["history"] = evaluation.history | columns
        return replace(
            evaluation,
            B=np.ldexp(evaluation.B, weight),
            duals=evaluation.duals.restored(self.target, self.dual, self.offsets),
            Q=np.ldexp(evaluation.Q, value - weight),
            R=float(np.ldexp(evaluation.R, 2 * weight)),
            curvature=None if curvature is None else np.ldexp(curvature, value - 2 * weight),
            **{name: math.ldexp(getattr(evaluation, name), value) for name in ("loss", "upper", "primal", "bound")},
            **further,
        )

    def restore_iterate(self, iterate: Iterate) -> Iterate:
        """Return an iterate in the user's units."""
        value: dict[str, Any] = {
            name: math.ldexp(getattr(iterate, name), self.target + self.dual)
            for name in ("objective", "primal", "bound")
        }
        return replace(iterate, B=np.ldexp(iterate.B, self.target - self.dual), **value)
