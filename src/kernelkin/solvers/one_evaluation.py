"""The solver of problems whose kernel weights are given: every machine is solved once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ..penalties import FixedWeights
from ..problems import Evaluation, Problem
from .base import Progress, Solver, State, Status


@dataclass(frozen=True)
class OneEvaluation(Solver):
    """Solve the machines at the weights of a `FixedWeights` penalty."""

    name: ClassVar[str] = "one_evaluation"
    role: ClassVar[str] = "joint"
    problems: ClassVar[tuple[type, ...]] = (Problem,)
    penalties: ClassVar[tuple[type, ...] | None] = (FixedWeights,)

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> State:
        """The given weights; there is no other start."""
        assert isinstance(problem.penalty, FixedWeights)
        return State(B=problem.penalty.B, progress=Progress(tol, accuracy=tol))

    def step(self, problem: Problem, state: State, evaluation: Evaluation) -> State:
        """Nothing is left to do."""
        return replace(state, status=Status.STALLED)
