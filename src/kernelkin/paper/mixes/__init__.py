"""Choose kernel weights and strength for each task of wide data by held-out errors."""

from .search import STRENGTHS, TaskMixes, TaskMixFit, choose_mixes

__all__ = ["STRENGTHS", "TaskMixFit", "TaskMixes", "choose_mixes"]
