"""The memory that a search of models takes which are fitted in their own way, and share nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sklearn.base import clone

from ..data import TaskData
from ..estimators.shell import MultiTaskEstimator
from ..memory import Need
from ..parallel import count_workers
from .folds import Fold


def search_need(estimator: MultiTaskEstimator, data: TaskData, folds: Sequence[Fold], n_jobs: int | None) -> Need:
    """The fits of folds that are at work at one time, each with its copies of rows; or the last fit."""
    last = clone(estimator)._prepare(data).need
    fold = clone(estimator)._prepare(data.take(folds[0].kept)).need
    together = count_workers(n_jobs) * (fold.peak + data.X.nbytes)
    return last if last.peak >= together else replace(fold, peak=together)
