"""Kernel weights and strength chosen for each task of wide data, all tasks at once."""

from .search import STRENGTHS, TaskMixes, choose_mixes

__all__ = ["STRENGTHS", "TaskMixes", "choose_mixes"]
