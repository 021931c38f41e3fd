"""What all solvers share: how far they are, the state they return to the driver, and what a run returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from ..learners import DualSolution
from ..penalties import Relation
from ..problems import AnyProblem, Evaluation, relative_gap


class Status(Enum):
    """How a run ended, with advice."""

    CONVERGED = "the relative duality gap is below tol"
    STATIONARY = "the kernel weights no longer change; solver='joint' can close the rest of the gap"
    STALLED = "no further progress within the rounding of the machines; loosen tol, or give X as float64"
    MAX_ITER = "stopped at max_iter; raise max_iter or loosen tol"
    STOPPED = "stopped by the callback"


# After these the gap may be wider than requested.
UNFINISHED = (Status.MAX_ITER, Status.STALLED, Status.STOPPED)


@dataclass(frozen=True)
class Progress:
    """The best bounds so far, and how accurately the machines are to be solved next."""

    tol: float
    accuracy: float = 1e-2
    primal: float = np.inf
    bound: float = -np.inf

    @property
    def relative_gap(self) -> float:
        return relative_gap(self.primal, self.bound)

    @property
    def is_exhausted(self) -> bool:
        """Whether the machines are as accurate as they can usefully be."""
        return self.accuracy < 1e-12

    def after(self, evaluation: Evaluation) -> Progress:
        """With one more evaluation."""
        primal, bound = min(self.primal, evaluation.primal), max(self.bound, evaluation.bound)
        # The machines' own gaps are part of the whole gap: keep them a tenth of it, and of what is requested.
        accuracy = min(self.accuracy, 0.1 * max(relative_gap(primal, bound), self.tol))
        return Progress(self.tol, accuracy, primal, bound)

    def expecting(self, gain: float) -> Progress:
        """With machines that fit a step by which the objective is to fall by this share of itself."""
        # What is left of the gap after a step is a small part of what the step gains.
        return replace(self, accuracy=min(self.accuracy, max(0.01 * gain, 0.1 * self.tol)))

    def sharpened(self) -> Progress:
        """With more accurate machines."""
        return replace(self, accuracy=0.1 * self.accuracy)


@dataclass(frozen=True, kw_only=True)
class State:
    """What a solver returns to the driver: where to evaluate next, and how.

    Attributes
    ----------
    B : the point to evaluate.
    progress : the best bounds so far; the driver updates it with every evaluation.
    arguments : what else the problem's `evaluate` needs.
    own_penalty : the penalty term as the solver uses it, where that is not the problem's; for the history.
    curved : whether the curvature of the machines is needed.
    is_due : whether to evaluate B now; otherwise the solver goes on first.
    iterations : how many iterations are complete once B is evaluated; the driver stops at max_iter.
    status : why the solver has ended, if it has.
    """

    B: np.ndarray
    progress: Progress
    arguments: Mapping[str, Any] = field(default_factory=dict)
    own_penalty: float | None = None
    curved: bool = False
    is_due: bool = True
    iterations: int = 0
    status: Status | None = None


AState = TypeVar("AState", bound=State)


class Solver(Protocol):
    """A way to minimise a problem, as a frozen dataclass of its options.

    The driver calls `init` once, then evaluates the state's point and calls `step` with the evaluation, in turn. A
    solver keeps nothing between calls but what is in its state.

    Attributes
    ----------
    name : its key in `SOLVERS`.
    role : the name under which `find_solver` finds it for the problems it solves.
    problems : the classes of problems that it solves.
    penalties : the classes of penalties that it needs; None for any.
    indicators : whether it is for penalties that are indicators; None for both kinds.
    stops_at_gap : whether the driver ends the run once the gap is closed.
    """

    name: ClassVar[str]
    role: ClassVar[str]
    problems: ClassVar[tuple[type, ...]]
    penalties: ClassVar[tuple[type, ...] | None] = None
    indicators: ClassVar[bool | None] = None
    stops_at_gap: ClassVar[bool] = True

    def init(self, problem: Any, start: np.ndarray | None, tol: float) -> Any:
        """The first state; `start` is where to begin, or None for a start of the solver's own."""
        ...

    def step(self, problem: Any, state: Any, evaluation: Any) -> Any:
        """The next state; `evaluation` is None where the state was not due."""
        ...


@dataclass(frozen=True)
class Iterate:
    """What a callback receives after each evaluation.

    Its property `kernel_weights` (J, K) is what an estimator's `init` takes to continue from here.

    Parameters
    ----------
    iteration : int
        From 1 on.
    B : array of shape (K, J)
        The kernel weights.
    objective : float
        The solver's own objective at these weights.
    primal, bound : float
        The lowest objective and the highest lower bound found so far.
    relative_gap : float
        Their distance, relative to `primal`.
    effective_rank : float
        Exponential of the entropy of the normalised singular values of B.
    seconds : float
        Since the start.

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


# The columns of a history.
COLUMNS = ("iteration", "objective", "primal", "bound", "relative_gap", "effective_rank", "seconds")


def history_of(iterates: Sequence[Iterate]) -> dict[str, np.ndarray]:
    """A column for each field of the iterates."""
    return {name: np.array([getattr(iterate, name) for iterate in iterates]) for name in COLUMNS}


@dataclass(frozen=True)
class Solution:
    """The best evaluation of a run, the best bound, and how the run went.

    Attributes
    ----------
    evaluation : the evaluation with the lowest primal value.
    bound : the highest lower bound of the run.
    status : how it ended.
    history : a column for each field of `Iterate` but the weights.
    relation_of : the problem's relationship of components at given weights.
    """

    evaluation: Evaluation
    bound: float
    status: Status
    history: dict[str, np.ndarray]
    relation_of: Callable[[np.ndarray], Relation] = field(repr=False)

    @property
    def B(self) -> np.ndarray:
        """Kernel weights (K, J)."""
        return self.evaluation.B

    @property
    def duals(self) -> Sequence[DualSolution]:
        """The machines at B."""
        return self.evaluation.duals

    @property
    def primal(self) -> float:
        """Upper bound on the optimum."""
        return self.evaluation.primal

    @property
    def gap(self) -> float:
        return max(self.primal - self.bound, 0.0)

    @property
    def relative_gap(self) -> float:
        return relative_gap(self.primal, self.bound)

    @cached_property
    def relation(self) -> Relation:
        """Relationship of the components, in factors."""
        return self.relation_of(self.B)


def describe(problem: AnyProblem) -> str:
    """A problem in the words of error messages."""
    penalty = getattr(problem, "penalty", None)
    return type(problem).__name__ + ("" if penalty is None else f" with the {penalty.name} penalty")


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
