"""What solvers need of a problem, whichever it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import numpy as np

from ..penalties import Relation
from .evaluation import Evaluation

# Whether an evaluation settles everything, so that its curvature need not be computed.
Enough = Callable[[Evaluation], bool]


class AnyProblem(Protocol):
    """A convex problem on kernel machines, evaluated outside any solver.

    The `primal` of an evaluation is a true upper bound on the optimum (from each machine's primal value at the solution
    found, not its dual value), its `bound` a true lower bound, however roughly the machines were solved, and both leave
    room for rounding. So the gap of the two is honest whatever a solver does.
    """

    name: ClassVar[str]

    def evaluate(self, B: np.ndarray, **options: Any) -> Evaluation:
        """Solve the machines at B, and bound the optimum from both sides."""
        ...

    def relation(self, B: np.ndarray) -> Relation:
        """Relationship of the components at B."""
        ...
