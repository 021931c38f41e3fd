"""Probabilities and intervals of fitted models, from held-out values of training rows, computed when first needed.

Probabilities use one link for all tasks, after a shift of the values of each task. Half the width of an interval is the
scale of its task (the root mean square of its held-out residuals, shrunk towards that of all tasks) times a quantile of
the scaled residuals of all tasks.
"""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any, Self

import numpy as np

from ..calibration import Link, Scores, fit_shifts, scale_prior, shrunk_scales
from ..data.arrays import listing
from ..data.folds import Fold, make_folds
from ..data.forms import Queries, TaskData
from ..engines.threads import SingleThreadedBLAS
from ..estimators import spread_classes
from .functions import function_values

# Number of folds of rows within tasks, and a fixed seed for reproducible results.
N_FOLDS, SEED = 5, 0


class Uncertainty:
    """Held-out values of a model, and the link or the scores of residuals that are fitted to them.

    The model is fitted again without each of five folds of the rows of every task. Parameters are the same, but kernels
    and weights are learned again, by `specification.plan(data).run(options)`. All of this happens when it is first
    needed, or by `compute`. Until then a pickle contains the training data; later neither data nor held-out values.
    """

    link: Link  # of a classifier
    shifts: np.ndarray  # (T,) what is added to the values of each task before the link
    scales: np.ndarray  # (T,) scales of the residuals of each task, for a regressor
    scores: Scores  # residuals of all tasks, divided by the scales

    def __init__(self, specification: Any, data: TaskData, options: Any, *, classification: bool) -> None:
        self.specification, self.classification = specification, classification
        self.data: TaskData | None = data
        self.options = options._replace(verbose=0, callback=None)
        self._held: tuple[list[np.ndarray], TaskData] | None = None

    def held_out(self) -> tuple[list[np.ndarray], TaskData] | None:
        """Return the held-out values (n_t, m_t) and the training data; None for a loaded model."""
        return self.compute()._held

    def compute(self) -> Self:
        """Fit the link or the scores, if this was not done before."""
        if self.data is None:
            return self
        data, classification = self.data, self.classification
        with SingleThreadedBLAS(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values, classes = held_out_values(self.specification, data, self.options, classification=classification)
        if classification:
            codes = [np.searchsorted(known, y) for known, y in zip(classes, data.y, strict=True)]
            weights = [data.sample_weight[rows] for rows in data.rows]
            self.link, self.shifts = fit_shifts(values, codes, weights)
        else:
            self._fit_scores([y - part[:, 0] for y, part in zip(data.y, values, strict=True)], data)
        self._held = values, data
        self.specification = self.data = self.options = None
        return self

    def _fit_scores(self, residuals: list[np.ndarray], data: TaskData) -> None:
        residuals = [part[np.isfinite(part)] for part in residuals]
        if not any(map(len, residuals)):
            # If nothing can be held out, targets are predicted by the mean of all targets.
            mean = np.concatenate(data.y).mean()
            residuals = [y - mean for y in data.y]
        n, found = np.array([len(part) for part in residuals]), np.concatenate(residuals)
        task = np.repeat(np.arange(len(n)), n)
        sums = np.bincount(task, found**2, len(n))
        squares = sums / np.maximum(n, 1)
        prior = scale_prior(squares, n)
        self.scales = shrunk_scales(squares, n, prior)
        # A score is the size of a residual in scales that are estimated without it, as for a row to predict.
        others = sums[task] - found**2
        others = np.where(others > 1e-12 * sums[task], others, 0.0) / np.maximum(n[task] - 1, 1)
        scores = np.abs(found) / shrunk_scales(others, n[task] - 1, prior)
        standard = found / self.scales[task]
        self.scores = Scores.of(scores[:, np.newaxis], standard[:, np.newaxis], np.ones(len(found)))

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
        for t, part in enumerate(fold_values(fitted, data, fold)):
            if values[t].shape[1] != part.shape[1]:
                values[t] = np.full((len(data.y[t]), part.shape[1]), np.nan)
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


def class_probabilities(model: Any, queries: Queries) -> np.ndarray:
    """Return probabilities (q, n_classes), or (q, T, n_classes) for wide data; zero for classes a task lacks."""
    found, codes, values = model.uncertainty_.compute(), queries.codes, function_values(model, queries)
    T = len(found.shifts)
    # Tasks that were not in training have no shift.
    place = np.arange(T) if codes is None else np.where((codes >= 0) & (codes < T), codes, T)
    shifted = values + np.append(found.shifts, 0.0)[place][:, np.newaxis]
    return spread_classes(model, queries, shifted, 0.0, found.link.probabilities)


def prediction_deviations(model: Any, queries: Queries, coverage: float | None = None) -> np.ndarray:
    """Return standard deviations of targets around predictions: (q,), or (q, T) for wide data.

    With a coverage, return half the widths of intervals.
    """
    codes, labels = queries.codes, queries.labels
    if codes is not None and labels is not None and (codes < 0).any():
        raise ValueError(
            f"{type(model).__name__} has no intervals and no standard deviations for tasks that were not in training: "
            f"{listing(np.unique(labels[codes < 0]))}. Use KinRegressor, whose intervals include the variation between "
            "tasks"
        )
    found = model.uncertainty_.compute()
    of_task = found.scales * (found.scores.scale if coverage is None else found.scores.quantile(coverage))
    return np.tile(of_task, (len(queries.X), 1)) if codes is None else of_task[codes]


def prediction_intervals(model: Any, queries: Queries, coverage: float) -> np.ndarray:
    """Return lower and upper ends of intervals: (q, 2), or (q, T, 2) for wide data."""
    if not isinstance(coverage, Real) or not 0.0 < coverage < 1.0:
        raise ValueError(f"coverage must be a number between 0 and 1, got {coverage!r}")
    half, values = prediction_deviations(model, queries, coverage), function_values(model, queries)[..., 0]
    return np.stack([values - half, values + half], axis=-1)
