"""Stochastic approximation for MKL-SA (Bucak, Jin and Jain): one task at a time.

Each round draws a task from lambda, solves its machine alone, and moves gamma along Q_t and lambda along the task's
value; both moves estimate the gradients without bias. The answer is the average over rounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from ..problems import Evaluation, WorstTaskProblem
from .base import Progress, Solver, State
from .mirror import mirror_step, uniform


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
