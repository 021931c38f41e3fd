"""Solvers: `solve` runs any of them and returns a `Solution`."""

from .alternating import Alternating
from .descents import SimplexDescent, SpectralAlternation, SpectralDescent, StochasticApproximation
from .driver import (
    SOLVERS,
    UNFINISHED,
    Callback,
    Certificate,
    Iterate,
    OneEvaluation,
    Path,
    Point,
    Solution,
    Solver,
    Status,
    find_solver,
    solve,
)
from .joint import Joint

for _solver in (
    Joint,
    Alternating,
    OneEvaluation,
    SimplexDescent,
    StochasticApproximation,
    SpectralDescent,
    SpectralAlternation,
):
    SOLVERS[_solver.name] = _solver

__all__ = [
    "SOLVERS",
    "UNFINISHED",
    "Alternating",
    "Callback",
    "Certificate",
    "Iterate",
    "Joint",
    "OneEvaluation",
    "Path",
    "Point",
    "SimplexDescent",
    "Solution",
    "Solver",
    "SpectralAlternation",
    "SpectralDescent",
    "Status",
    "StochasticApproximation",
    "find_solver",
    "solve",
]
