"""Data: the paper's real data sets, and synthetic tasks whose kernels and groups are known."""

from kernelkin.datasets._real import load_landmine, load_mfeat, load_sarcos, load_school, load_stock
from kernelkin.datasets._related import make_related_tasks

__all__ = ["load_landmine", "load_mfeat", "load_sarcos", "load_school", "load_stock", "make_related_tasks"]
