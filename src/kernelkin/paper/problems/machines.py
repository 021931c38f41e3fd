"""Solving the machines of a problem at given kernel weights: what every problem's evaluation shares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...engines import Each, serially
from ..grams import Grams, SeparateGrams
from ..learners import DualSolution, Learner, Machine
from .panel import MachinePanel, PanelDuals, own_and_factors, solve_panel

_TINY = np.finfo(float).tiny


@dataclass(frozen=True, eq=False)
class BlockDuals(Sequence[DualSolution]):
    """Values of the solutions of machines that are elsewhere.

    Attributes
    ----------
    number : that of the evaluation; a block may still have its dual variables, and start from them.
    tol : the relative gap to which machines were solved.
    lin, quad, primal : (T,) as in `DualSolution`.
    """

    number: int
    tol: float
    lin: np.ndarray
    quad: np.ndarray
    primal: np.ndarray

    def __len__(self) -> int:
        return len(self.lin)

    def __getitem__(self, index: Any) -> Any:
        raise TypeError("the dual variables of machines in blocks are where the blocks are")


@dataclass(frozen=True)
class SolvedMachines:
    """The machines at one B, and the sums over them that bounds are made of.

    Attributes
    ----------
    duals : the solution of each machine.
    Q : (K, J) half the quadratic forms of the dual variables.
    lin : sum of the dual terms without the Gram matrices.
    quad : <B, Q>.
    upper : sum of the primal values, with a margin for rounding.
    rounding : what both bounds have to allow for rounding.
    curvature : computes the Hessians (J, K, K); None where they were not requested.
    """

    duals: Sequence[DualSolution]
    Q: np.ndarray
    lin: float
    quad: float
    upper: float
    rounding: float
    curvature: Callable[[], np.ndarray] | None = None

    @classmethod
    def of(
        cls,
        B: np.ndarray,
        duals: Sequence[DualSolution],
        Q: np.ndarray,
        curvature: Callable[[], np.ndarray] | None = None,
    ) -> SolvedMachines:
        """Sums over machines solved at B (K, J)."""
        if isinstance(duals, PanelDuals):
            lin, own, primal = (float(values.sum()) for values in (duals.lin, duals.quad, duals.primal))
        elif isinstance(duals, BlockDuals):
            lin, own, primal = (sum(values.tolist()) for values in (duals.lin, duals.quad, duals.primal))
        else:
            lin, own, primal = (sum(values) for values in zip(*((d.lin, d.quad, d.primal) for d in duals), strict=True))
        # The same number twice, added up in two ways: what they differ by is the rounding of both bounds.
        quad = float(np.vdot(B, Q))
        rounding = abs(own - quad)
        upper = primal + rounding
        return cls(duals, Q, lin, quad, upper, rounding, curvature)

    @property
    def loss(self) -> float:
        """Sum of the dual values."""
        return self.lin - self.quad

    @property
    def errors(self) -> float:
        """Sum of the machines' losses on their rows, without the norms of their functions."""
        return self.upper - self.quad


def solve_machines(
    grams: Grams,
    machines: Sequence[Machine],
    learner: Learner,
    B: np.ndarray,
    *,
    warm: Sequence[np.ndarray] | None = None,
    tol: float = 1e-3,
    each: Each = serially,
    curved: bool = False,
) -> SolvedMachines:
    """Solve every machine at B (K, J), to relative gap `tol`, from the dual variables `warm`.

    `curved` requests the Hessians, where each machine has one component.
    """
    if hasattr(machines, "solve"):  # in blocks that an engine holds
        return machines.solve(B, warm, tol, curved)
    if isinstance(machines, MachinePanel):
        return _solve_panel(grams, machines, B, warm, tol, each, curved)
    Q = np.zeros((grams.n_kernels, grams.n_components))
    duals: list[DualSolution] = []
    hessians: list[np.ndarray] = []
    pending: Callable[[], list[np.ndarray]] | None = None
    separate = grams if curved and isinstance(grams, SeparateGrams) else None
    for batch in grams.batches():
        if pending is not None:
            # Now, as the next batch may write over the Grams of this one; and they are to be let go.
            hessians, pending = hessians + pending(), None
        if separate is not None:
            solved, part, pending = _linearise(separate, machines, learner, B, batch, warm, tol, each)
        else:
            solved = solve_batch(grams, machines, learner.solve, B, batch, warm, tol, each)
            part = grams.quadratic_forms([dual.a for dual in solved], batch, each)
        Q += part
        duals += solved
    last = pending
    return SolvedMachines.of(B, duals, Q, None if last is None else lambda: np.array([*hessians, *last()]))


def _solve_panel(
    grams: Grams,
    machines: MachinePanel,
    B: np.ndarray,
    warm: Sequence[np.ndarray] | None,
    tol: float,
    each: Each,
    curved: bool,
) -> SolvedMachines:
    """Solve the machines of a panel, without combined Gram matrices."""
    own, factors = own_and_factors(grams)
    curved = curved and not factors
    duals, Q, curvature = solve_panel(own.operator, machines, B, warm, tol, each, curved, factors)
    return SolvedMachines.of(B, duals, Q, None if curvature is None else lambda: curvature)


def _linearise(
    grams: SeparateGrams,
    machines: Sequence[Machine],
    learner: Learner,
    B: np.ndarray,
    batch: range,
    warm: Sequence[np.ndarray] | None,
    tol: float,
    each: Each,
) -> tuple[list[DualSolution], np.ndarray, Callable[[], list[np.ndarray]]]:
    """The solutions of one batch, their Q (K, J), and what computes the Hessian (K, K) of each machine."""
    solved = solve_batch(grams, machines, learner.linearise, B, batch, warm, tol, each)
    duals = [dual for dual, _ in solved]
    Q, images = grams.images([dual.a for dual in duals], batch, each)
    return duals, Q, lambda: each(lambda i: solved[i][1](images[i]), range(len(batch)))


def solve_batch(
    grams: Grams,
    machines: Sequence[Machine],
    learn: Callable[..., Any],
    B: np.ndarray,
    batch: range,
    warm: Sequence[np.ndarray] | None,
    tol: float,
    each: Each,
) -> list[Any]:
    """What `learn`, a learner's `solve` or `linearise`, returns for each machine of a batch at B (K, J)."""
    combined = grams.combine(B, batch, each)

    def one(i: int) -> Any:
        m = batch[i]
        return learn(combined[i], machines[m], None if warm is None else warm[m], tol)

    return each(one, range(len(batch)))


def deviation(machine: Machine) -> float:
    """Half the squared deviations of a machine's targets from their means, times their costs."""
    mean = np.average(machine.y, axis=0, weights=np.maximum(machine.C, _TINY))
    return 0.5 * float(np.sum(machine.C * np.square(machine.y - mean)))
