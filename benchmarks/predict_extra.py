"""Contenders whose libraries are in the extra "bench"."""

from __future__ import annotations

from .predict_case import Case, Parts


def boosting_lightgbm(pooled: bool, case: Case, seed: int) -> Parts:
    raise NotImplementedError


def himalaya_ridge(case: Case, seed: int) -> Parts:
    raise NotImplementedError


def multi_task_gp(case: Case, seed: int) -> Parts:
    raise NotImplementedError
