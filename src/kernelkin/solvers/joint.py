"""The joint solver: L-BFGS-B on the kernel weights, the relationship eliminated, until the duality gap is closed.

The gradient is `-Q + mu B inv(Omega)`. A penalty that is not smooth names smoother ones to walk through (its `ladder`);
where its optimum is expected to have rank one, a walk along `B = u v'` closes the gap to rounding. The gap is always
that of the true problem.
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

    Examples
    --------
    >>> from kernelkin import MKMTRLRegressor
    >>> from kernelkin.datasets import make_related_tasks
    >>> from kernelkin.solvers import Joint
    >>> data = make_related_tasks(4, 2, 2, random_state=0)
    >>> model = MKMTRLRegressor(data.kernels, solver=Joint(memory=5)).fit(data.X, data.y, tasks=data.tasks)
    >>> bool(model.duality_gap_ <= model.tol * model.objective_)
    True
    """

    name: ClassVar[str] = "joint"
    memory: int = 20

    def minimise(self, run: Run, B: np.ndarray | None = None, max_iter: int = 100) -> Solution:
        run.max_evaluations = max_iter
        penalty = run.objective.penalty
        try:
            B = uniform_start(run) if B is None else B
            first, *rest = penalty.ladder()
            B = self._descend(run, first, B)
            if penalty.collapses:
                walk = _Walk(run, _RankOne(penalty, B))
                walk.run_lbfgs(self.memory, ftol=0.01 * run.tol)
                B = walk.best
            for stage in rest:
                B = self._descend(run, stage, B)
            run.finish(Status.STALLED)
        except Finished:
            pass
        return run.solution()

    def _descend(self, run: Run, stage: Penalty, B: np.ndarray) -> np.ndarray:
        """Minimise with the penalty of this stage until its own gap is small beside the true one, or it stalls."""
        while True:
            walk = _Walk(run, _Linear(stage, B))
            walk.run_lbfgs(self.memory)
            B = walk.best
            if walk.settled or not run.sharpen():
                return B


class _Linear:
    """The free variables of a penalty."""

    def __init__(self, penalty: Penalty, B: np.ndarray) -> None:
        self.penalty = penalty
        self.start = penalty.free(B)

    def weights(self, x: np.ndarray) -> np.ndarray:
        return self.penalty.expand(x.reshape(self.start.shape))

    def pull(self, x: np.ndarray, G: np.ndarray) -> np.ndarray:
        return self.penalty.pull(G)


class _RankOne:
    """B = u v': where the optimum has rank one, the penalty is smooth along such B, and only along them."""

    def __init__(self, penalty: Penalty, B: np.ndarray) -> None:
        self.penalty = penalty
        U, s, Vt = np.linalg.svd(B)
        # Of a matrix without negative entries they have none either, but for their sign.
        self.start = np.sqrt(s[0]) * np.abs(np.concatenate([U[:, 0], Vt[0]]))
        self.n_kernels = len(B)

    def weights(self, x: np.ndarray) -> np.ndarray:
        return np.outer(x[: self.n_kernels], x[self.n_kernels :])

    def pull(self, x: np.ndarray, G: np.ndarray) -> np.ndarray:
        return np.concatenate([G @ x[self.n_kernels :], x[: self.n_kernels] @ G])


class _StageDone(Exception):
    pass


class _Walk:
    """One call of L-BFGS-B on the variables of one stage, scaled to order one."""

    def __init__(self, run: Run, path: _Linear | _RankOne) -> None:
        self.run, self.path, self.stage = run, path, path.penalty
        self.best = path.weights(path.start.ravel())
        self.unit = max(float(np.abs(path.start).mean()), np.finfo(float).tiny)
        self.worth = np.inf
        self.settled = False
        self.lowest = np.inf
        self.bound = -np.inf

    def run_lbfgs(self, memory: int, ftol: float = 0.0) -> None:
        from scipy.optimize import minimize

        try:
            minimize(
                self.value_and_gradient,
                self.path.start.ravel() / self.unit,
                jac=True,
                method="L-BFGS-B",
                bounds=[(0.0, None)] * self.path.start.size,
                options={"maxcor": memory, "ftol": ftol, "gtol": 0.0, "maxiter": 10**6, "maxfun": 10**6},
            )
        except _StageDone:
            self.settled = True

    def value_and_gradient(self, scaled: np.ndarray) -> tuple[float, np.ndarray]:
        run, mu, x = self.run, self.run.objective.mu, self.unit * scaled
        B = self.path.weights(x)
        R, slope = self.stage.value_and_gradient(B)
        evaluation = run.evaluate(B, R)
        value = evaluation.loss + 0.5 * mu * R
        if value < self.lowest:
            self.lowest, self.best = value, B
        self._check_stage(evaluation)
        gradient = self.path.pull(x, mu * slope - evaluation.Q)
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
