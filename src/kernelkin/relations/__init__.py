"""Test how tasks are related, and whether sharing between them helps."""

from .analysis import TaskRelations, task_relations
from .baselines import GradientBoosting, LinearMixedModel, OneModel, SeparateModels
from .scores import Gain
from .sharing import Comparison, SharingReport, sharing_report

__all__ = [
    "Comparison",
    "Gain",
    "GradientBoosting",
    "LinearMixedModel",
    "OneModel",
    "SeparateModels",
    "SharingReport",
    "TaskRelations",
    "sharing_report",
    "task_relations",
]
