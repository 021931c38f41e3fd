"""Ways to minimise a problem: `solve` runs any of them and returns one `Solution`."""

from .alternating import Alternating
from .base import UNFINISHED, Iterate, Progress, Solution, Solver, State, Status
from .driver import SOLVERS, Callback, OneEvaluation, Path, can_solve, default_solver, find_solver, solve
from .joint import Joint
from .simplex import SimplexDescent, StochasticApproximation
from .spectral import SpectralAlternation, SpectralDescent

__all__ = [
    "SOLVERS",
    "UNFINISHED",
    "Alternating",
    "Callback",
    "Iterate",
    "Joint",
    "OneEvaluation",
    "Path",
    "Progress",
    "SimplexDescent",
    "Solution",
    "Solver",
    "SpectralAlternation",
    "SpectralDescent",
    "State",
    "Status",
    "StochasticApproximation",
    "can_solve",
    "default_solver",
    "find_solver",
    "solve",
]
