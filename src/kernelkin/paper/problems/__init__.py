"""The problems that models pose: each evaluates a point and bounds the optimum from both sides, outside any solver."""

from .blocks import BlockValues, MachineBlocks, Request, TaskBlock, in_order
from .machines import BlockDuals, SolvedMachines, deviation, solve_batch, solve_machines
from .panel import MachinePanel, PanelDuals, panel_part_shares, panel_pays, panel_values
from .problem import AnyProblem, MixedNormProblem, Problem, WorstTaskProblem
from .spectral import FeatureForm, GramForm, SpectralForm, SpectralProblem, spectral_form
from .units import Evaluation, Units, relative_gap

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
