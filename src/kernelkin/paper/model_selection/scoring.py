"""Scores of candidates on held-out rows: the mean over tasks, or pooled over the rows of all tasks."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import get_scorer

from ...calibration import Link, scale_prior, shrunk_scales
from ...data.folds import Fold
from ...data.forms import TaskData
from ..fitting.targets import classes_of_outputs

# For each fold and task, values (q_t, m) at the held-out rows.
Outputs = Sequence[Sequence[np.ndarray]]


def r2(y: np.ndarray, prediction: np.ndarray, weight: np.ndarray) -> float:
    """Return R^2; NaN if all targets are equal."""
    variance = _variance(y, weight)
    return float(1.0 - np.average((y - prediction) ** 2, weights=weight) / variance) if variance > 0 else float("nan")


def _variance(y: np.ndarray, weight: np.ndarray) -> float:
    """Return the variance of targets; exactly zero if all are equal."""
    y = y - y[0]  # the mean of equal numbers may differ from them by rounding
    return float(np.average((y - np.average(y, weights=weight)) ** 2, weights=weight))


def roc_auc(y: np.ndarray, values: np.ndarray, weight: np.ndarray) -> float:
    """Return the area under the ROC curve; NaN if all rows have the same class."""
    _, place = np.unique(values, return_inverse=True)
    positive = np.bincount(place, weight * y)
    negative = np.bincount(place, weight * ~y)
    pairs = positive.sum() * negative.sum()
    return float(positive @ (np.cumsum(negative) - 0.5 * negative) / pairs) if pairs > 0 else float("nan")


def _log_likelihood(codes: np.ndarray, p: np.ndarray, weight: np.ndarray) -> float:
    """Return the mean log probability of each row's class; unknown classes have machine epsilon."""
    found = np.where(codes < p.shape[1], p[np.arange(len(p)), np.minimum(codes, p.shape[1] - 1)], 0.0)
    return float(np.average(np.log(np.clip(found, np.finfo(float).eps, 1.0)), weights=weight))


def _neg_brier(codes: np.ndarray, p: np.ndarray, weight: np.ndarray) -> float:
    """Return the negative squared error of the probabilities; for two classes, of the second one only."""
    errors = (p - (codes[:, np.newaxis] == np.arange(p.shape[1]))) ** 2
    return -float(np.average(errors[:, 1] if p.shape[1] == 2 else errors.sum(axis=1), weights=weight))


class Metric(NamedTuple):
    """A score of one task, function(y, prediction or values, weight); larger is better."""

    function: Callable[[np.ndarray, np.ndarray, np.ndarray], float]  # the score
    ranks: bool = False  # whether it scores decision values; with two classes, y is then True for the second class
    # Whether it scores probabilities (q, classes); y are then positions among the task's classes.
    probabilities: bool = False


# Common metrics, without the overhead of scikit-learn's input checks; other metrics use scikit-learn.
METRICS = {
    "accuracy": Metric(lambda y, prediction, weight: float(np.average(y == prediction, weights=weight))),
    "r2": Metric(r2),
    "neg_mean_squared_error": Metric(lambda y, s, weight: -float(np.average((y - s) ** 2, weights=weight))),
    "roc_auc": Metric(roc_auc, ranks=True),
    "neg_log_loss": Metric(_log_likelihood, probabilities=True),
    "neg_brier_score": Metric(_neg_brier, probabilities=True),
}


def read_scoring(scoring: Any, *, classification: bool) -> Metric:
    """Convert the parameter `scoring` to a metric."""
    if isinstance(scoring, str):
        metric = METRICS[scoring] if scoring in METRICS else _from_scorer(scoring)
        if metric.probabilities and not classification:
            raise ValueError(f"scoring={scoring!r} scores probabilities and is only for classifiers")
        return metric
    if not callable(scoring):
        raise ValueError(f"scoring must be a name or a callable, got {type(scoring).__name__}")
    return Metric(lambda y, values, weight: float(scoring(y, values)), ranks=classification)


def _from_scorer(name: str) -> Metric:
    scorer = get_scorer(name)
    method = scorer._response_method
    ranks = "decision_function" in method if isinstance(method, tuple | list) else method == "decision_function"
    if not ranks and method != "predict":
        known = " and ".join(name for name, metric in METRICS.items() if metric.probabilities)
        raise ValueError(f"scoring={name!r} needs {method}; searches support only {known} for probabilities")
    weighted = "sample_weight" in inspect.signature(scorer._score_func).parameters

    def function(y: np.ndarray, values: np.ndarray, weight: np.ndarray) -> float:
        extra = {"sample_weight": weight} if weighted else {}
        return float(scorer._sign * scorer._score_func(y, values, **extra, **scorer._kwargs))

    return Metric(function, ranks=ranks)


def jackknife_error(without: np.ndarray) -> float:
    """Return the jackknife standard error from the scores (k,) without each of k folds."""
    k = len(without)
    return float(np.sqrt((k - 1) / k * ((without - without.mean()) ** 2).sum()))


class BaseScorer:
    """Access to the held-out rows of folds."""

    def __init__(self, data: TaskData, folds: Sequence[Fold], *, classification: bool) -> None:
        self.data, self.folds = data, folds
        self.classes = [np.unique(y) for y in data.y] if classification else None
        # The training rows of a fold may lack a class of a task.
        self.known = [[np.unique(y[k]) for y, k in zip(data.y, f.kept, strict=True)] for f in folds if classification]

    def held_out(self, f: int, t: int, n_outputs: int) -> tuple[np.ndarray, np.ndarray, Any]:
        """Return targets and weights (q,) of a task's held-out rows in a fold; for classifiers, the task's classes."""
        fold, y, weight = self.folds[f], self.data.y[t], self.data.sample_weight[self.data.rows[t]]
        classes = None if self.classes is None else classes_of_outputs(self.known[f][t], self.known[f], n_outputs)
        return y[fold.held[t]], weight[fold.held[t]], classes


class Scorer(BaseScorer):
    """Score candidates by the mean of a metric over tasks.

    The held-out values of a task are pooled over the folds before they are scored, because a fold may have only a few
    rows of a task, for which scores are undefined (AUC) or unstable (R^2).
    """

    def __init__(self, data: TaskData, folds: Sequence[Fold], metric: Metric, *, classification: bool) -> None:
        super().__init__(data, folds, classification=classification)
        self.metric = metric

    def score(self, outputs: Outputs) -> tuple[float, float, np.ndarray]:
        """Return the score, its standard error, and the score of each fold.

        The score is the mean over tasks, without undefined scores. The standard error is a jackknife over folds.
        """
        k = len(self.folds)
        # Sets of folds to score: all folds, each fold alone, all but each fold.
        scores = self._scores(outputs, np.vstack([np.ones(k), np.eye(k), 1.0 - np.eye(k)]).astype(bool))
        defined = np.isfinite(scores)
        count = defined.sum(axis=1)
        means = np.where(defined, scores, 0.0).sum(axis=1) / np.where(count > 0, count, np.nan)
        return float(means[0]), jackknife_error(means[k + 1 :]), means[1 : k + 1]

    def _scores(self, outputs: Outputs, together: np.ndarray) -> np.ndarray:
        """Return scores (s, T) of the sets of folds in the rows of `together` (s, k)."""
        if self.metric.probabilities:
            outputs = self._probabilities(outputs)
        scores = np.empty((len(together), self.data.n_tasks))
        with warnings.catch_warnings():
            warnings.simplefilter("error", UndefinedMetricWarning)
            for t in range(self.data.n_tasks):
                parts = [self._part(f, t, values[t]) for f, values in enumerate(outputs)]
                y, values, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
                fold = np.repeat(np.arange(len(parts)), [len(part[0]) for part in parts])
                for s, used in enumerate(together):
                    rows = used[fold]
                    scores[s, t] = self._score(y[rows], values[rows], weight[rows])
        return scores

    def _score(self, y: np.ndarray, values: np.ndarray, weight: np.ndarray) -> float:
        if not len(y) or (self.metric.ranks and (y == y[0]).all()):
            return float("nan")
        try:
            return self.metric.function(y, values, weight)
        except UndefinedMetricWarning:
            return float("nan")

    def _part(self, f: int, t: int, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the labels, the predictions, decision values or probabilities, and the weights of a task."""
        y, weight, classes = self.held_out(f, t, values.shape[1])
        if self.classes is None:
            return y, values[:, 0], weight
        if values.shape[1] == 1:
            values = np.hstack([-values, values])
        if not self.metric.probabilities and not self.metric.ranks:
            return y, classes[values.argmax(axis=1)], weight
        # Classes that training rows lack have probability zero, or the lowest value.
        every = np.union1d(self.classes[t], classes)
        of_every = np.full((len(y), len(every)), 0.0 if self.metric.probabilities else -np.inf)
        of_every[:, np.searchsorted(every, classes)] = values
        if self.metric.probabilities:
            return _positions(y, every), of_every, weight
        return (y == every[1], of_every[:, 1], weight) if len(every) == 2 else (y, of_every, weight)

    def _probabilities(self, outputs: Outputs) -> list[list[np.ndarray]]:
        """Convert values to probabilities, with one link fitted to all of them."""
        values = [part for of_fold in outputs for part in of_fold]
        held = [self.held_out(f, t, v.shape[1]) for f, of_fold in enumerate(outputs) for t, v in enumerate(of_fold)]
        codes, weights = [_positions(y, classes) for y, _, classes in held], [weight for _, weight, _ in held]
        link = Link.of_tasks(values, codes, weights)
        return [[link.probabilities(part) for part in of_fold] for of_fold in outputs]


def _positions(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return positions (q,) of labels among the classes; labels that are not among them get one past the last."""
    place = np.searchsorted(classes, y)
    return np.where(classes[np.minimum(place, len(classes) - 1)] == y, place, len(classes))


class PooledScorer(BaseScorer):
    """Score candidates by errors pooled over the rows of all tasks: R^2, or the negative log loss.

    The mean of a score over tasks with few rows is very noisy. Pooled errors compare candidates much better: the
    squared error of targets divided by the standard deviation of their task, or the logistic loss of classes.
    """

    def __init__(self, data: TaskData, folds: Sequence[Fold], *, classification: bool) -> None:
        super().__init__(data, folds, classification=classification)
        self.spread = np.ones(data.n_tasks) if classification else target_spreads(data)

    def score(self, outputs: Outputs) -> tuple[float, float, np.ndarray]:
        """Return the score, its standard error (jackknife over folds), and the score of each fold."""
        parts = [self._gather(f, fold_outputs) for f, fold_outputs in enumerate(outputs)]
        level, k = 1.0 if self.classes is None else 0.0, len(parts)
        each = np.array([np.average(self._losses(*part), weights=part[2]) for part in parts])
        values, targets, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
        losses, fold = self._losses(values, targets, weights), np.repeat(np.arange(k), [len(part[0]) for part in parts])
        total, count = np.bincount(fold, weights * losses, k), np.bincount(fold, weights, k)
        error = jackknife_error((total.sum() - total) / np.maximum(count.sum() - count, 1e-300))
        return level - float(total.sum() / count.sum()), error, level - each

    def _losses(self, values: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> np.ndarray:
        if self.classes is None:
            return (targets - values) ** 2
        link = Link.fit([(values[:, np.newaxis], targets[:, np.newaxis] > 0, weights)])
        return np.logaddexp(0.0, -targets * (link.slope * values + link.offset))

    def _gather(self, f: int, outputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """Return flat arrays of values, coded targets and weights of the held-out rows of a fold."""
        columns = []
        for t, values in enumerate(outputs):
            y, weight, classes = self.held_out(f, t, values.shape[1])
            if classes is None or self.classes is None:
                coded = y / self.spread[t]
            else:
                if len(classes) == 2 < len(self.classes[t]):
                    # A held-out row may have neither class.
                    values = np.hstack([-values, values])
                coded = np.where(y[:, np.newaxis] == classes[-values.shape[1] :], 1.0, -1.0)
            columns.append(((values / self.spread[t]).ravel(), coded.ravel(), np.repeat(weight, values.shape[1])))
        return tuple(np.concatenate(column) for column in zip(*columns, strict=True))


def target_spreads(data: TaskData) -> np.ndarray:
    """Return the standard deviation (T,) of the targets of each task, shrunk towards that of a typical task."""
    variance = np.array([_variance(y, data.sample_weight[rows]) for rows, y in zip(data.rows, data.y, strict=True)])
    n = np.array([len(y) for y in data.y])
    return shrunk_scales(variance, n, scale_prior(variance, n))
