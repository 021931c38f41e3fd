"""Solvers: `solve` runs any of them and returns a `Solution`."""

from .alternating import Alternating
from .descents import SimplexDescent, SpectralAlternation, SpectralDescent, StochasticApproximation
from .driver import SOLVERS, Certificate, Iterate, OneEvaluation, Point, Solution, Solver, Status, find_solver, solve
from .joint import Joint

# In this order: the first that can solve a problem is its default.
_ALL: tuple[type[Solver], ...] = (Joint, Alternating, OneEvaluation, SimplexDescent, StochasticApproximation)
_ALL += (SpectralDescent, SpectralAlternation)
SOLVERS.update({solver.name: solver for solver in _ALL})

__all__ = ["SOLVERS", "Alternating", "Certificate", "Iterate", "Joint", "Point", "Solution", "Solver", "Status"]
__all__ += ["find_solver", "solve"]
