"""Pictures of fitted models, as scikit-learn displays; matplotlib (extra `plot`) is imported when one is drawn."""

from .convergence import ConvergenceDisplay
from .kernel_weights import KernelWeightsDisplay
from .part_shares import PartSharesDisplay
from .prediction_split import PredictionSplitDisplay
from .relationship import TaskRelationshipDisplay
from .task_scores import TaskScoresDisplay

DISPLAYS = {
    "kernel_weights": KernelWeightsDisplay,
    "relationship": TaskRelationshipDisplay,
    "convergence": ConvergenceDisplay,
    "task_scores": TaskScoresDisplay,
    "prediction_split": PredictionSplitDisplay,
    "part_shares": PartSharesDisplay,
}

__all__ = [
    "DISPLAYS",
    "ConvergenceDisplay",
    "KernelWeightsDisplay",
    "PartSharesDisplay",
    "PredictionSplitDisplay",
    "TaskRelationshipDisplay",
    "TaskScoresDisplay",
]
