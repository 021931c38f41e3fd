"""How alike tasks are, whether that is more than chance, and whether sharing helps."""

from .gains import Gain, Summary
from .likeness import model_likeness
from .result import TaskRelations
from .sharing import LearningCurve, SharingReport, sharing_report
from .task_relations import task_relations

__all__ = [
    "Gain",
    "LearningCurve",
    "SharingReport",
    "Summary",
    "TaskRelations",
    "model_likeness",
    "sharing_report",
    "task_relations",
]
