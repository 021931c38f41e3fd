"""All solvers by name, and which of them solves a problem."""

from __future__ import annotations

from ..problems import AnyProblem
from .alternating import Alternating
from .base import Solver, describe
from .joint import Joint
from .one_evaluation import OneEvaluation
from .simplex import SimplexDescent
from .spectral import SpectralAlternation, SpectralDescent
from .stochastic import StochasticApproximation

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
