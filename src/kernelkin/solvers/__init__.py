"""Ways to minimise an objective; each returns one `Solution`."""

from .alternating import Alternating
from .base import Iterate, Run, Solution, Solver, Status
from .joint import Joint

SOLVERS: dict[str, type] = {solver.name: solver for solver in (Joint, Alternating)}

__all__ = ["SOLVERS", "Alternating", "Iterate", "Joint", "Run", "Solution", "Solver", "Status"]
