"""Uncertainty of a fitted model, from held-out values of its training rows, which are computed when first needed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from ..data.folds import Fold, make_folds
from ..data.forms import Queries, TaskData
from ..engines.threads import SingleThreadedBLAS
from ..estimators import spread_classes
from .calibration import Residuals, TaskLink, fit_link, fit_residuals
from .functions import function_values

# Number of folds of rows within tasks, number of groups of left-out tasks, and a fixed seed for reproducible results.
N_FOLDS, N_GROUPS, SEED = 5, 5, 0


class Uncertainty:
    """Held-out values of a model, and the link or the residuals that are fitted to them.

    The model is fitted again without each of five folds of the rows of every task. Parameters are the same, but kernels
    and weights are learned again, by `specification.plan(data).run(options)`. For tasks that were not in training, it
    is also fitted without groups of whole tasks. All of this happens when it is first needed, or by `compute`. Until
    then a pickle contains the training data, and afterwards neither the data nor the held-out values.
    """

    def __init__(self, specification: Any, data: TaskData, options: Any, *, classification: bool) -> None:
        self.specification, self.classification = specification, classification
        self.data: TaskData | None = data
        self.options = options._replace(verbose=0, callback=None)
        self._result: TaskLink | Residuals | None = None
        self._held: tuple[list[np.ndarray], TaskData] | None = None

    def held_out(self) -> tuple[list[np.ndarray], TaskData] | None:
        """Return the held-out values (n_t, m_t) and the training data; None for a loaded model."""
        self.compute()
        return self._held

    def compute(self) -> Any:
        """Return the `TaskLink` or the `Residuals`, which the first call computes."""
        if self._result is None:
            data, specification, options = self.data, self.specification, self.options
            assert data is not None
            predicts_new = getattr(specification, "unknown_tasks", "error") == "common"
            with SingleThreadedBLAS(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                values, classes = held_out_values(specification, data, options, classification=self.classification)
                new = left_out_tasks(specification, data, options) if predicts_new else None
            if self.classification:
                self._result = _fit_link(values, classes, new, data)
            else:
                self._result = _fit_residuals(values, new, data, predicts_new)
            self._held = values, data
            self.specification = self.data = self.options = None
        return self._result

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_held": None}


def held_out_values(
    specification: Any, data: TaskData, options: Any, *, classification: bool
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return held-out values (n_t, m_t) of each task, and the classes of each task.

    Values are NaN for rows that are in no fold, such as the only row of a task or of a class.
    """
    values = [np.full((len(y), 1), np.nan) for y in data.y]
    classes = [np.unique(y) for y in data.y] if classification else []
    try:
        folds = make_folds(data, N_FOLDS, classification=classification, random_state=SEED)
    except ValueError:  # every task has a single row, or a single row per class
        return values, classes
    for fold in folds:
        try:
            fitted = specification.plan(data.take(fold.kept)).run(options).attributes
        except ValueError:  # too few rows are left for this model
            continue
        classes = fitted.get("task_classes_", classes)
        unfitted = fitted.get("unfitted_tasks_", {})
        for t, part in enumerate(fold_values(fitted, data, fold)):
            if values[t].shape[1] != part.shape[1]:
                values[t] = np.full((len(data.y[t]), part.shape[1]), np.nan)
            if data.labels[t].item() not in unfitted:
                values[t][fold.held[t]] = part
    return values, list(classes)


def fold_values(fitted: dict[str, Any], data: TaskData, fold: Fold) -> list[np.ndarray]:
    """Return the values (q_t, m_t) of a model fitted without a fold at the rows of the fold, for each task."""
    held, functions = [rows[part] for rows, part in zip(data.rows, fold.held, strict=True)], fitted["functions_"]
    if data.form == "wide":
        kept, rows = fold.rows(data)
        X = data.X[np.ix_(rows, kept)] if data.X.ndim == 3 else data.X[rows]
        every = functions.values(X, None)
        values = [every[np.searchsorted(rows, part), t] for t, part in enumerate(held)]
    else:
        codes = np.repeat(np.arange(len(held)), [len(part) for part in held])
        every = functions.values(data.X[np.concatenate(held)], codes)
        values = np.split(every, np.cumsum([len(part) for part in held])[:-1])
    classes = fitted.get("task_classes_", [()] * len(held))
    return [part[:, : len(own) if len(own) > 2 else 1] for part, own in zip(values, classes, strict=True)]


def left_out_tasks(specification: Any, data: TaskData, options: Any) -> list[np.ndarray] | None:
    """Return values (n_t, m) of tasks that are left out completely; None if the model cannot be fitted without one."""
    values = [np.empty(0)] * data.n_tasks
    order = np.random.default_rng(SEED).permutation(data.n_tasks)
    for held in np.array_split(order, min(N_GROUPS, data.n_tasks)):
        try:
            plan = specification.plan(data.select(np.setdiff1d(order, held)))
            functions = plan.run(options).attributes["functions_"]
        except ValueError:  # a single task, or parameters with an entry per task, such as a prior
            return None
        for t in held.tolist():
            values[t] = functions.values(data.X[data.rows[t]], np.full(len(data.rows[t]), -1))
    return values


def _fit_link(
    values: Sequence[np.ndarray], classes: Sequence[np.ndarray], new: list[np.ndarray] | None, data: TaskData
) -> TaskLink:
    codes = [np.searchsorted(known, y) for known, y in zip(classes, data.y, strict=True)]
    weights = [data.sample_weight[rows] for rows in data.rows]
    link = fit_link(values, codes, weights)
    if new is None:
        return link
    return replace(link, new_task=fit_link([np.vstack(new)], [np.concatenate(codes)], [np.concatenate(weights)]))


def _fit_residuals(
    values: Sequence[np.ndarray], new: list[np.ndarray] | None, data: TaskData, predicts_new: bool
) -> Residuals:
    # If nothing can be left out, targets are predicted by the mean of all targets.
    mean = np.concatenate(data.y).mean()
    residuals = [y - part[:, 0] for y, part in zip(data.y, values, strict=True)]
    if not any(np.isfinite(part).any() for part in residuals):
        residuals = [y - mean for y in data.y]
    if not predicts_new:
        return fit_residuals(residuals, data.y)
    left_out = [y - (mean if new is None else new[t][:, 0]) for t, y in enumerate(data.y)]
    return fit_residuals(residuals, data.y, left_out)


def class_probabilities(model: Any, queries: Queries) -> np.ndarray:
    """Return probabilities (q, n_classes), or (q, T, n_classes) for wide data; zero for classes a task lacks."""
    link: TaskLink = model.uncertainty_.compute()
    return spread_classes(model, queries, function_values(model, queries), 0.0, link.probabilities)


def prediction_deviations(model: Any, queries: Queries) -> np.ndarray:
    """Return the standard deviations of targets around predictions: (q,), or (q, T) for wide data."""
    return _by_row(queries, model.uncertainty_.compute().scales)


def prediction_intervals(model: Any, queries: Queries, coverage: float) -> np.ndarray:
    """Return lower and upper ends of intervals: (q, 2), or (q, T, 2) for wide data."""
    if not isinstance(coverage, Real) or not 0.0 < coverage < 1.0:
        raise ValueError(f"coverage must be a number between 0 and 1, got {coverage!r}")
    values = function_values(model, queries)[..., 0]
    half = _by_row(queries, model.uncertainty_.compute().quantiles(coverage))
    return np.stack([values - half, values + half], axis=-1)


def _by_row(queries: Queries, of_task: np.ndarray) -> np.ndarray:
    """Expand numbers per task (T + 1,), the last for new tasks, to rows: (q,), or (q, T) for wide data."""
    if queries.codes is None:
        return np.repeat(of_task[np.newaxis, :-1], len(queries.X), axis=0)
    return of_task[queries.codes]
