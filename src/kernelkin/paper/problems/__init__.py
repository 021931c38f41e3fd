"""Optimisation problems of the models: they evaluate a point and compute bounds on the optimum."""

from .blocks import MachineBlocks
from .machines import MachineDuals, MachineList, SolvedMachines, Units
from .panel import MachinePanel, PanelDuals, panel_pays
from .problem import (
    AnyProblem,
    Evaluation,
    FeatureForm,
    GramForm,
    MixedNormProblem,
    Problem,
    SpectralForm,
    SpectralProblem,
    WorstTaskProblem,
    relative_gap,
    spectral_form,
)

PROBLEMS: dict[str, type[AnyProblem]] = {
    problem.name: problem for problem in (Problem, MixedNormProblem, WorstTaskProblem, SpectralProblem)
}

__all__ = [
    "PROBLEMS",
    "AnyProblem",
    "Evaluation",
    "FeatureForm",
    "GramForm",
    "MachineBlocks",
    "MachineDuals",
    "MachineList",
    "MachinePanel",
    "MixedNormProblem",
    "PanelDuals",
    "Problem",
    "SolvedMachines",
    "SpectralForm",
    "SpectralProblem",
    "Units",
    "WorstTaskProblem",
    "panel_pays",
    "relative_gap",
    "spectral_form",
]
