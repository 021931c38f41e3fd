"""Scores of held-out values: of each task, then averaged over tasks."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import get_scorer

from ...data import Fold, TaskData
from ...uncertainty import fit_link
from ..fitting.targets import classes_of_outputs

# Labels, predictions or decision values, and weights of held-out rows.
Prediction = tuple[np.ndarray, np.ndarray, np.ndarray]


def r2(y: np.ndarray, prediction: np.ndarray, weight: np.ndarray) -> float:
    """R^2; NaN for a single row, and where the targets are all the same."""
    spread = weight @ (y - weight @ y / weight.sum()) ** 2
    return float(1.0 - weight @ (y - prediction) ** 2 / spread) if spread > 0 else float("nan")


def roc_auc(y: np.ndarray, values: np.ndarray, weight: np.ndarray) -> float:
    """The share of pairs of a positive and a negative that are in order, ties counting half; NaN without pairs."""
    _, place = np.unique(values, return_inverse=True)
    positive = np.bincount(place, weight * y)
    negative = np.bincount(place, weight * ~y)
    pairs = positive.sum() * negative.sum()
    return float(positive @ (np.cumsum(negative) - 0.5 * negative) / pairs) if pairs > 0 else float("nan")


@dataclass(frozen=True)
class Metric:
    """A score of one task: function(y, prediction or values, weight), the larger the better.

    Attributes
    ----------
    function : the score.
    ranks : whether it scores decision values; of a task of two classes it is then given y as True for the second class.
    rows : where the score is a mean over rows, what each row has in it: rows(y, prediction).
    probabilities : whether it scores probabilities (q, classes); y are then positions among the task's classes.
    """

    function: Callable[[np.ndarray, np.ndarray, np.ndarray], float]
    ranks: bool = False
    rows: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    probabilities: bool = False

    @classmethod
    def of_rows(cls, rows: Callable[[np.ndarray, np.ndarray], np.ndarray], *, probabilities: bool = False) -> Metric:
        """Make a metric that is a mean over rows."""

        def mean(y: np.ndarray, predicted: np.ndarray, weight: np.ndarray) -> float:
            return float(weight @ rows(y, predicted) / weight.sum())

        return cls(mean, rows=rows, probabilities=probabilities)


def log_likelihood(codes: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Return the logarithm of the probability (q,) of each row's class; of one that is not known, that of rounding."""
    found = np.where(codes < p.shape[1], p[np.arange(len(p)), np.minimum(codes, p.shape[1] - 1)], 0.0)
    return np.log(np.clip(found, np.finfo(float).eps, 1.0))


def neg_brier(codes: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Return minus the squared error (q,) of the probabilities, of two classes that of the second one."""
    errors = (p - (codes[:, np.newaxis] == np.arange(p.shape[1]))) ** 2
    return -errors[:, 1] if p.shape[1] == 2 else -errors.sum(axis=1)


# What the paper's experiments use, without the cost of checks made thousands of times; scikit-learn has the others.
METRICS = {
    "accuracy": Metric.of_rows(lambda y, prediction: y == prediction),
    "r2": Metric(r2),
    "neg_mean_squared_error": Metric.of_rows(lambda y, prediction: -((y - prediction) ** 2)),
    "roc_auc": Metric(roc_auc, ranks=True),
    "neg_log_loss": Metric.of_rows(log_likelihood, probabilities=True),
    "neg_brier_score": Metric.of_rows(neg_brier, probabilities=True),
}


def read_scoring(scoring: Any, *, classification: bool) -> Metric:
    """What a user passes as `scoring` -> a metric."""
    if scoring is None:
        return METRICS["accuracy" if classification else "r2"]
    if isinstance(scoring, str):
        metric = METRICS[scoring] if scoring in METRICS else _from_scorer(scoring)
        if metric.probabilities and not classification:
            raise ValueError(f"scoring={scoring!r} is a score of probabilities, for classifiers")
        return metric
    if not callable(scoring):
        raise ValueError(f"scoring must be None, a name or a callable, got {type(scoring).__name__}")
    return Metric(lambda y, values, weight: float(scoring(y, values)), ranks=classification)


def _from_scorer(name: str) -> Metric:
    scorer = get_scorer(name)
    method = scorer._response_method
    ranks = "decision_function" in method if isinstance(method, tuple | list) else method == "decision_function"
    if not ranks and method != "predict":
        known = " and ".join(name for name, metric in METRICS.items() if metric.probabilities)
        raise ValueError(f"scoring={name!r} needs {method}: of the scores of probabilities, searches have {known}")
    weighted = "sample_weight" in inspect.signature(scorer._score_func).parameters

    def function(y: np.ndarray, values: np.ndarray, weight: np.ndarray) -> float:
        extra = {"sample_weight": weight} if weighted else {}
        return float(scorer._sign * scorer._score_func(y, values, **extra, **scorer._kwargs))

    return Metric(function, ranks=ranks)


def jackknife_error(without: np.ndarray) -> float:
    """Return the jackknife's standard error from the scores (k,) without each of k folds."""
    k = len(without)
    return float(np.sqrt((k - 1) / k * ((without - without.mean()) ** 2).sum()))


class Scorer:
    """Scores candidates from their values at the held-out rows of each fold.

    A task's held-out values are pooled over the folds before they are scored: a fold may hold a handful of its rows,
    and no positive ones, so that a score of the fold alone would be undefined (AUC) or wild (R^2).
    """

    def __init__(self, data: TaskData, folds: Sequence[Fold], metric: Metric, *, classification: bool) -> None:
        self.metric = metric
        self.n_folds = k = len(folds)
        # Folds that are scored together: all, each alone, all but each.
        self._together = np.vstack([np.ones(k), np.eye(k), 1.0 - np.eye(k)]).astype(bool)
        weights = [data.sample_weight[rows] for rows in data.rows]
        known = tuple(np.unique(y) for y in data.y) if classification else None
        self._held = [
            [_HeldRows(y[fold.held[t]], weight[fold.held[t]], y[fold.kept[t]], known) for fold in folds]
            for t, (y, weight) in enumerate(zip(data.y, weights, strict=True))
        ]

    def score(self, outputs: Sequence[Sequence[np.ndarray]]) -> tuple[float, float, np.ndarray]:
        """outputs: for each fold and task, values (q_t, m) -> the score, its standard error, the score of each fold.

        The score is the mean over tasks where it is defined; the standard error is the jackknife's over folds, which
        is the usual one of a mean of equal folds where the score is a mean over rows.
        """
        scores = self._scores(outputs, self._together)
        defined = np.isfinite(scores)
        count = defined.sum(axis=1)
        means = np.where(defined, scores, 0.0).sum(axis=1) / np.where(count > 0, count, np.nan)
        k = self.n_folds
        return float(means[0]), jackknife_error(means[k + 1 :]), means[1 : k + 1]

    def score_tasks(self, outputs: Sequence[Sequence[np.ndarray]]) -> np.ndarray:
        """outputs as for `score` -> the score of each task (T,) over all folds; NaN where it is not defined."""
        return self._scores(outputs, self._together[:1])[0]

    def _scores(self, outputs: Sequence[Sequence[np.ndarray]], together: np.ndarray) -> np.ndarray:
        """Return scores (s, T) of sets of folds that are scored together, s rows of `together` (s, k)."""
        if self.metric.probabilities:
            outputs = self._probabilities(outputs)
        parts = [
            [held.predict(fold[t], self.metric) for held, fold in zip(task, outputs, strict=True)]
            for t, task in enumerate(self._held)
        ]
        return (self._score_rows if self.metric.rows is not None else self._score_pooled)(parts, together)

    def _probabilities(self, outputs: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
        """Turn the values of each fold and task into probabilities, by a link fitted to the values of the other folds.

        A single fold has its own link, which is the best one for it.
        """
        codes = [
            [held.codes(fold[t].shape[1]) for held, fold in zip(task, outputs, strict=True)]
            for t, task in enumerate(self._held)
        ]
        found = []
        for f in range(self.n_folds):
            others = [g for g in range(self.n_folds) if g != f] or [f]
            link = fit_link(
                [np.concatenate([outputs[g][t] for g in others]) for t in range(len(codes))],
                [np.concatenate([task[g] for g in others]) for task in codes],
                [np.concatenate([task[g].weight for g in others]) for task in self._held],
            )
            found.append([link.probabilities(values, t) for t, values in enumerate(outputs[f])])
        return found

    def _score_rows(self, parts: Sequence[Sequence[Prediction]], together: np.ndarray) -> np.ndarray:
        """Return the scores where a score is a mean over rows."""
        rows = self.metric.rows
        assert rows is not None
        sums = np.array([[weight @ rows(y, predicted) for y, predicted, weight in task] for task in parts])
        total = np.array([[weight.sum() for _, _, weight in task] for task in parts]) @ together.T
        return (sums @ together.T / np.where(total > 0, total, np.nan)).T

    def _score_pooled(self, parts: Sequence[Sequence[Prediction]], together: np.ndarray) -> np.ndarray:
        """Return the same for any score."""
        with warnings.catch_warnings():
            warnings.simplefilter("error", UndefinedMetricWarning)
            return np.array([[self._score_task(list(compress(task, folds))) for task in parts] for folds in together])

    def _score_task(self, parts: Sequence[Prediction]) -> float:
        y, values, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
        if not len(y) or (self.metric.ranks and (y == y[0]).all()):
            return float("nan")
        try:
            return self.metric.function(y, values, weight)
        except UndefinedMetricWarning:
            return float("nan")


@dataclass(frozen=True)
class _HeldRows:
    """Held-out rows of one task in one fold: labels, weights, training labels, and the classes of all tasks."""

    y: np.ndarray
    weight: np.ndarray
    y_train: np.ndarray
    every: tuple[np.ndarray, ...] | None

    def codes(self, n_outputs: int) -> np.ndarray:
        """Positions (q,) of the labels among the classes; one past the last for a class that training did not have."""
        classes = self.classes(n_outputs)
        place = np.searchsorted(classes, self.y)
        known = classes[np.minimum(place, len(classes) - 1)] == self.y
        return np.where(known, place, len(classes))

    def classes(self, n_outputs: int) -> np.ndarray:
        """The classes that a function of so many outputs is about."""
        assert self.every is not None
        return classes_of_outputs(self.y_train, self.every, n_outputs)

    def predict(self, values: np.ndarray, metric: Metric) -> Prediction:
        """values (q, m) -> labels, what the metric scores (predictions, decision values or probabilities), weights."""
        if self.every is None:
            return self.y, values[:, 0], self.weight
        if metric.probabilities:
            # Two classes have one output and two probabilities.
            return self.codes(values.shape[1]), values, self.weight
        classes = self.classes(values.shape[1])
        binary = len(classes) == 2
        if metric.ranks:
            return (self.y == classes[1], values[:, 0], self.weight) if binary else (self.y, values, self.weight)
        best = (values[:, 0] > 0).astype(np.intp) if binary else values.argmax(axis=1)
        return self.y, classes[best], self.weight
