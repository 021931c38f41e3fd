"""Kernel weights and strength chosen for each task of wide data, all tasks at once."""

from .search import TaskMixes, choose_mixes

__all__ = ["TaskMixes", "choose_mixes"]
