"""A search that chooses kernel weights and strength for each task; see `kernelkin.paper.mixes`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...data import TaskData
from ...memory import check_memory
from ..fitting import Regression
from ..mixes import TaskMixes, TaskMixFit


def mix_specification(search: Any) -> TaskMixFit:
    """Return what a search with `per_task=True` fits to wide data."""
    return TaskMixFit(
        targets=Regression(search.loss, search.epsilon, search.fit_intercept),
        kernels=search.kernels,
        parsimony=search.parsimony,
        normalize=search.normalize,
        tol=search.tol,
        device=search.device,
    )


def fit_task_mixes(search: Any, model: Any, data: TaskData) -> Any:
    """Fit a search with `per_task=True`: choose for each task, fit its model, and store what was tried."""
    _refuse(search, ("grid", "couplings", "task_features", "cache"), "kernel weights")
    began = time.perf_counter()
    specification = replace(mix_specification(search), device=model.device)
    plan = specification.plan(data)
    check_memory(plan.memory())
    fitted, found = plan.run_chosen(model.run_options())
    search.cv_results_ = tabulate_mixes(found)
    search.best_index_ = int(search.cv_results_["mean_test_score"].argmax())
    search.best_params_ = search.cv_results_["params"][search.best_index_]
    search.best_score_ = float(search.cv_results_["mean_test_score"][search.best_index_])
    search.n_splits_, search.n_cached_ = len(data.X), 0
    search.task_choices_ = found.choices
    search.best_estimator_ = model.store(fitted)
    search.refit_time_ = float(fitted.attributes["history_"]["seconds"][-1])
    search.search_time_ = time.perf_counter() - began - search.refit_time_
    return search


def _refuse(search: Any, names: Sequence[str], chosen: str) -> None:
    """Refuse parameters that would be ignored."""
    given = [name for name in names if getattr(search, name) is not None]
    if given:
        raise ValueError(f"per_task=True chooses {chosen} for each task and cannot use {', '.join(given)}")


def tabulate_mixes(found: TaskMixes) -> dict[str, Any]:
    """A row for each mix and strength: R^2 of leave-one-out values, the mean over tasks and its standard error."""
    n_mixes, n_strengths, n_tasks = found.errors.shape
    scores = 1.0 - found.errors.reshape(-1, n_tasks) / found.variance
    params = [
        {"kernel_weights": found.mixes[m].tolist(), "C": float(found.strengths[c])}
        for m in range(n_mixes)
        for c in range(n_strengths)
    ]
    mean = scores.mean(axis=1)
    return {
        "params": params,
        "param_C": np.array([row["C"] for row in params]),
        "mean_test_score": mean,
        "standard_error": scores.std(axis=1) / np.sqrt(n_tasks),
        "rank_test_score": 1 + (mean[:, np.newaxis] < mean).sum(axis=1),
        "n_tasks": np.bincount(found.choices @ [n_strengths, 1], minlength=len(params)),
    }
