"""Solvers of problems whose kernel weights are on the simplex: the saddle point of MK-MTFL, and MKL-SA."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from ..problems import Evaluation, MixedNormProblem, WorstTaskProblem
from .base import Progress, Solver, State
from .lbfgs import LBFGS, Descent


def mirror_step(weights: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """weights (K,) on the simplex -> weights exp(exponents), back on the simplex: a step of entropic mirror descent."""
    moved = weights * np.exp(exponents - exponents.max())
    return moved / moved.sum()


def uniform(size: int) -> np.ndarray:
    """The middle of the simplex."""
    return np.full(size, 1.0 / size)


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


@dataclass(frozen=True)
class MirrorAverage:
    """A point of the simplex that climbs along slopes, its step set by those seen so far, and its weighted average."""

    value: np.ndarray
    mean: np.ndarray
    squares: float = 0.0
    count: int = 0

    @classmethod
    def of_size(cls, size: int) -> MirrorAverage:
        return cls(uniform(size), uniform(size))

    def moved(self, slope: np.ndarray) -> MirrorAverage:
        """After a step along a slope."""
        slope = slope - 0.5 * (slope.max() + slope.min())
        squares, value = self.squares + float(np.abs(slope).max()) ** 2, self.value
        if squares > 0:
            value = mirror_step(value, slope * np.sqrt(2 * np.log(len(slope)) / squares))
        # Later rounds count more: the i-th by i.
        mean = self.mean + 2.0 / (self.count + 2) * (value - self.mean)
        return MirrorAverage(value, mean, squares, self.count + 1)


@dataclass(frozen=True, kw_only=True)
class RoundsState(State):
    """The rounds so far: weights of kernels and tasks, and what is known of each task from when it was last drawn."""

    gamma: MirrorAverage
    lam: MirrorAverage
    Q: np.ndarray
    values: np.ndarray
    warm: tuple[np.ndarray | None, ...]
    rng: np.random.RandomState = field(repr=False)


@dataclass(frozen=True)
class StochasticApproximation(Solver):
    """Rounds of one task each. After 1, 2, 4, ... passes of T rounds all machines are solved and the gap is measured.

    An iteration is a pass, which costs what solving all machines once does.

    Parameters
    ----------
    random_state : int, RandomState or None
        Draws the tasks.
    """

    random_state: Any = None
    name: ClassVar[str] = "stochastic_approximation"
    role: ClassVar[str] = "stochastic"
    problems: ClassVar[tuple[type, ...]] = (WorstTaskProblem,)

    def init(self, problem: WorstTaskProblem, start: np.ndarray | None, tol: float) -> RoundsState:
        """All kernels and tasks alike, and the first pass."""
        K, T = problem.grams.n_kernels, problem.grams.n_components
        gamma = MirrorAverage.of_size(K)
        state = RoundsState(
            B=problem.penalty.expand(gamma.mean[:, np.newaxis]),
            progress=Progress(tol, accuracy=0.1 * tol),
            gamma=gamma,
            lam=MirrorAverage.of_size(T),
            Q=np.zeros((K, T)),
            values=np.zeros(T),
            warm=(None,) * T,
            rng=check_random_state(self.random_state),
        )
        return self.step(problem, state, None)

    def step(self, problem: WorstTaskProblem, state: RoundsState, evaluation: Evaluation | None) -> RoundsState:
        """One pass: what is known of the tasks is copied once, and updated in place."""
        T, first = len(state.values), state.iterations == 0
        gamma, lam, warm = state.gamma, state.lam, list(state.warm)
        Q, values = state.Q.copy(), state.values.copy()
        for i in range(T):
            # The first pass takes the tasks in turn. A tenth of the draws goes evenly to all.
            chance = 0.9 * lam.value + 0.1 / T
            t = i if first else int(state.rng.choice(T, p=chance / chance.sum()))
            q, dual = problem.solve_task(gamma.value, t, warm[t], state.progress.accuracy)
            if not first:
                slope, climb = _estimates(Q, values, lam.value, t, chance[t], q, dual.dual)
                gamma, lam = gamma.moved(slope), lam.moved(climb)
            Q[:, t], values[t], warm[t] = q, dual.dual, dual.a
        passes = state.iterations + 1
        return replace(
            state,
            B=problem.penalty.expand(gamma.mean[:, np.newaxis]),
            arguments={"task_weights": lam.mean},
            iterations=passes,
            is_due=passes & (passes - 1) == 0,
            gamma=gamma,
            lam=lam,
            Q=Q,
            values=values,
            warm=tuple(warm),
        )


def _estimates(
    Q: np.ndarray, values: np.ndarray, lam: np.ndarray, t: int, chance: float, q: np.ndarray, value: float
) -> tuple[np.ndarray, np.ndarray]:
    """Gradients in gamma (K,) and in lambda (T,), estimated from task t, which was drawn with this chance.

    What is known of the tasks that are not drawn is part of the estimates, which stay without bias: only what has
    changed since is weighed by the chance of the draw.
    """
    slope, climb = Q @ lam, values.copy()
    slope += lam[t] / chance * (q - Q[:, t])
    climb[t] += (value - values[t]) / chance
    return slope, climb
