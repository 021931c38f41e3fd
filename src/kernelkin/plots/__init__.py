"""Plots of fitted models, as scikit-learn displays; matplotlib (extra `plot`) is imported on first use."""

from .convergence import ConvergenceDisplay
from .effects import ColumnEffectDisplay, TaskEffectsDisplay, VarianceSharesDisplay
from .kernel_weights import KernelWeightsDisplay
from .prediction_split import PredictionSplitDisplay
from .relationship import TaskRelationshipDisplay
from .task_scores import TaskScoresDisplay
from .uncertainty import CoverageDisplay, IntervalsDisplay, ReliabilityDisplay

DISPLAYS = {
    "kernel_weights": KernelWeightsDisplay,
    "relationship": TaskRelationshipDisplay,
    "convergence": ConvergenceDisplay,
    "task_scores": TaskScoresDisplay,
    "prediction_split": PredictionSplitDisplay,
    "reliability": ReliabilityDisplay,
    "intervals": IntervalsDisplay,
    "coverage": CoverageDisplay,
    "task_effects": TaskEffectsDisplay,
    "variance_shares": VarianceSharesDisplay,
    "column_effect": ColumnEffectDisplay,
}

__all__ = [
    "DISPLAYS",
    "ColumnEffectDisplay",
    "ConvergenceDisplay",
    "CoverageDisplay",
    "IntervalsDisplay",
    "KernelWeightsDisplay",
    "PredictionSplitDisplay",
    "ReliabilityDisplay",
    "TaskEffectsDisplay",
    "TaskRelationshipDisplay",
    "TaskScoresDisplay",
    "VarianceSharesDisplay",
]
