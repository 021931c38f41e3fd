"""What every solver shares: how a run is watched and stopped, and the one thing it returns."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Protocol

import numpy as np

from ..learners import DualSolution
from ..objective import Evaluation, Objective
from ..parallel import Each, serially
from ..penalties import effective_rank


class Status(Enum):
    """How a solver ended, with advice."""

    CONVERGED = "the relative duality gap is below tol"
    STATIONARY = "the kernel weights no longer change; solver='joint' can close the rest of the gap"
    STALLED = "no further progress within the rounding of the machines; loosen tol, or give X as float64"
    MAX_ITER = "stopped at max_iter; raise max_iter or loosen tol"


@dataclass(frozen=True)
class Iterate:
    """What a callback sees after each solve of all machines.

    `objective` is the solver's own at these weights; `primal` is the lowest and `bound` the highest found so far.
    `kernel_weights` (J, K) is what an estimator's `init` takes to go on from here.

    Examples
    --------
    >>> from kernelkin import MKMTRLRegressor
    >>> from kernelkin.datasets import make_related_tasks
    >>> data, seen = make_related_tasks(4, 2, 2, random_state=0), []
    >>> model = MKMTRLRegressor(data.kernels, callback=seen.append).fit(data.data, data.target, tasks=data.tasks)
    >>> type(seen[0]).__name__, seen[-1].kernel_weights.shape, len(seen) == model.n_iter_
    ('Iterate', (4, 2), True)
    """

    iteration: int
    B: np.ndarray
    objective: float
    primal: float
    bound: float
    relative_gap: float
    effective_rank: float
    seconds: float

    @property
    def kernel_weights(self) -> np.ndarray:
        return self.B.T


@dataclass(frozen=True)
class Solution:
    """Kernel weights B (K, J), relation Omega (J, J), the machines at B, and how good they are."""

    B: np.ndarray
    Omega: np.ndarray
    duals: Sequence[DualSolution]
    primal: float
    bound: float
    status: Status
    history: dict[str, np.ndarray]

    @property
    def gap(self) -> float:
        return max(self.primal - self.bound, 0.0)

    @property
    def relative_gap(self) -> float:
        return _relative_gap(self.primal, self.bound)


def _relative_gap(primal: float, bound: float) -> float:
    return max(primal - bound, 0.0) / max(abs(primal), np.finfo(float).tiny)


class Finished(Exception):
    """Raised by a run to end its solver from inside, wherever it is."""


@dataclass
class Run:
    """One run of a solver: it evaluates, records, shows progress, and ends the solver when there is nothing left to do.

    A solver moves through `evaluate` alone, so history, warm starts, inner accuracy and stopping are the same for all.
    """

    objective: Objective
    tol: float = 1e-3
    max_evaluations: float = np.inf
    stop_at_gap: bool = True
    verbose: int = 0
    callback: Callable[[Iterate], object] | None = None
    each: Each = serially
    status: Status | None = field(default=None, init=False)
    best: Evaluation | None = field(default=None, init=False)
    bound: float = field(default=-np.inf, init=False)
    iterates: list[Iterate] = field(default_factory=list, init=False)
    accuracy: float = field(default=1e-2, init=False)
    _last: Evaluation | None = field(default=None, init=False)
    _began: float = field(default_factory=time.perf_counter, init=False)

    @property
    def relative_gap(self) -> float:
        return np.inf if self.best is None else _relative_gap(self.best.primal, self.bound)

    def evaluate(self, B: np.ndarray, R: float | None = None, curved: bool = False) -> Evaluation:
        """Solve the machines at B from where they were last, record, and raise `Finished` when the run is over.

        `R` is the penalty as the solver sees it, where that is not the penalty's value at B. `curved` asks for the
        curvature of the machines, for steps from here.
        """
        if len(self.iterates) >= self.max_evaluations:
            self.finish(Status.MAX_ITER)
        warm = None if self._last is None else [dual.a for dual in self._last.duals]
        evaluation = self.objective.evaluate(
            B, warm=warm, tol=self.accuracy, each=self.each, curved=curved, enough=self._closes_gap
        )
        self._last = evaluation
        if self.best is None or evaluation.primal < self.best.primal:
            self.best = evaluation
        self.bound = max(self.bound, evaluation.bound)
        # The machines' own gaps are part of the whole gap: keep them a tenth of it, and of what is asked for.
        self.accuracy = min(self.accuracy, max(0.1 * self.relative_gap, 0.1 * self.tol))
        own = evaluation.primal if R is None else evaluation.upper + 0.5 * self.objective.mu * R
        self._record(B, own)
        if self._closes_gap(evaluation):
            self.finish(Status.CONVERGED)
        return evaluation

    def _closes_gap(self, evaluation: Evaluation) -> bool:
        """Whether the run is over with this evaluation."""
        primal = evaluation.primal if self.best is None else min(self.best.primal, evaluation.primal)
        return self.stop_at_gap and _relative_gap(primal, max(self.bound, evaluation.bound)) <= self.tol

    def expect(self, gain: float) -> None:
        """Ask for machines that fit a step by which the objective is to fall by this share of itself."""
        # What is left of the gap after a step is a small part of what the step gains.
        self.accuracy = min(self.accuracy, max(0.01 * gain, 0.1 * self.tol))

    def sharpen(self) -> bool:
        """Ask for more accurate machines; False when they are as accurate as they can usefully be."""
        self.accuracy *= 0.1
        return self.accuracy >= 1e-12

    def finish(self, status: Status) -> None:
        self.status = status
        raise Finished

    def solution(self) -> Solution:
        assert self.best is not None and self.status is not None, "a run ends after it has evaluated something"
        best = self.best
        columns = ("iteration", "objective", "primal", "bound", "relative_gap", "effective_rank", "seconds")
        return Solution(
            B=best.B,
            Omega=self.objective.penalty.relation(best.B),
            duals=best.duals,
            primal=best.primal,
            bound=self.bound,
            status=Status.CONVERGED if self.relative_gap <= self.tol else self.status,
            history={name: np.array([getattr(iterate, name) for iterate in self.iterates]) for name in columns},
        )

    def _record(self, B: np.ndarray, objective: float) -> None:
        assert self.best is not None
        iterate = Iterate(
            iteration=len(self.iterates) + 1,
            B=B.copy(),
            objective=objective,
            primal=self.best.primal,
            bound=self.bound,
            relative_gap=self.relative_gap,
            effective_rank=effective_rank(B),
            seconds=time.perf_counter() - self._began,
        )
        self.iterates.append(iterate)
        if self.verbose:
            print(
                f"[kernelkin] {iterate.iteration:4d}  objective {iterate.primal:<12.6g} bound {iterate.bound:<12.6g} "
                f"gap {iterate.relative_gap:8.1e}  rank {iterate.effective_rank:5.2f}  {iterate.seconds:6.1f} s",
                flush=True,
            )
        if self.callback is not None:
            self.callback(iterate)


class Solver(Protocol):
    """A way to minimise an objective. `B` is where to start, or None for a start of the solver's own."""

    name: ClassVar[str]

    def minimise(self, run: Run, B: np.ndarray | None = None, max_iter: int = 100) -> Solution: ...


def uniform_start(run: Run, penalty: Callable[[np.ndarray], float] | None = None, rounds: int = 3) -> np.ndarray:
    """All weights equal, at a scale that suits mu.

    `penalty` is R as the solver sees it, where that is not the objective's.
    """
    objective = run.objective
    penalty = objective.penalty.value if penalty is None else penalty
    B = np.ones((objective.grams.n_kernels, objective.grams.n_components)) / objective.grams.n_kernels
    for _ in range(rounds):
        R = penalty(B)
        scale = suitable_scale(objective.mu, run.evaluate(B, R), R)
        if scale > 0:
            B = scale * B
        if 0.5 < scale < 2:
            break
    return B


def suitable_scale(mu: float, evaluation: Evaluation, R: float | None = None, decay: float = 1.0) -> float:
    """By what to multiply weights of penalty R, by default the evaluation's own, to suit mu.

    As weights grow by s, what the machines would gain by more, `q = <B, Q>`, falls to `q / (1 + decay (s - 1))^2`: with
    decay 0 where all dual variables are at their bounds, and 1 where the functions no longer change. The best s has
    `s (1 + decay (s - 1))^2 = q / (mu R)`.
    """
    goal = float(np.vdot(evaluation.B, evaluation.Q)) / (mu * (evaluation.R if R is None else R))
    if goal == 0 or decay == 1:
        return float(np.cbrt(goal))
    s = goal
    for _ in range(100):
        factor = 1.0 + decay * (s - 1.0)
        # Newton's method for the logarithms of both sides.
        step = float(np.log(goal / s) - 2.0 * np.log(factor)) / (1.0 + 2.0 * decay * s / factor)
        s *= float(np.exp(step))
        if abs(step) <= 1e-9:
            break
    return s
