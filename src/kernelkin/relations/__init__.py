"""How alike tasks are, whether that is more than chance, and whether sharing helps."""

from .analysis import task_relations
from .baselines import GradientBoosting, LinearMixedModel, OneModel, SeparateModels
from .gains import Gain, Summary
from .result import TaskRelations
from .sharing import LearningCurve, SharingReport, sharing_report

__all__ = [
    "Gain",
    "GradientBoosting",
    "LearningCurve",
    "LinearMixedModel",
    "OneModel",
    "SeparateModels",
    "SharingReport",
    "Summary",
    "TaskRelations",
    "sharing_report",
    "task_relations",
]
