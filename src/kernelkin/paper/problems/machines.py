"""The machines of a problem, and how they are solved at given kernel weights.

There are three forms of machines, with one interface: `MachineList` has one machine for each task or set of coupled
tasks, `MachinePanel` (panel.py) the machines of wide data as columns over shared rows, and `MachineBlocks` (blocks.py)
those that an engine holds. Each has `solve`, `rescaled`, `offsets`, `spread`, `typical_cost` and `deviation`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from ...engines import Each, serially
from ..grams import Grams
from ..learners import DualSolution, Learner, Machine

_TINY = np.finfo(float).tiny


class Duals(Protocol):
    """The solutions of all machines at one B."""

    @property
    def values(self) -> np.ndarray:
        """(3, M) lin, quad and primal of each machine, as in `DualSolution`."""
        ...

    @property
    def variables(self) -> Any:
        """What the next evaluation starts from."""
        ...

    def restored(self, target: int, dual: int, offsets: Sequence[np.ndarray]) -> Duals:
        """The solutions in other units: targets times 2^target, dual variables times 2^dual, and offsets added.

        `offsets` (n_groups, outputs) are those of each machine.
        """
        ...


class MachineDuals(list[DualSolution]):
    """The solution of each machine."""

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
        """The solutions in other units; see `Duals`."""
        values = np.ldexp(self.values.T, target + dual).tolist()
        return MachineDuals(
            DualSolution(np.ldexp(own.a, dual), np.ldexp(own.intercept, target) + offset, *numbers)
            for own, offset, numbers in zip(self, offsets, values, strict=True)
        )


@dataclass(frozen=True)
class SolvedMachines:
    """The machines at one B, and the sums over them that bounds are made of.

    Attributes
    ----------
    duals : the solutions of the machines.
    Q : (K, J) half the quadratic forms of the dual variables.
    lin : sum of the dual terms without the Gram matrices.
    quad : <B, Q>.
    upper : sum of the primal values, with a margin for rounding.
    rounding : what both bounds have to allow for rounding.
    curvature : computes the Hessians (J, K, K); None where they were not requested.
    """

    duals: Any
    Q: np.ndarray
    lin: float
    quad: float
    upper: float
    rounding: float
    curvature: Callable[[], np.ndarray] | None = None

    @classmethod
    def of(
        cls, B: np.ndarray, duals: Duals, Q: np.ndarray, curvature: Callable[[], np.ndarray] | None = None
    ) -> SolvedMachines:
        """Sums over machines solved at B (K, J)."""
        lin, own, primal = duals.values.sum(axis=1).tolist()
        # The same number twice, added up in two ways: what they differ by is the rounding of both bounds.
        quad = float(np.vdot(B, Q))
        rounding = abs(own - quad)
        return cls(duals, Q, lin, quad, primal + rounding, rounding, curvature)


class MachineList(list[Machine]):
    """One machine for each task, or for each set of coupled tasks."""

    def solve(
        self, grams: Grams, learner: Learner, B: np.ndarray, warm: Any, tol: float, each: Each, curved: bool
    ) -> SolvedMachines:
        """Solve every machine at B (K, J); see `solve_machines`."""
        Q = np.zeros((grams.n_kernels, grams.n_components))
        duals, hessians = MachineDuals(), []
        curved = curved and hasattr(grams, "images")  # where each machine has one component
        pending: Callable[[], list[np.ndarray]] | None = None
        for batch in grams.batches():
            if pending is not None:
                # Now, as the next batch may write over the Grams of this one; and they are to be let go.
                hessians += pending()
            combined = grams.combine(B, batch, each)
            learn = learner.linearise if curved else learner.solve

            def one(i: int, combined: Any = combined, batch: range = batch, learn: Any = learn) -> Any:
                m = batch[i]
                return learn(combined[i], self[m], None if warm is None else warm[m], tol)

            solved = each(one, range(len(batch)))
            if curved:
                found = [dual for dual, _ in solved]
                part, images = grams.images([dual.a for dual in found], batch, each)
                pending = _later(solved, images, each)
            else:
                found = solved
                part = grams.quadratic_forms([dual.a for dual in found], batch, each)
            Q += part
            duals += found
        last = pending
        return SolvedMachines.of(B, duals, Q, None if last is None else lambda: np.array([*hessians, *last()]))

    def offsets(self) -> tuple[np.ndarray, ...]:
        """The mean target (n_groups, outputs) of the rows of each intercept that have a cost."""
        return tuple(_mean_targets(machine) for machine in self)

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


def _later(solved: list[Any], images: Sequence[np.ndarray], each: Each) -> Callable[[], list[np.ndarray]]:
    """What computes the Hessian (K, K) of each machine of a batch."""
    return lambda: each(lambda i: solved[i][1](images[i]), range(len(solved)))


def _mean_targets(machine: Machine) -> np.ndarray:
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
        top = max(float(np.abs(residual).max(initial=0.0)), _TINY)
        sums = np.zeros_like(offsets)
        np.add.at(sums, machine.groups, residual / top)
        offsets += sums / np.maximum(counts, 1.0) * top
    return offsets


def _centred(machine: Machine, offsets: np.ndarray) -> np.ndarray:
    return machine.y - offsets[machine.groups] if machine.n_groups else machine.y


def as_machines(machines: Iterable[Machine]) -> Any:
    """Return machines in one of the three forms; a plain sequence becomes a `MachineList`."""
    return machines if hasattr(machines, "solve") else MachineList(machines)


def solve_machines(
    grams: Any,
    machines: Iterable[Machine],
    learner: Learner,
    B: np.ndarray,
    *,
    warm: Any = None,
    tol: float = 1e-3,
    each: Each = serially,
    curved: bool = False,
) -> SolvedMachines:
    """Solve every machine at B (K, J), to relative gap `tol`, from the dual variables `warm`.

    `curved` requests the Hessians, where each machine has one component.
    """
    return as_machines(machines).solve(grams, learner, B, warm, tol, each, curved)
