"""Synthetic data: tasks with known kernels and groups, and shops."""

from ._related import make_related_tasks
from ._shops import make_shops

__all__ = ["make_related_tasks", "make_shops"]
