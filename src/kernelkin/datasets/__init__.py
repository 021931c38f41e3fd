"""Data: the paper's real data sets, and synthetic tasks whose kernels and groups are known."""

from kernelkin.datasets._real import load_landmine, load_mfeat, load_sarcos, load_school, load_stock

__all__ = ["load_landmine", "load_mfeat", "load_sarcos", "load_school", "load_stock"]
