"""Optimisation problems of the models: they evaluate a point and compute bounds on the optimum."""

from .machines import MachineList
from .problem import AnyProblem, Evaluation, MixedNormProblem, Problem, SpectralProblem, WorstTaskProblem

PROBLEMS: dict[str, type[AnyProblem]] = {
    problem.name: problem for problem in (Problem, MixedNormProblem, WorstTaskProblem, SpectralProblem)
}

__all__ = ["PROBLEMS", "Evaluation", "MachineList", "Problem"]
