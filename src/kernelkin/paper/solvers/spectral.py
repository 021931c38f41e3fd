"""Two ways to the best D of a `SpectralProblem`: as published, and until the duality gap is closed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ...decompositions import eigh
from ..penalties.norms import unit_root
from ..problems import Evaluation, SpectralProblem
from .base import Progress, Solver, State, Status
from .lbfgs import LBFGS, Descent


def even_covariance(problem: SpectralProblem) -> np.ndarray:
    """The identity, of trace one."""
    size = problem.form.n_components
    return np.eye(size) / size


def alternate(problem: SpectralProblem, evaluation: Evaluation) -> np.ndarray:
    """The best D for the functions of an evaluation: (WW')^(1/2) / tr."""
    A = problem.machine_weights(evaluation.B)
    return unit_root(A @ evaluation.Q @ A)


@dataclass(frozen=True)
class SpectralAlternation(Solver):
    """Machines for fixed D, then `D = (WW')^(1/2) / tr` for fixed machines. The objective never rises.

    As published. It can stop short of the optimum: a direction of D once small is slow to come back.
    """

    name: ClassVar[str] = "spectral_alternation"
    role: ClassVar[str] = "alternating"
    problems: ClassVar[tuple[type, ...]] = (SpectralProblem,)

    def init(self, problem: SpectralProblem, start: np.ndarray | None, tol: float) -> State:
        """The identity, or a given D."""
        return State(B=even_covariance(problem) if start is None else start, progress=Progress(tol), iterations=1)

    def step(self, problem: SpectralProblem, state: State, evaluation: Evaluation) -> State:
        """The next D."""
        return replace(state, B=alternate(problem, evaluation), iterations=state.iterations + 1)


@dataclass(frozen=True, kw_only=True)
class SpectralState(State):
    """Alternating steps that are left, then a descent on Y, its function divided by `worth`."""

    alternations: int
    descent: Descent | None = None
    worth: float = 0.0


@dataclass(frozen=True)
class SpectralDescent(Solver):
    """L-BFGS on Y with `D = YY' / |Y|^2`, from where a few alternating steps have come.

    The machines' value is convex in D, and every D has such a Y, so there is no minimum but the global one.

    Parameters
    ----------
    steps : int
        Alternating steps at the start.
    memory : int
        How many past steps L-BFGS remembers.
    """

    steps: int = 5
    memory: int = 20
    name: ClassVar[str] = "spectral_descent"
    role: ClassVar[str] = "joint"
    problems: ClassVar[tuple[type, ...]] = (SpectralProblem,)

    def init(self, problem: SpectralProblem, start: np.ndarray | None, tol: float) -> SpectralState:
        """The identity, or a given D."""
        B = even_covariance(problem) if start is None else start
        return SpectralState(B=B, progress=Progress(tol), iterations=1, alternations=self.steps)

    def step(self, problem: SpectralProblem, state: SpectralState, evaluation: Evaluation) -> SpectralState:
        """An alternating step, or one of the descent."""
        state = replace(state, iterations=state.iterations + 1)
        if state.alternations > 0:
            D = alternate(problem, evaluation)
            if state.alternations > 1:
                return replace(state, B=D, alternations=state.alternations - 1)
            return self._begin(replace(state, alternations=0), D)
        assert state.descent is not None
        worth = state.worth or max(abs(evaluation.loss), np.finfo(float).tiny)
        Y = state.descent.trial.reshape(evaluation.B.shape)
        slope = _gradient(problem, evaluation, Y)
        descent = state.descent.tell(evaluation.loss / worth, slope.ravel() / worth)
        if not descent.is_done:
            return replace(state, B=_covariance(descent.trial), descent=descent, worth=worth)
        state = replace(state, progress=state.progress.sharpened())
        if state.progress.is_exhausted:
            return replace(state, status=Status.STALLED)
        assert descent.x is not None
        return self._begin(state, _covariance(descent.x))

    def _begin(self, state: SpectralState, D: np.ndarray) -> SpectralState:
        """A descent from D."""
        # A direction that rounding has made zero would stay zero.
        Y = _root(0.999 * D + 0.001 * np.eye(len(D)) / len(D))
        descent = LBFGS(self.memory).init(Y.ravel())
        return replace(state, B=_covariance(descent.trial), descent=descent, worth=0.0)


def _covariance(y: np.ndarray) -> np.ndarray:
    """D (r, r) of the variables (r^2,)."""
    Y = y.reshape(2 * (round(len(y) ** 0.5),))
    return Y @ Y.T / np.vdot(Y, Y)


def _gradient(problem: SpectralProblem, evaluation: Evaluation, Y: np.ndarray) -> np.ndarray:
    """Gradient (r, r) of the machines' value in Y."""
    D = evaluation.B
    G = problem.norm.metric_adjoint(D, -evaluation.Q)
    return 2.0 / float(np.vdot(Y, Y)) * (G @ Y - np.vdot(G, D) * Y)


def _root(D: np.ndarray) -> np.ndarray:
    values, vectors = eigh(D)
    return vectors * np.sqrt(np.maximum(values, 0.0))
