"""The problems that models pose: each evaluates a point and bounds the optimum from both sides, outside any solver."""

from .base import AnyProblem
from .block_duals import BlockDuals, RemoteMachines, deviation
from .blocks import GatheredMachines, MachineBlocks, RemoteGrams
from .evaluation import Evaluation, relative_gap
from .linked_block import LinkedBlock
from .linked_blocks import GatheredLinked, LinkedBlocks, LinkedDuals
from .machines import solve_batch, solve_machines
from .mixed_norm import MixedNormProblem
from .panel import MachinePanel, PanelDuals, panel_pays
from .panel_solver import panel_part_shares, panel_values
from .penalised import Problem
from .spectral import SpectralProblem
from .spectral_forms import FeatureForm, GramForm, SpectralForm, spectral_form
from .task_block import TaskBlock
from .units import Units
from .worst_task import WorstTaskProblem

PROBLEMS: dict[str, type[AnyProblem]] = {
    problem.name: problem for problem in (Problem, MixedNormProblem, WorstTaskProblem, SpectralProblem)
}

__all__ = [
    "PROBLEMS",
    "AnyProblem",
    "BlockDuals",
    "Evaluation",
    "FeatureForm",
    "GatheredLinked",
    "GatheredMachines",
    "GramForm",
    "LinkedBlock",
    "LinkedBlocks",
    "LinkedDuals",
    "MachineBlocks",
    "MachinePanel",
    "MixedNormProblem",
    "PanelDuals",
    "Problem",
    "RemoteGrams",
    "RemoteMachines",
    "SpectralForm",
    "SpectralProblem",
    "TaskBlock",
    "Units",
    "WorstTaskProblem",
    "deviation",
    "panel_part_shares",
    "panel_pays",
    "panel_values",
    "relative_gap",
    "solve_batch",
    "solve_machines",
    "spectral_form",
]
