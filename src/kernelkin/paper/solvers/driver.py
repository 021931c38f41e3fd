"""The one loop that runs every solver, all solvers by name, and paths of problems that differ in mu alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from ...engines import Each, serially
from ..penalties import FixedWeights, effective_rank
from ..problems import AnyProblem, Evaluation, Problem, Units
from .alternating import Alternating
from .base import Iterate, Progress, Solution, Solver, State, Status, describe, history_of, suitable_scale
from .joint import Joint
from .simplex import SimplexDescent, StochasticApproximation
from .spectral import SpectralAlternation, SpectralDescent


@dataclass(frozen=True)
class OneEvaluation(Solver):
    """Solve the machines at the weights of a `FixedWeights` penalty."""

    name: ClassVar[str] = "one_evaluation"
    role: ClassVar[str] = "joint"
    problems: ClassVar[tuple[type, ...]] = (Problem,)
    penalties: ClassVar[tuple[type, ...] | None] = (FixedWeights,)

    def init(self, problem: Problem, start: np.ndarray | None, tol: float) -> State:
        """The given weights; there is no other start."""
        assert isinstance(problem.penalty, FixedWeights)
        return State(B=problem.penalty.B, progress=Progress(tol, accuracy=tol))

    def step(self, problem: Problem, state: State, evaluation: Evaluation) -> State:
        """Nothing is left to do."""
        return replace(state, status=Status.STALLED)


SOLVERS: dict[str, type[Solver]] = {
    solver.name: solver
    for solver in (
        Joint,
        Alternating,
        OneEvaluation,
        SimplexDescent,
        StochasticApproximation,
        SpectralDescent,
        SpectralAlternation,
    )
}


def can_solve(solver: type[Solver], problem: AnyProblem) -> bool:
    """Whether a class of solvers is for this problem."""
    if not isinstance(problem, solver.problems):
        return False
    penalty = getattr(problem, "penalty", None)
    if penalty is None:
        return True
    if solver.penalties is not None and not isinstance(penalty, solver.penalties):
        return False
    return solver.indicators is None or solver.indicators == penalty.is_indicator


def choose_solver(solver: Solver | str | None, problem: AnyProblem) -> Solver:
    """The default of a problem, the solver of a name or role, or a given one; ValueError where it cannot solve it."""
    if solver is None:
        return default_solver(problem)
    if isinstance(solver, str):
        return find_solver(solver, problem)
    if not can_solve(type(solver), problem):
        raise ValueError(f"solver {solver.name!r} cannot solve a {describe(problem)}; use {_advice(problem)}")
    return solver


def find_solver(name: str, problem: AnyProblem) -> Solver:
    """The solver of this name or role for a problem: "joint" is `SpectralDescent` for a `SpectralProblem`."""
    fitting = [solver for solver in SOLVERS.values() if can_solve(solver, problem)]
    for solver in fitting:
        if name in (solver.role, solver.name):
            return solver()
    raise ValueError(f"solver {name!r} cannot solve a {describe(problem)}; use {_advice(problem)}")


def default_solver(problem: AnyProblem) -> Solver:
    """The first of `SOLVERS` that solves a problem."""
    for solver in SOLVERS.values():
        if can_solve(solver, problem):
            return solver()
    raise ValueError(f"no solver is for a {describe(problem)}")


def _advice(problem: AnyProblem) -> str:
    fitting = [f"solver={solver.role!r}" for solver in SOLVERS.values() if can_solve(solver, problem)]
    return " or ".join(fitting) if fitting else "another problem: no solver is for this one"


Callback = Callable[[Iterate], object]


def solve(
    problem: AnyProblem,
    solver: Solver | str | None = None,
    *,
    start: np.ndarray | None = None,
    warm: Sequence[np.ndarray] | None = None,
    tol: float = 1e-3,
    max_iter: int = 100,
    each: Each = serially,
    verbose: int = 0,
    callback: Callback | None = None,
    units: Units | None = None,
) -> Solution:
    """Minimise a problem until its relative duality gap is `tol`.

    Parameters
    ----------
    problem : a problem of `kernelkin.paper.problems`
    solver : Solver or str, optional
        By default the one that `default_solver` chooses.
    start : array (K, J), optional
        Where to begin, in the units of the problem.
    warm : dual variables (n_m, outputs) of each machine, optional
        Where the machines begin, in the units of the problem.
    tol : float
    max_iter : int
        Iterations of the solver; for most, one is an evaluation of all machines.
    each : how to run the loop over machines
    verbose : int
        Whether to print a line for each evaluation.
    callback : callable, optional
        Called with an `Iterate` after each evaluation; where it returns True, the solver stops.
    units : Units, optional
        Of a problem in standard units: the solution, the history and what is shown are in the user's units.

    Returns
    -------
    Solution
    """
    solver = choose_solver(solver, problem)
    log = _Log(verbose=verbose, callback=callback, units=units)
    solution = _solve_once(problem, solver, start, warm, tol, max_iter, each, log)
    return solution if units is None else units.restore(solution)


def _solve_once(
    problem: AnyProblem,
    solver: Solver,
    start: np.ndarray | None,
    warm: Sequence[np.ndarray] | None,
    tol: float,
    max_iter: int,
    each: Each,
    log: _Log,
) -> Solution:
    """Minimise a problem as it is; the history is that of the log."""
    state: State = solver.init(problem, start, tol)
    best: Evaluation | None = None
    while True:
        evaluation, last = None, state.iterations >= max_iter
        if state.is_due or last:
            evaluation = _evaluate(problem, state, warm, each, solver.stops_at_gap)
            warm = evaluation.dual_variables
            best = evaluation if best is None or evaluation.primal < best.primal else best
            state = replace(state, progress=state.progress.after(evaluation))
            stop = log.add(state, evaluation)
            if solver.stops_at_gap and state.progress.relative_gap <= tol:
                status = Status.CONVERGED
                break
            if stop:
                status = Status.STOPPED
                break
        if last:
            status = Status.MAX_ITER
            break
        state = solver.step(problem, state, evaluation)
        if state.status is not None:
            status = state.status
            break
    assert best is not None, "a solver evaluates something before it ends"
    if state.progress.relative_gap <= tol:
        status = Status.CONVERGED
    return Solution(
        evaluation=replace(best, curvature=None),
        bound=state.progress.bound,
        status=status,
        history=history_of(log.iterates),
        relation_of=problem.relation,
    )


def _evaluate(
    problem: AnyProblem, state: State, warm: Sequence[np.ndarray] | None, each: Each, stops_at_gap: bool
) -> Evaluation:
    progress = state.progress

    def closes_gap(evaluation: Evaluation) -> bool:
        return stops_at_gap and progress.after(evaluation).relative_gap <= progress.tol

    return problem.evaluate(
        state.B,
        warm=warm,
        tol=progress.accuracy,
        each=each,
        curved=state.curved,
        enough=closes_gap,
        **state.arguments,
    )


@dataclass
class _Log:
    """What was evaluated: recorded in the problem's units, shown and passed on in the user's."""

    verbose: int
    callback: Callback | None
    units: Units | None
    iterates: list[Iterate] = field(default_factory=list)
    began: float = field(default_factory=time.perf_counter)

    def add(self, state: State, evaluation: Evaluation) -> bool:
        """Record an evaluation; return whether the callback wants to stop."""
        own = state.own_penalty
        iterate = Iterate(
            iteration=len(self.iterates) + 1,
            B=evaluation.B,
            objective=evaluation.primal if own is None else evaluation.upper + own,
            primal=state.progress.primal,
            bound=state.progress.bound,
            relative_gap=state.progress.relative_gap,
            effective_rank=effective_rank(evaluation.B),
            seconds=time.perf_counter() - self.began,
        )
        self.iterates.append(iterate)
        if not self.verbose and self.callback is None:
            return False
        shown = replace(iterate, B=iterate.B.copy()) if self.units is None else self.units.restore_iterate(iterate)
        if self.verbose:
            print(_line(shown), flush=True)
        answer = None if self.callback is None else self.callback(shown)
        # Comparisons with numbers of NumPy give its own True; other things that callbacks return mean nothing.
        return isinstance(answer, bool | np.bool_) and bool(answer)


def _line(iterate: Iterate) -> str:
    return (
        f"[kernelkin] {iterate.iteration:4d}  objective {iterate.primal:<12.6g} bound {iterate.bound:<12.6g} "
        f"gap {iterate.relative_gap:8.1e}  rank {iterate.effective_rank:5.2f}  {iterate.seconds:6.1f} s"
    )


# From a solution this far away in mu a solver does no better than from its own start.
_FAR = 1e3 * (1 + 1e-6)
# Above this `decay` the functions of the last two solutions were the same but for rounding.
_SAME_FUNCTIONS = 0.99


class Path:
    """Solutions along values of mu.

    The next problem starts from the last solution, at the scale that suits its own mu. Where functions no longer
    change with mu, they are certified for it, and no machine is solved.

    Parameters
    ----------
    problem : Problem
        The problem at any mu.
    solver : Solver, str or None
        As for `solve`.
    tol, max_iter, each
        As for `solve`.
    units : Units, optional
        Of a problem in standard units: solutions are in the user's units, while `mu` and `start` are not.
    """

    def __init__(
        self,
        problem: Problem,
        solver: Solver | str | None = None,
        *,
        tol: float = 1e-3,
        max_iter: int = 100,
        each: Each = serially,
        units: Units | None = None,
    ) -> None:
        self.problem, self.solver = problem, choose_solver(solver, problem)
        self.tol, self.max_iter = tol, max_iter
        self.each, self.units = each, units
        # The last two solutions: mu and evaluation of each, in the units of the problem.
        self._past: list[tuple[float, Evaluation]] = []

    def solve(self, mu: float, start: np.ndarray | None = None, callback: Callback | None = None) -> Solution:
        """Solve the problem at mu; `start` (K, J) is used where no solution is near, `callback` as by `solve`."""
        problem = replace(self.problem, mu=mu)
        decay = _decay([evaluation for _, evaluation in self._past])
        solution = self._certify(problem) if decay > _SAME_FUNCTIONS else None
        if solution is None:
            start, warm = self._start(problem, start, decay)
            solution = solve(
                problem,
                self.solver,
                start=start,
                warm=warm,
                tol=self.tol,
                max_iter=self.max_iter,
                each=self.each,
                callback=callback,
            )
        self._past = [*self._past[-1:], (mu, solution.evaluation)]
        return solution if self.units is None else self.units.restore(solution)

    def _certify(self, problem: Problem) -> Solution | None:
        """The last functions, where they can be certified to solve this problem as well: then no machine is solved."""
        last = self._past[-1][1]
        scale = suitable_scale(problem.mu, last)
        if not problem.learner.homogeneous or scale < 1:
            return None
        known = problem.rescale(last, scale)
        if known.relative_gap > self.tol:
            return None
        return Solution(known, known.bound, Status.CONVERGED, history_of([]), problem.relation)

    def _start(
        self, problem: Problem, start: np.ndarray | None, decay: float
    ) -> tuple[np.ndarray | None, Sequence[np.ndarray] | None]:
        """Where weights and machines start; as requested, or as the solver does, where nothing is near."""
        if not self._past:
            return start, None
        mu, last = self._past[-1]
        if not 1 / _FAR < problem.mu / mu < _FAR or not np.vdot(last.B, last.Q) > 0:
            return start, None
        scale = suitable_scale(problem.mu, last, decay=decay)
        fall = 1.0 + decay * (scale - 1.0)
        return last.B * scale, [dual.a / fall for dual in last.duals]


def _decay(past: Sequence[Evaluation]) -> float:
    """How fast machines respond to larger weights, from two solutions on the way; see `suitable_scale`."""
    if len(past) < 2:
        return 0.0
    far, near = past
    scale = float(near.B.sum() / max(far.B.sum(), np.finfo(float).tiny))
    before, after = (float(np.vdot(one.B, one.Q)) for one in past)
    if scale <= 1 or after <= 0:
        return 0.0
    return float(np.clip((np.sqrt(before * scale / after) - 1.0) / (scale - 1.0), 0.0, 1.0))
