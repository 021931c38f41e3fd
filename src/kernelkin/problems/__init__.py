"""The problems that models pose: each evaluates a point and bounds the optimum from both sides, outside any solver."""

from .base import AnyProblem
from .blocks import BlockValues, MachineBlocks, Request, TaskBlock, in_order
from .evaluation import Evaluation, relative_gap
from .machines import BlockDuals, SolvedMachines, deviation, solve_batch, solve_machines
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
    "BlockDuals",
    "BlockValues",
    "Evaluation",
    "FeatureForm",
    "GramForm",
    "MachineBlocks",
    "MachinePanel",
    "MixedNormProblem",
    "PanelDuals",
    "Problem",
    "Request",
    "SolvedMachines",
    "SpectralForm",
    "SpectralProblem",
    "TaskBlock",
    "Units",
    "WorstTaskProblem",
    "deviation",
    "in_order",
    "panel_part_shares",
    "panel_pays",
    "panel_values",
    "relative_gap",
    "solve_batch",
    "solve_machines",
    "spectral_form",
]
