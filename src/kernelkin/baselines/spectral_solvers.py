"""Two ways to the best D of `spectral`: as published, and until the duality gap is closed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..solvers import Run, Solution, Solver, Status
from ..solvers.base import Finished
from .spectral import SpectralPenalty, unit_root


@dataclass(frozen=True)
class SpectralAlternation:
    """Machines for fixed D, then `D = (WW')^(1/2) / tr` for fixed machines. The objective never rises.

    As published. It can stop short of the optimum: a direction of D once small is slow to come back.
    """

    name: ClassVar[str] = "alternating"

    def minimise(self, run: Run, B: np.ndarray | None = None, max_iter: int = 100) -> Solution:
        run.max_evaluations = max_iter
        try:
            alternate(run, start(run), max_iter)
            run.finish(Status.MAX_ITER)
        except Finished:
            pass
        return run.solution()


@dataclass(frozen=True)
class SpectralDescent:
    """L-BFGS on Y with `D = YY' / |Y|^2`, from where a few alternating steps have come.

    The machines' value is convex in D, and every D has such a Y, so there is no minimum but the global one.

    Parameters
    ----------
    steps : alternating steps at the start.
    memory : how many past steps L-BFGS remembers.
    """

    name: ClassVar[str] = "joint"
    steps: int = 5
    memory: int = 20

    def minimise(self, run: Run, B: np.ndarray | None = None, max_iter: int = 100) -> Solution:
        run.max_evaluations = max_iter
        try:
            D = alternate(run, start(run), self.steps)
            while True:
                D = self._descend(run, D)
                if not run.sharpen():
                    run.finish(Status.STALLED)
        except Finished:
            pass
        return run.solution()

    def _descend(self, run: Run, D: np.ndarray) -> np.ndarray:
        from scipy.optimize import minimize

        # A direction that rounding has made zero would stay zero.
        Y = _root(0.999 * D + 0.001 * np.eye(len(D)) / len(D))
        options = {"maxcor": self.memory, "ftol": 0.0, "gtol": 0.0, "maxiter": 10**6, "maxfun": 10**6}
        found = minimize(_Descent(run, len(D)), Y.ravel(), jac=True, method="L-BFGS-B", options=options)
        Y = found.x.reshape(D.shape)
        return Y @ Y.T / np.vdot(Y, Y)


class _Descent:
    """The machines' value and its gradient in Y, scaled to order one."""

    def __init__(self, run: Run, size: int) -> None:
        self.run, self.size, self.worth = run, size, 0.0

    def __call__(self, y: np.ndarray) -> tuple[float, np.ndarray]:
        penalty = _penalty(self.run)
        Y = y.reshape(self.size, self.size)
        norm = float(np.vdot(Y, Y))
        D = Y @ Y.T / norm
        evaluation = self.run.evaluate(penalty.metric(D))
        self.worth = self.worth or max(abs(evaluation.loss), np.finfo(float).tiny)
        G = penalty.metric_adjoint(D, -evaluation.Q)
        gradient = 2.0 / norm * (G @ Y - np.vdot(G, D) * Y)
        return evaluation.loss / self.worth, gradient.ravel() / self.worth


def start(run: Run) -> np.ndarray:
    """The identity, of trace one."""
    size = run.objective.grams.n_components
    return np.eye(size) / size


def alternate(run: Run, D: np.ndarray, steps: int) -> np.ndarray:
    """`steps` times machines and D in turn."""
    penalty = _penalty(run)
    for _ in range(steps):
        A = penalty.metric(D)
        D = unit_root(A @ run.evaluate(A).Q @ A)
    return D


def _root(D: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(D)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def _penalty(run: Run) -> SpectralPenalty:
    penalty = run.objective.penalty
    assert isinstance(penalty, SpectralPenalty)
    return penalty


SPECTRAL_SOLVERS: dict[str, type[Solver]] = {solver.name: solver for solver in (SpectralDescent, SpectralAlternation)}
