"""Gram matrices: nothing outside this package touches their memory."""

from .build import KernelBank, build_grams
from .collections import Grams, SeparateGrams, SharedGrams, TaskGrams
from .coupled import CoupledGrams
from .functions import TaskFunctions, task_functions
from .memory import GramPlan, Use, plan_grams
from .stack import GramStack

__all__ = [
    "CoupledGrams",
    "GramPlan",
    "GramStack",
    "Grams",
    "KernelBank",
    "SeparateGrams",
    "SharedGrams",
    "TaskFunctions",
    "TaskGrams",
    "Use",
    "build_grams",
    "plan_grams",
    "task_functions",
]
