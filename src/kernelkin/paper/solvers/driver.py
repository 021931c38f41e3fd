"""The loop that runs solvers, the solution it returns, and paths of problems that differ in mu."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...engines.threads import Each, serially
from ..penalties.norms import FixedWeights
from ..penalties.relation import effective_rank
from ..problems.machines import Units
from ..problems.problem import AnyProblem, Evaluation, Problem, relative_gap


class Status(Enum):
    """Reason why a run ended, with advice."""

    CONVERGED = "the relative duality gap is below tol"
    STATIONARY = "the kernel weights no longer change; use solver='joint' to reduce the gap further"
    STALLED = "no further progress because of rounding errors; loosen tol, or pass X as float64"
    MAX_ITER = "stopped at max_iter; raise max_iter or loosen tol"
    STOPPED = "stopped by the callback"


# After these the gap may be wider than requested.
UNFINISHED = (Status.MAX_ITER, Status.STALLED, Status.STOPPED)


@dataclass
class Certificate:
    """The best bounds of a run so far, and the accuracy of the machines in the next evaluation."""

    tol: float  # the relative gap at which the run ends
    accuracy: float = 1e-2  # the relative gap to which machines are solved; solvers may lower it
    # primal, bound, relative_gap: the lowest objective and the highest lower bound so far, and their distance.
    primal: float = np.inf
    bound: float = -np.inf
    relative_gap: float = np.inf

    def add(self, evaluation: Evaluation) -> None:
        """Count an evaluation."""
        self.primal, self.bound = min(self.primal, evaluation.primal), max(self.bound, evaluation.bound)
        self.relative_gap = relative_gap(self.primal, self.bound)
        # The machines' own gaps are part of the whole gap: keep them a tenth of it, and of what is requested.
        self.accuracy = min(self.accuracy, 0.1 * max(self.relative_gap, self.tol))

    def sharpen(self) -> bool:
        """Request more accurate machines; return False if they cannot be more accurate."""
        self.accuracy *= 0.1
        return self.accuracy >= 1e-12


class Point(NamedTuple):
    """A point at which a solver requests an evaluation, with options."""

    B: np.ndarray  # the point to evaluate
    curved: bool = False  # whether the curvature of the machines is needed
    # The penalty term as the solver uses it, where that is not the problem's; for the history.
    own_penalty: float | None = None
    arguments: Mapping[str, Any] = MappingProxyType({})  # what else the problem's `evaluate` needs
    # How many iterations are complete once B is evaluated; None where every evaluation is one.
    iterations: int | None = None
    is_due: bool = True  # whether to evaluate B now; otherwise it is evaluated only if the run ends here


Run = Generator[Point, Any, Status]


@dataclass(frozen=True)
class Solver:
    """A way to minimise a problem: its options, and a generator that asks for evaluations."""

    name: ClassVar[str]  # its key in `SOLVERS`
    role: ClassVar[str]  # the name under which `find_solver` finds it for the problems it solves
    # problems, penalties: the classes of problems that it solves, and those of penalties that it needs.
    problems: ClassVar[tuple[type, ...]]
    penalties: ClassVar[tuple[type, ...]] = (object,)
    indicators: ClassVar[bool | None] = None  # whether it is for penalties that are indicators; None for both kinds
    stops_at_gap: ClassVar[bool] = True  # whether the driver ends the run once the gap is closed

    def run(self, problem: Any, start: np.ndarray | None, certificate: Certificate) -> Run:
        """Yield each `Point` to evaluate, receive its `Evaluation`, and return a `Status` where nothing is left to do.

        `start` is where to begin, or None for a start of the solver's own. The driver keeps the certificate up to date,
        the history and the best evaluation, and it ends the run at `tol` and `max_iter`.
        """
        raise NotImplementedError


class OneEvaluation(Solver):
    """Solve the machines at the weights of a `FixedWeights` penalty."""

    name: ClassVar[str] = "one_evaluation"
    role: ClassVar[str] = "joint"
    problems: ClassVar[tuple[type, ...]] = (Problem,)
    penalties: ClassVar[tuple[type, ...]] = (FixedWeights,)

    def run(self, problem: Any, start: np.ndarray | None, certificate: Certificate) -> Run:
        """The given weights; there is no other start."""
        certificate.accuracy, B = certificate.tol, problem.penalty.B
        if B.shape != (expected := (problem.grams.n_kernels, problem.grams.n_components)):
            raise ValueError(f"the fixed kernel weights have shape {B.shape}; this problem needs {expected}")
        yield Point(B)
        return Status.STALLED


# By name; the first that can solve a problem is its default. The package registers them, as their modules import this.
SOLVERS: dict[str, type[Solver]] = {}


def find_solver(solver: Solver | str | None, problem: AnyProblem) -> Solver:
    """A given solver, that of a name or role, or the default of a problem; ValueError where it cannot solve it.

    The role "joint", for instance, is that of `SpectralDescent` for a `SpectralProblem`.
    """
    penalty, known = getattr(problem, "penalty", None), list(SOLVERS.values())
    fitting = [
        one
        for one in (known if solver is None or isinstance(solver, str) else [type(solver), *known])
        if isinstance(problem, one.problems)
        and isinstance(penalty, one.penalties)
        and one.indicators in (None, getattr(penalty, "is_indicator", None))
    ]
    if isinstance(solver, Solver):
        if type(solver) in fitting:
            return solver
        solver = solver.name
    else:
        for candidate in fitting:
            if solver is None or solver in (candidate.role, candidate.name):
                return candidate()
    described = type(problem).__name__ + ("" if penalty is None else f" with the {penalty.name} penalty")
    advice = " or ".join(f"solver={candidate.role!r}" for candidate in fitting)
    raise ValueError(f"solver {solver!r} cannot solve a {described}; use {advice or 'another problem'}")


@dataclass(frozen=True)
class Iterate:
    """What a callback receives after each evaluation.

    Parameters
    ----------
    iteration : int
        From 1 on.
    B : array of shape (K, J)
        The kernel weights; `kernel_weights` (J, K) is what an estimator's `init` takes to continue from here.
    objective : float
        The solver's own objective at these weights.
    primal, bound, relative_gap : float
        The lowest objective and the highest lower bound found so far, and their distance relative to `primal`.
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


Callback = Callable[[Iterate], object]
# The columns of a history.
COLUMNS = ("iteration", "objective", "primal", "bound", "relative_gap", "effective_rank", "seconds")


@dataclass(frozen=True, kw_only=True)
class Solution(Evaluation):
    """The evaluation with the lowest primal value, the highest lower bound of the run, and how the run went."""

    status: Status  # how it ended
    history: dict[str, np.ndarray]  # a column for each field of `Iterate` but the weights


# Squares of tiny numbers may underflow, whatever the user's `np.seterr` says.
@np.errstate(under="ignore")
def solve(
    problem: AnyProblem,
    solver: Solver | str | None = None,
    *,
    start: np.ndarray | None = None,
    warm: Any = None,
    tol: float = 1e-3,
    max_iter: int = 100,
    each: Each = serially,
    verbose: int = 0,
    callback: Callback | None = None,
    units: Units | None = None,
) -> Solution:
    """Minimise a problem until its relative duality gap is `tol`, and return the best evaluation with the bounds.

    Parameters
    ----------
    problem : a problem of `kernelkin.paper.problems`
    solver : Solver or str, optional
        By default the first of `SOLVERS` that can solve the problem.
    start : array (K, J), optional
        Where to begin, in the units of the problem.
    warm : solutions of machines, optional
        Where the machines begin: the `duals` of an evaluation.
    max_iter : int
        Iterations of the solver; for most, one is an evaluation of all machines.
    each : how to run the loop over machines
    verbose : int
        Whether to print a line for each evaluation.
    callback : callable, optional
        Called with an `Iterate` after each evaluation; where it returns True, the solver stops.
    units : Units, optional
        Of a problem in standard units: the solution, the history and what is shown are in the user's units.
    """
    solver, began = find_solver(solver, problem), time.perf_counter()
    certificate, iterates = Certificate(tol), list[Iterate]()
    points = solver.run(problem, start, certificate)
    point, best, count = next(points), None, 0
    while True:
        count = count + 1 if point.iterations is None else point.iterations
        evaluation, status = None, Status.MAX_ITER if count >= max_iter else None
        if point.is_due or status is not None:
            evaluation = problem.evaluate(
                point.B,
                warm=warm,
                tol=certificate.accuracy,
                each=each,
                curved=point.curved,
                # The curvature is not needed if the gap is closed.
                enough=lambda e: (
                    solver.stops_at_gap
                    and relative_gap(min(certificate.primal, e.primal), max(certificate.bound, e.bound)) <= tol
                ),
                **point.arguments,
            )
            warm = evaluation.duals
            best = evaluation if best is None or evaluation.primal < best.primal else best
            certificate.add(evaluation)
            own = point.own_penalty
            iterate = Iterate(
                iteration=len(iterates) + 1,
                B=evaluation.B,
                objective=evaluation.primal if own is None else evaluation.upper + own,
                primal=certificate.primal,
                bound=certificate.bound,
                relative_gap=certificate.relative_gap,
                effective_rank=effective_rank(evaluation.B),
                seconds=time.perf_counter() - began,
            )
            iterates.append(iterate)
            if (verbose or callback is not None) and _show(iterate, verbose, callback, units):
                status = Status.STOPPED
            if solver.stops_at_gap and certificate.relative_gap <= tol:
                status = Status.CONVERGED
        if status is not None:
            break
        try:
            point = points.send(evaluation)
        except StopIteration as end:
            status = end.value
            break
    assert best is not None, "a solver must evaluate at least one point"
    solution = Solution(
        **vars(best) | {"bound": certificate.bound, "curvature": None},
        status=Status.CONVERGED if certificate.relative_gap <= tol else status,
        history={name: np.array([getattr(iterate, name) for iterate in iterates]) for name in COLUMNS},
    )
    return solution if units is None else units.restore(solution)


def _show(iterate: Iterate, verbose: int, callback: Callback | None, units: Units | None) -> bool:
    """Print an iterate in the user's units and call the callback; return True if it requests to stop."""
    shown = replace(iterate, B=iterate.B.copy()) if units is None else units.restore(iterate)
    if verbose:
        print(
            f"[kernelkin] {shown.iteration:4d}  objective {shown.primal:<12.6g} bound {shown.bound:<12.6g} "
            f"gap {shown.relative_gap:8.1e}  rank {shown.effective_rank:5.2f}  {shown.seconds:6.1f} s",
            flush=True,
        )
    answer = None if callback is None else callback(shown)
    # Accept Python's and NumPy's True; ignore other return values.
    return isinstance(answer, bool | np.bool_) and bool(answer)


def suitable_scale(mu: float, evaluation: Evaluation, R: float | None = None) -> float:
    """Return the factor s for the weights of an evaluation that suits mu; R is their penalty, if it is another.

    If functions stay the same, `q = <B, Q>` becomes `q / s^2`, and the best s has `s^3 = q / (mu R)`.
    """
    return float(np.cbrt(np.vdot(evaluation.B, evaluation.Q) / (mu * (evaluation.R if R is None else R))))


# If mu differs by more than this factor, a warm start is no better than the solver's own start.
_FAR = 1e3 * (1 + 1e-6)


class Path:
    """Solutions along values of mu; each starts from the last one, at the scale that suits its own mu.

    `problem` is that at any mu; options are those of `solve`. With `units` solutions are in the user's units; `mu` and
    `start` are not.
    """

    def __init__(
        self, problem: Problem, solver: Solver | str | None = None, *, units: Units | None = None, **options: Any
    ) -> None:
        self.problem, self.solver, self.units, self.options = problem, find_solver(solver, problem), units, options
        # The last mu and its solution, in the units of the problem.
        self._last: tuple[float, Solution] | None = None

    def solve(self, mu: float, start: np.ndarray | None = None) -> Solution:
        """Solve the problem at mu; `start` (K, J) is used where no solution is near."""
        problem, warm = replace(self.problem, mu=mu), None
        if self._last is not None and 1 / _FAR < mu / self._last[0] < _FAR:
            last = self._last[1]
            if np.vdot(last.B, last.Q) > 0:
                scale = suitable_scale(mu, last)
                start, warm = last.B * scale, last.duals.divided(scale)
        solution = solve(problem, self.solver, start=start, warm=warm, **self.options)
        self._last = mu, solution
        return solution if self.units is None else self.units.restore(solution)
