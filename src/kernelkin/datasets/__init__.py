"""The real data sets of the paper, and synthetic data: tasks with known kernels and groups, and shops."""

from ._real import load_landmine, load_mfeat, load_sarcos, load_school, load_stock
from ._related import make_related_tasks
from ._shops import make_shops

__all__ = [
    "load_landmine",
    "load_mfeat",
    "load_sarcos",
    "load_school",
    "load_stock",
    "make_related_tasks",
    "make_shops",
]
