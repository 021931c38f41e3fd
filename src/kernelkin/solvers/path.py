"""Problems that differ in mu alone, each solved from the solution of the last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..engines import Each, serially
from ..problems import Evaluation, Problem, Units
from .base import Solution, Solver, Status, history_of, suitable_scale
from .driver import Callback, choose_solver, solve

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
        if not problem.learner.homogeneous or scale < 1 or problem.revised(last.B, self.tol) is not problem:
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
