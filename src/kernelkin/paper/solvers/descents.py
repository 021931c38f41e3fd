"""Solvers of problems with a norm of the functions: MK-MTFL and MKL-SA on the simplex, MTFL and MTRL on spectra."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from ...decompositions import eigh
from ..penalties.norms import unit_root
from ..problems.problem import Evaluation, MixedNormProblem, SpectralProblem, WorstTaskProblem
from .driver import Certificate, Point, Run, Solver, Status
from .joint import descend

_TINY = np.finfo(float).tiny
# The published mirror step, with which the objective cannot rise, and the longest that is tried.
_PUBLISHED, _LONGEST = 0.5, 16.0
# Lambda is accurate enough at a gamma if the distance of its bounds is below this share of the whole gap.
_SETTLED = 0.3
# Smallest weight before a mirror step, so that a dropped kernel can return.
_LEAST = 1e-12
# Maximum number of trials in a line search, which changes of lambda could prolong without end.
_TRIALS = 5
# Mirror steps before L-BFGS starts, and before it starts again.
_FIRST_MIRROR_STEPS, _MIRROR_STEPS = 3, 10
# Alternating steps before the L-BFGS steps of `SpectralDescent`.
_ALTERNATING_STEPS = 5


def mirror_step(weights: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """Take a step of entropic mirror descent: weights exp(exponents), normalised to the simplex."""
    moved = weights * np.exp(exponents - exponents.max())
    return moved / moved.sum()


def uniform(size: int) -> np.ndarray:
    """Return equal weights of sum one."""
    return np.full(size, 1.0 / size)


class SimplexPoint:
    """A gamma (K,) with its lambda (K, T), bounds on its value, and N (K,)."""

    def __init__(self, problem: MixedNormProblem, gamma: np.ndarray, evaluation: Evaluation) -> None:
        self.gamma, self.shares = gamma, problem.norm.shares(evaluation.Q)
        self.lower, self.value = problem.bounds_at(gamma, evaluation)
        self.N = problem.norm.dual_terms(evaluation.Q)

    def mirrored(self, length: float) -> np.ndarray:
        """Return gamma after a mirror step."""
        return mirror_step(np.maximum(self.gamma, _LEAST), length * np.log(np.maximum(self.N, _TINY)))


class SimplexDescent(Solver):
    """Mirror steps and L-BFGS on gamma in turn; for each gamma, lambda and machines in turn."""

    name: ClassVar[str] = "simplex_descent"
    role: ClassVar[str] = "joint"
    problems: ClassVar[tuple[type, ...]] = (MixedNormProblem,)

    def run(self, problem: MixedNormProblem, start: np.ndarray | None, certificate: Certificate) -> Run:
        """From equal weights of all kernels, or the gamma of given weights B = gamma/lambda."""
        K, T = problem.grams.n_kernels, problem.grams.n_components

        def settle(gamma: np.ndarray, shares: np.ndarray) -> Any:
            """Alternate machines and lambda at gamma until lambda is nearly optimal."""
            while True:
                place = SimplexPoint(problem, gamma, (yield Point(gamma[:, np.newaxis] / shares)))
                enough = _SETTLED * certificate.relative_gap * abs(place.value)
                if problem.norm.p == 2 or place.value - place.lower <= enough:
                    return place
                shares = place.shares

        gamma = uniform(K) if start is None else np.maximum(start.mean(axis=1), _LEAST)
        best = yield from settle(gamma / gamma.sum(), problem.norm.shares(np.ones((K, T))))
        steps, length = _FIRST_MIRROR_STEPS, _PUBLISHED
        while True:
            for _ in range(steps):
                place = yield from settle(best.mirrored(length), best.shares)
                if place.value <= best.value or length == _PUBLISHED:
                    best, length = place, min(2.0 * length, _LONGEST)
                else:
                    length = _PUBLISHED
            best = yield from self._descend(best, settle)
            # A mirror step is always taken, so that kernels dropped by the descent can return.
            best = yield from settle(best.mirrored(_PUBLISHED), best.shares)
            steps, length = _MIRROR_STEPS - 1, 2.0 * _PUBLISHED

    def _descend(self, best: SimplexPoint, settle: Any) -> Any:
        """L-BFGS on multiples of gamma, until no step helps; the best place on the way."""
        place, worth = best, max(abs(best.value), _TINY)
        descent = descend(best.gamma * len(best.gamma), bounded=True, max_trials=_TRIALS)
        trial = next(descent)
        while True:
            slope = (place.gamma @ place.N - place.N) / (float(trial.sum()) * worth)
            try:
                trial = descent.send((place.lower / worth, slope))
            except StopIteration:
                return best
            if not trial.sum() > 0:
                return best
            place = yield from settle(trial / trial.sum(), place.shares)
            best = place if place.value <= best.value else best


class MirrorAverage:
    """Mirror ascent on the simplex with a step size adapted to past gradients, and its weighted average."""

    def __init__(self, size: int) -> None:
        self.value, self.mean, self.squares, self.count = uniform(size), uniform(size), 0.0, 0

    def move(self, slope: np.ndarray) -> None:
        """Take a step along a slope."""
        slope = slope - 0.5 * (slope.max() + slope.min())
        self.squares += float(np.abs(slope).max()) ** 2
        if self.squares > 0:
            self.value = mirror_step(self.value, slope * np.sqrt(2 * np.log(len(slope)) / self.squares))
        # The i-th round has weight i.
        self.mean = self.mean + 2.0 / (self.count + 2) * (self.value - self.mean)
        self.count += 1


@dataclass(frozen=True)
class StochasticApproximation(Solver):
    """Stochastic approximation with one task per round; the gap is computed after 1, 2, 4, ... passes of T rounds.

    An iteration is a pass, which costs as much as solving all machines once. `random_state` draws the tasks.
    """

    random_state: Any = None
    name: ClassVar[str] = "stochastic_approximation"
    role: ClassVar[str] = "stochastic"
    problems: ClassVar[tuple[type, ...]] = (WorstTaskProblem,)

    def run(self, problem: WorstTaskProblem, start: np.ndarray | None, certificate: Certificate) -> Run:
        """From equal weights of all kernels and tasks."""
        K, T = problem.grams.n_kernels, problem.grams.n_components
        certificate.accuracy = 0.1 * certificate.tol
        gamma, lam, rng = MirrorAverage(K), MirrorAverage(T), check_random_state(self.random_state)
        # Q and value of each task when it was last drawn.
        Q, values = np.zeros((K, T)), np.zeros(T)
        warm: list[Any] = [None] * T
        passes = 0
        while True:
            for i in range(T):
                # The first pass takes the tasks in turn. A tenth of the draws goes evenly to all.
                chance = 0.9 * lam.value + 0.1 / T
                t = i if passes == 0 else int(rng.choice(T, p=chance / chance.sum()))
                q, dual = problem.solve_task(gamma.value, t, warm[t], certificate.accuracy)
                if passes > 0:
                    slope, climb = gradient_estimates(Q, values, lam.value, t, chance[t], q, dual.dual)
                    gamma.move(slope)
                    lam.move(climb)
                Q[:, t], values[t], warm[t] = q, dual.dual, dual.a
            passes += 1
            B, due = np.repeat(gamma.mean[:, np.newaxis], T, axis=1), passes & (passes - 1) == 0
            yield Point(B, arguments={"task_weights": lam.mean}, iterations=passes, is_due=due)


def gradient_estimates(
    Q: np.ndarray, values: np.ndarray, lam: np.ndarray, t: int, chance: float, q: np.ndarray, value: float
) -> tuple[np.ndarray, np.ndarray]:
    """Estimate the gradients in gamma (K,) and lambda (T,) from task t, which was drawn with probability `chance`.

    The last known values of other tasks are control variates: only the change of task t is divided by `chance`, so the
    estimates are unbiased.
    """
    slope, climb = Q @ lam, values.copy()
    slope += lam[t] / chance * (q - Q[:, t])
    climb[t] += (value - values[t]) / chance
    return slope, climb


def alternate(problem: SpectralProblem, start: np.ndarray | None, steps: Iterable[int]) -> Any:
    """Machines for fixed D, then the best D for their functions, (WW')^(1/2) / tr; from I/r or a given D. Returns D."""
    size = problem.grams.n_components
    D = np.eye(size) / size if start is None else start
    for _ in steps:
        evaluation = yield Point(D)
        A = problem.norm.metric(evaluation.B)
        D = unit_root(A @ evaluation.Q @ A)
    return D


class SpectralAlternation(Solver):
    """Machines for fixed D, then `D = (WW')^(1/2) / tr` for fixed machines. The objective never rises.

    This is the published algorithm. It can stop before the optimum, because small directions of D grow slowly.
    """

    name: ClassVar[str] = "spectral_alternation"
    role: ClassVar[str] = "alternating"
    problems: ClassVar[tuple[type, ...]] = (SpectralProblem,)

    def run(self, problem: SpectralProblem, start: np.ndarray | None, certificate: Certificate) -> Run:
        """From the identity, or a given D; the driver ends it."""
        yield from alternate(problem, start, count())
        return Status.STATIONARY


class SpectralDescent(Solver):
    """L-BFGS on Y with `D = YY' / |Y|^2`, after a few alternating steps.

    The value of the machines is convex in D, and every D has such a Y, so every minimum is global.
    """

    name: ClassVar[str] = "spectral_descent"
    role: ClassVar[str] = "joint"
    problems: ClassVar[tuple[type, ...]] = (SpectralProblem,)

    def run(self, problem: SpectralProblem, start: np.ndarray | None, certificate: Certificate) -> Run:
        """From the identity, or a given D."""
        D = yield from alternate(problem, start, range(_ALTERNATING_STEPS))
        while True:
            # Directions that are zero because of rounding would stay zero.
            values, vectors = eigh(0.999 * D + 0.001 * np.eye(len(D)) / len(D))
            Y, worth = vectors * np.sqrt(np.maximum(values, 0.0)), 0.0
            descent = descend(Y.ravel())
            Y = next(descent).reshape(D.shape)
            while True:
                evaluation = yield Point(Y @ Y.T / np.vdot(Y, Y))
                worth = worth or max(abs(evaluation.loss), _TINY)
                # The gradient of the machines' value in D, and in Y.
                G = problem.norm.metric_adjoint(evaluation.B, -evaluation.Q)
                slope = 2.0 / float(np.vdot(Y, Y)) * (G @ Y - np.vdot(G, evaluation.B) * Y)
                try:
                    Y = descent.send((evaluation.loss / worth, slope.ravel() / worth)).reshape(D.shape)
                except StopIteration as end:
                    Y = end.value.reshape(D.shape)
                    break
            if not certificate.sharpen():
                return Status.STALLED
            D = Y @ Y.T / np.vdot(Y, Y)
