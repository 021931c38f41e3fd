"""Ways to minimise a problem: `solve` runs any of them and returns one `Solution`."""

from .alternating import Alternating
from .base import UNFINISHED, Iterate, Progress, Solution, Solver, State, Status
from .driver import Callback, solve
from .joint import Joint
from .one_evaluation import OneEvaluation
from .path import Path
from .registry import SOLVERS, can_solve, default_solver, find_solver
from .simplex import SimplexDescent
from .spectral import SpectralAlternation, SpectralDescent
from .stochastic import StochasticApproximation

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
