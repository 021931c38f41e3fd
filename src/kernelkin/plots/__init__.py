"""Plots of fitted models, as scikit-learn displays; matplotlib (extra `plot`) is imported on first use."""

from .effects import ColumnEffectDisplay, TaskEffectsDisplay, VarianceSharesDisplay
from .fits import ConvergenceDisplay, PredictionSplitDisplay
from .heatmaps import KernelWeightsDisplay, TaskRelationshipDisplay
from .scores import CoverageDisplay, IntervalsDisplay, ReliabilityDisplay, TaskScoresDisplay

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
