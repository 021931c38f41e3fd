"""What solvers need of a problem, whichever it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol, Self

import numpy as np

from ..engines import Each, serially
from ..penalties import Relation
from .evaluation import Evaluation
from .units import Units

# Whether an evaluation settles everything, so that its curvature need not be computed.
Enough = Callable[[Evaluation], bool]


class AnyProblem(Protocol):
    """A convex problem on kernel machines, evaluated outside any solver.

    The `primal` of an evaluation is a true upper bound on the optimum (from each machine's primal value at the solution
    found, not its dual value), its `bound` a true lower bound, however roughly the machines were solved, and both leave
    margin for rounding. So the gap of the two is honest whatever a solver does.
    """

    name: ClassVar[str]

    def evaluate(
        self,
        B: np.ndarray,
        *,
        warm: Sequence[np.ndarray] | None = None,
        tol: float = 1e-3,
        each: Each = serially,
        curved: bool = False,
        enough: Enough | None = None,
    ) -> Evaluation:
        """Solve the machines at B, to relative gap `tol`, from the dual variables `warm`; bound the optimum.

        `curved` requests the curvature, where the problem has one; it is left out where all else is `enough`.
        """
        ...

    def in_standard_units(self) -> tuple[Self, Units]:
        """The problem rescaled to order one, and the units that lead back.

        Raises ValueError where strengths, costs and the spread of the targets are out of all proportion.
        """
        ...

    def relation(self, B: np.ndarray) -> Relation:
        """Relationship of the components at B."""
        ...

    def revised(self, B: np.ndarray, tol: float) -> Self:
        """The problem to solve next, at a solution B of this one; itself where its penalty is convex."""
        return self

    def kernel_relation(self) -> np.ndarray | None:
        """Relationship (K, K) of the kernels; None where it is not learned."""
        return None
