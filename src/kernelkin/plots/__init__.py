"""Plots of fitted models, as scikit-learn displays; matplotlib (extra `plot`) is imported on first use."""

from .effects import ColumnEffectDisplay, TaskEffectsDisplay, VarianceSharesDisplay
from .fits import ConvergenceDisplay, KernelWeightsDisplay, TaskRelationshipDisplay
from .scores import CoverageDisplay, IntervalsDisplay, TaskScoresDisplay

__all__ = [
    "ColumnEffectDisplay",
    "ConvergenceDisplay",
    "CoverageDisplay",
    "IntervalsDisplay",
    "KernelWeightsDisplay",
    "TaskEffectsDisplay",
    "TaskRelationshipDisplay",
    "TaskScoresDisplay",
    "VarianceSharesDisplay",
]
