"""The machines of a problem, how they are solved at given kernel weights, and the units in which they are solved.

There are two forms of machines, with one interface: `MachineList` has one machine for each task or set of coupled
tasks, and `MachinePanel` (panel.py) the machines of wide data as columns over shared rows. Each has `solve`,
`deviation`, `scales` and `rescaled`.

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np

from ...engines.threads import Each
from ..grams.stack import runs
from ..learners.machines import SVM, SVR, DualSolution, Learner, Machine

Known = TypeVar("Known")
# Of each machine the mean target (n_groups, outputs) of its intercepts.
Offsets = Sequence[np.ndarray]

_TINY = np.finfo(float).tiny


class MachineDuals(list[DualSolution]):
    """The solution of each machine. `PanelDuals` has the same methods."""

    def part_shares(self, grams: Any, B: np.ndarray) -> np.ndarray:
        """(T, 1 + couplings); see `CoupledGrams.part_shares`."""
        return grams.part_shares(B, [dual.a for dual in self])

    def divided(self, s: float) -> MachineDuals:
        """Return the dual variables divided by s, for a warm start; the values do not belong to them."""
        return MachineDuals(replace(dual, a=dual.a / s) for dual in self)

    def restored(self, target: int, dual: int, offsets: Offsets) -> MachineDuals:
        """Return the solutions in the user's units: targets times 2^target, duals times 2^dual, plus offsets."""
        return MachineDuals(
            DualSolution(
                np.ldexp(own.a, dual),
                np.ldexp(own.intercept, target) + offset,
                *(math.ldexp(value, target + dual) for value in (own.lin, own.quad, own.primal)),
            )
            for own, offset in zip(self, offsets, strict=True)
        )


class SolvedMachines:
    """Machines solved at B (K, J), and the sums over machines from which bounds are computed.

    Attributes
    ----------
    duals : the solutions of the machines.
    values : (3, M) lin, quad and primal of each machine.
    Q : (K, J) half the quadratic forms of the dual variables.
    curvature : computes the Hessians (J, K, K); None where they were not requested.
    lin, quad, loss : sum of the dual terms without the Gram matrices, <B, Q>, and their difference.
    upper : sum of the primal values, with a margin for rounding.
    rounding : margin for rounding in both bounds.
    """

    def __init__(
        self,
        B: np.ndarray,
        duals: Any,
        values: np.ndarray,
        Q: np.ndarray,
        curvature: Callable[[], np.ndarray] | None = None,
    ) -> None:
        self.duals, self.values, self.Q, self.curvature = duals, values, Q, curvature
        self.lin, own, primal = values.sum(axis=1).tolist()
        # <B, Q> was summed in two ways; the difference is the rounding of both bounds.
        self.quad = float(np.vdot(B, Q))
        self.rounding = abs(own - self.quad)
        self.loss, self.upper = self.lin - self.quad, primal + self.rounding


class MachineList(list[Machine]):
    """One machine for each task, or for each set of coupled tasks."""

    def solve(
        self, grams: Any, learner: Learner, B: np.ndarray, warm: Any, tol: float, each: Each, curved: bool
    ) -> SolvedMachines:
        """Solve every machine at B (K, J), to relative gap `tol`, from the solutions `warm` or None.

        `curved` requests the Hessians, where each machine has one component.
        """
        Q = np.zeros((grams.n_kernels, grams.n_components))
        duals, hessians = MachineDuals(), []
        curved = curved and hasattr(grams, "images")  # where each machine has one component
        learn: Any = learner.linearise if curved else learner.solve
        pending: Callable[[], list[np.ndarray]] | None = None
        for batch in runs(grams.gram_bytes):
            if pending is not None:
                # Compute these now: the next batch may overwrite the Gram matrices.
                hessians += pending()
            starts = [None if warm is None else warm[m].a for m in batch]
            tasks = zip(grams.combine(B, batch, each), self[batch.start : batch.stop], starts, strict=True)
            found = each(lambda given: learn(*given, tol), list(tasks))
            if curved:
                functions = [function for _, function in found]
                found = [dual for dual, _ in found]
                part, images = grams.images([dual.a for dual in found], batch, each)
                pending = partial(each, lambda pair: pair[0](pair[1]), list(zip(functions, images, strict=True)))
            else:
                part = grams.quadratic_forms([dual.a for dual in found], batch, each)
            Q += part
            duals += found
        last, values = pending, np.array([(dual.lin, dual.quad, dual.primal) for dual in duals]).T
        return SolvedMachines(B, duals, values, Q, None if last is None else lambda: np.array([*hessians, *last()]))

    def scales(self) -> tuple[Offsets, float, float]:
        """Return the offsets of targets, their spread and the median cost, of rows with positive cost.

        The spread is the root mean square of the targets minus their offsets; 1 if all are zero.
        """
        found, values = [], []
        for machine in self:
            offsets, used = np.zeros((machine.n_groups, machine.y.shape[1])), machine.C > 0
            # Twice: the mean of numbers with a large offset is itself off by its rounding.
            for _ in range(2 if machine.n_groups else 0):
                residual = np.where(used, machine.y - offsets[machine.groups], 0.0)
                # Relative to the largest: sums of huge numbers would overflow.
                top = max(float(np.abs(residual).max(initial=0.0)), _TINY)
                sums, counts = np.zeros_like(offsets), np.zeros_like(offsets)
                np.add.at(sums, machine.groups, residual / top)
                np.add.at(counts, machine.groups, used)
                offsets += sums / np.maximum(counts, 1.0) * top
            found.append(offsets)
            values.append((machine.y - offsets[machine.groups] if machine.n_groups else machine.y)[used])
        every, costs = np.concatenate(values), np.concatenate([machine.C[machine.C > 0] for machine in self])
        top = float(np.abs(every).max(initial=0.0))
        spread = top * float(np.sqrt(np.mean(np.square(every / top)))) if top > 0 else 1.0
        return found, spread, float(np.median(costs)) if len(costs) else 1.0

    def rescaled(self, target: int, cost: int, offsets: Offsets) -> MachineList:
        """Return the machines with targets minus offsets, times 2^target, and costs times 2^cost."""
        return MachineList(
            replace(
                machine,
                y=np.ldexp(machine.y - offset[machine.groups] if machine.n_groups else machine.y, target),
                C=np.ldexp(machine.C, cost),
            )
            for machine, offset in zip(self, offsets, strict=True)
        )

    def deviation(self) -> float:
        """Half the squared deviations of the targets from their means (without intercepts, zero), times their costs."""
        total = 0.0
        for machine in self:
            mean = np.average(machine.y, axis=0, weights=np.maximum(machine.C, _TINY)) if machine.n_groups else 0.0
            total += 0.5 * float(np.sum(machine.C * np.square(machine.y - mean)))
        return total


# Strengths beyond this cannot be distinguished from none or from infinite strength: weights go with their cube root.
_WEAKEST, _STRONGEST = 1e-30, 1e30
# Exponents of two within which values have all their digits.
_LARGEST_EXPONENT = 960


@dataclass(frozen=True)
class Units:
    """The factors between a problem and its rescaled form, and the offsets of the targets."""

    # target, dual: exponents of two of s and alpha.
    target: int
    dual: int
    offsets: Offsets  # (n_groups, m) for each machine: what was subtracted from the targets of each intercept

    def weights(self, B: np.ndarray) -> np.ndarray:
        """Convert kernel weights (K, J) from the user's units to standard units."""
        return np.ldexp(B, self.dual - self.target)

    def restore(self, known: Known) -> Known:
        """Convert an evaluation, a solution or an iterate from standard units to the user's."""
        value, weight, given = self.target + self.dual, self.target - self.dual, vars(known)
        powers = dict.fromkeys(("loss", "upper", "primal", "bound", "objective"), value)
        powers |= {"B": weight, "Q": value - weight, "R": 2 * weight, "curvature": value - 2 * weight}
        found: dict[str, Any] = {
            name: np.ldexp(given[name], power) for name, power in powers.items() if given.get(name) is not None
        }
        found |= {name: float(number) for name, number in found.items() if np.ndim(number) == 0}
        if "duals" in given:
            found["duals"] = given["duals"].restored(self.target, self.dual, self.offsets)
        if "history" in given:
            columns = {name: np.ldexp(given["history"][name], value) for name in ("objective", "primal", "bound")}
            found["history"] = given["history"] | columns
        return replace(cast(Any, known), **found)


def standard_units(
    machines: Any, learner: Learner, mu: float | None = None, *, weights: bool = True
) -> tuple[Any, Learner, Any, Units]:
    """Return machines, learner (its epsilon has the units of the targets) and strength in standard units, and these.

    `weights`: whether the kernel weights may be rescaled, as in problems with a strength mu. Where they may not, beta =
    1 and the costs are left as they are.

    Raises ValueError where costs and the spread of the targets are out of all proportion, or where mu is too small or
    too large to matter.
    """
    offsets, spread, typical = machines.scales()
    if isinstance(learner, SVM):
        # Its targets are -1 and +1, and not to be moved.
        offsets, spread = [np.zeros_like(each) for each in offsets], 1.0
    target = round(math.log2(spread))
    shift = 0 if learner.homogeneous else target
    dual = round(math.log2(typical)) + shift if weights else target
    if max(abs(target + dual), abs(target - dual), 2 * abs(dual)) > _LARGEST_EXPONENT:
        raise ValueError(
            f"C is about {typical:.3g} and the spread of the targets about {2.0**target:.3g}: "
            "the objective of such a fit is outside the range of double precision; rescale y, C or sample_weight"
        )
    units, scaled = Units(target, dual, offsets), machines.rescaled(-target, shift - dual, offsets)
    if isinstance(learner, SVR):
        learner = SVR(math.ldexp(float(learner.epsilon), -target))
    if mu is None:
        return scaled, learner, None, units
    mantissa, exponent = math.frexp(mu)
    exponent += target - 3 * dual
    decimal = math.log10(mantissa) + exponent * math.log10(2.0) if mantissa > 0 else -np.inf
    if not math.log10(_WEAKEST) <= decimal <= math.log10(_STRONGEST):
        strength = "infinite strength" if decimal > 0 else "none"
        raise ValueError(
            f"mu={mu!r} cannot be distinguished from {strength} for these data (C about {2.0 ** (dual - shift):.3g}, "
            f"spread of the targets about {2.0**target:.3g}): relative to them it is 1e{decimal:.0f}, and "
            f"must be between {_WEAKEST:g} and {_STRONGEST:g}"
        )
    return scaled, learner, math.ldexp(mantissa, exponent), units
