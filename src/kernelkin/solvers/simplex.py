"""The way to the saddle point of MK-MTFL.

The value is convex in gamma with gradient -N, and gamma = v / sum v leaves v no limit but zero: L-BFGS on v, between
mirror steps. For each gamma, lambda and machines are computed in turn. L-BFGS ends where lambda is not settled well
enough for its line search; the published mirror descent, which has none, goes on from there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ..problems import Evaluation, MixedNormProblem
from .base import Progress, Solver, State
from .lbfgs import LBFGS, Descent
from .mirror import mirror_step, uniform

# The published step, with which the objective cannot rise, and the longest that is tried.
_PUBLISHED, _LONGEST = 0.5, 16.0
# What may be left between the bounds at one gamma, as a share of the whole gap.
_SETTLED = 0.3
# A kernel that was dropped can come back.
_LEAST = 1e-12
# A line search that needs more trials than this suffers from lambda, and would not end.
_TRIALS = 5


@dataclass(frozen=True)
class Settled:
    """A gamma (K,) with the lambda (K, T) that suits it: bounds on its value, and N (K,)."""

    gamma: np.ndarray
    shares: np.ndarray
    lower: float
    value: float
    N: np.ndarray


@dataclass(frozen=True, kw_only=True)
class SimplexState(State):
    """The gamma and lambda to evaluate, the place that steps start from, and the steps under way."""

    gamma: np.ndarray
    shares: np.ndarray
    place: Settled | None = None
    mirror_steps: int = 0
    length: float = _PUBLISHED
    descent: Descent | None = None
    worth: float = 1.0


@dataclass(frozen=True)
class SimplexDescent(Solver):
    """L-BFGS on gamma, between mirror steps; for each gamma, lambda and machines in turn.

    Parameters
    ----------
    memory : int
        How many past steps L-BFGS remembers.
    mirror_steps : int
        Mirror steps before it starts again.
    first_mirror_steps : int
        Mirror steps before it starts.
    """

    memory: int = 20
    mirror_steps: int = 10
    first_mirror_steps: int = 3
    name: ClassVar[str] = "simplex_descent"
    role: ClassVar[str] = "joint"
    problems: ClassVar[tuple[type, ...]] = (MixedNormProblem,)

    def init(self, problem: MixedNormProblem, start: np.ndarray | None, tol: float) -> SimplexState:
        """All kernels alike, or the gamma and lambda of given weights B = gamma/lambda."""
        K, T = problem.grams.n_kernels, problem.grams.n_components
        gamma = uniform(K) if start is None else np.maximum(start.mean(axis=1), _LEAST)
        gamma = gamma / gamma.sum()
        shares = problem.norm.shares(np.ones((K, T)))
        return SimplexState(
            B=gamma[:, np.newaxis] / shares, progress=Progress(tol), iterations=1, gamma=gamma, shares=shares
        )

    def step(self, problem: MixedNormProblem, state: SimplexState, evaluation: Evaluation) -> SimplexState:
        """Settle lambda at this gamma, then move gamma."""
        state = replace(state, iterations=state.iterations + 1)
        lower, value = problem.bounds_at(state.gamma, evaluation)
        shares = problem.norm.shares(evaluation.Q)
        if problem.norm.p != 2 and value - lower > _SETTLED * state.progress.relative_gap * abs(value):
            return _at(state, state.gamma, shares)
        settled = Settled(state.gamma, shares, lower, value, problem.norm.dual_terms(evaluation.Q))
        if state.descent is not None:
            return self._descend(state, state.descent, settled)
        return self._mirror(state, settled)

    def _mirror(self, state: SimplexState, settled: Settled) -> SimplexState:
        """Take the last mirror step if it was good, and make the next, or begin a descent."""
        if state.place is None:
            state = replace(state, place=settled, mirror_steps=self.first_mirror_steps, length=_PUBLISHED)
        elif settled.value <= state.place.value or state.length == _PUBLISHED:
            length = min(2.0 * state.length, _LONGEST)
            state = replace(state, place=settled, length=length, mirror_steps=state.mirror_steps - 1)
        else:
            state = replace(state, length=_PUBLISHED, mirror_steps=state.mirror_steps - 1)
        assert state.place is not None
        if state.mirror_steps == 0:
            return self._begin(state, state.place)
        N = np.maximum(state.place.N, np.finfo(float).tiny)
        gamma = mirror_step(np.maximum(state.place.gamma, _LEAST), state.length * np.log(N))
        return _at(state, gamma, state.place.shares)

    def _begin(self, state: SimplexState, place: Settled) -> SimplexState:
        """A descent from a place, whose value and gradient are known."""
        worth = max(abs(place.value), np.finfo(float).tiny)
        start = place.gamma * len(place.gamma)
        descent = LBFGS(self.memory, bounded=True, max_trials=_TRIALS).init(start)
        return self._advance(replace(state, worth=worth), descent, place)

    def _descend(self, state: SimplexState, descent: Descent, settled: Settled) -> SimplexState:
        """Pass the value of the trial to the descent, and keep the best point so far."""
        assert state.place is not None
        place = settled if settled.value <= state.place.value else state.place
        return self._advance(replace(state, place=place), descent, settled)

    def _advance(self, state: SimplexState, descent: Descent, settled: Settled) -> SimplexState:
        total = float(descent.trial.sum())
        slope = (settled.gamma @ settled.N - settled.N) / (total * state.worth)
        descent = descent.tell(settled.lower / state.worth, slope)
        if not descent.is_done and descent.trial.sum() > 0:
            gamma = descent.trial / descent.trial.sum()
            return _at(replace(state, descent=descent), gamma, settled.shares)
        assert state.place is not None
        N = np.maximum(state.place.N, np.finfo(float).tiny)
        gamma = mirror_step(np.maximum(state.place.gamma, _LEAST), _PUBLISHED * np.log(N))
        shares = state.place.shares
        return _at(replace(state, descent=None, mirror_steps=self.mirror_steps, length=_PUBLISHED), gamma, shares)


def _at(state: SimplexState, gamma: np.ndarray, shares: np.ndarray) -> SimplexState:
    """The state that evaluates at gamma (K,) and lambda (K, T)."""
    return replace(state, B=gamma[:, np.newaxis] / shares, gamma=gamma, shares=shares)
