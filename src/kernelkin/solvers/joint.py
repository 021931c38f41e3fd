"""The joint solver: L-BFGS-B on the kernel weights, the relationship eliminated, until the duality gap is closed.

The gradient is `-Q + mu B inv(Omega)`. A penalty that is not smooth names smoother ones to walk through (its `ladder`);
the gap is always that of the true problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..objective import Evaluation
from ..penalties import Penalty
from .base import Finished, Run, Solution, Status, uniform_start


@dataclass(frozen=True)
class Joint:
    """Minimise over all kernel weights at once.

    Parameters
    ----------
    memory : how many past steps L-BFGS-B remembers.
    """

    name: ClassVar[str] = "joint"
    memory: int = 20

    def minimise(self, run: Run, B: np.ndarray | None = None, max_iter: int = 100) -> Solution:
        run.max_evaluations = max_iter
        try:
            B = uniform_start(run) if B is None else B
            for stage in run.objective.penalty.ladder():
                B = self._descend(run, stage, B)
            run.finish(Status.STALLED)
        except Finished:
            pass
        return run.solution()

    def _descend(self, run: Run, stage: Penalty, B: np.ndarray) -> np.ndarray:
        """Minimise with the penalty of this stage until its own gap is small beside the true one, or it stalls."""
        while True:
            walk = _Walk(run, stage, B)
            walk.run_lbfgs(self.memory)
            B = walk.best
            if walk.settled or not run.sharpen():
                return B


class _StageDone(Exception):
    pass


class _Walk:
    """One call of L-BFGS-B on the free variables of one stage, scaled to order one."""

    def __init__(self, run: Run, stage: Penalty, B: np.ndarray) -> None:
        self.run, self.stage, self.best = run, stage, B
        self.start = stage.free(B)
        self.unit = max(float(np.abs(self.start).mean()), np.finfo(float).tiny)
        self.worth = np.inf
        self.settled = False
        self.lowest = np.inf
        self.bound = -np.inf

    def run_lbfgs(self, memory: int) -> None:
        from scipy.optimize import minimize

        try:
            minimize(
                self.value_and_gradient,
                self.start.ravel() / self.unit,
                jac=True,
                method="L-BFGS-B",
                bounds=[(0.0, None)] * self.start.size,
                options={"maxcor": memory, "ftol": 0.0, "gtol": 0.0, "maxiter": 10**6, "maxfun": 10**6},
            )
        except _StageDone:
            self.settled = True

    def value_and_gradient(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        run, stage, mu = self.run, self.stage, self.run.objective.mu
        V = self.unit * x.reshape(self.start.shape)
        B = stage.expand(V)
        R, slope = stage.value_and_gradient(B)
        evaluation = run.evaluate(B, R)
        value = evaluation.loss + 0.5 * mu * R
        if value < self.lowest:
            self.lowest, self.best = value, B
        self._check_stage(evaluation)
        gradient = stage.pull(mu * slope - evaluation.Q)
        if np.isinf(self.worth):
            self.worth = max(abs(value), np.finfo(float).tiny)
        return value / self.worth, self.unit * gradient.ravel() / self.worth

    def _check_stage(self, evaluation: Evaluation) -> None:
        """Leave a smoothed stage once what is left of the gap is mostly the smoothing itself."""
        if self.stage is self.run.objective.penalty:
            return
        lin = evaluation.loss + float(np.vdot(evaluation.B, evaluation.Q))
        self.bound = max(self.bound, lin + self.stage.bound(evaluation.Q, evaluation.B, self.run.objective.mu))
        if self.lowest - self.bound <= 0.3 * self.run.relative_gap * abs(evaluation.primal):
            raise _StageDone
