"""The problems that models pose: each evaluates a point and bounds the optimum from both sides, outside any solver."""

from .base import AnyProblem
from .evaluation import Evaluation, relative_gap
from .machines import solve_batch, solve_machines
from .mixed_norm import MixedNormProblem
from .panel import MachinePanel, PanelDuals, panel_pays
from .panel_solver import panel_part_shares, panel_values
from .penalised import Problem
from .spectral import SpectralProblem
from .spectral_forms import FeatureForm, GramForm, SpectralForm, spectral_form
from .units import Units
from .worst_task import WorstTaskProblem

PROBLEMS: dict[str, type[AnyProblem]] = {
    problem.name: problem for problem in (Problem, MixedNormProblem, WorstTaskProblem, SpectralProblem)
}

__all__ = [
    "PROBLEMS",
    "AnyProblem",
    "Evaluation",
    "FeatureForm",
    "GramForm",
    "MachinePanel",
    "MixedNormProblem",
    "PanelDuals",
    "Problem",
    "SpectralForm",
    "SpectralProblem",
    "Units",
    "WorstTaskProblem",
    "panel_part_shares",
    "panel_pays",
    "panel_values",
    "relative_gap",
    "solve_batch",
    "solve_machines",
    "spectral_form",
]
