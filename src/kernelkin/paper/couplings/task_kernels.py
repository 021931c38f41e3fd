"""Kernels between tasks, from a table of their features or as given, fitted on the tasks of training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...data import listing
from ...decompositions import inverse

# Widths of the Gaussian kernels on features, relative to the median distance of the training tasks.
FEATURE_WIDTHS = (0.5, 1.0)
# Strengths of the ridge that predicts the level of a new task, relative to a kernel of unit diagonal.
_RIDGES = np.logspace(-2, 2, 9)


@dataclass(frozen=True)
class Column:
    """How a column of a table becomes numbers: standardised, or an indicator for each category of training.

    Attributes
    ----------
    name : of the column, for messages.
    center, scale : of a column of numbers, by the training tasks.
    categories : of a column of categories; None for numbers.
    """

    name: str
    center: float = 0.0
    scale: float = 1.0
    categories: tuple[str, ...] | None = None

    @classmethod
    def fit(cls, name: str, values: np.ndarray) -> Column:
        """values (T,) of the training tasks."""
        if values.dtype.kind == "f":
            spread = float(values.std())
            return cls(name, float(values.mean()), spread if spread > 1e-12 * np.abs(values).max() else 1.0)
        return cls(name, categories=tuple(dict.fromkeys(values.tolist())))

    def encode(self, values: np.ndarray) -> np.ndarray:
        """values (q,) -> (q, 1) or (q, categories); a category that training did not have is none of them."""
        if self.categories is None:
            if values.dtype.kind != "f":
                raise ValueError(f"task_features: column {self.name!r} has text here, and numbers in training")
            return ((values - self.center) / self.scale)[:, np.newaxis]
        texts = values.astype(str)
        return (texts[:, np.newaxis] == np.array(self.categories)).astype(np.float64)


@dataclass(frozen=True)
class TaskTable:
    """Features of tasks by name, as they were given.

    Attributes
    ----------
    labels : (P,) tasks.
    names : of the columns.
    columns : arrays (P,) of float64, or of text.
    """

    labels: np.ndarray
    names: tuple[str, ...]
    columns: tuple[np.ndarray, ...]

    def take(self, tasks: np.ndarray) -> TaskTable:
        """Return some of the tasks."""
        at = positions("features", self.labels, tasks)
        return replace(self, labels=self.labels[at], columns=tuple(values[at] for values in self.columns))

    def kernels(self, name: str, tasks: np.ndarray) -> list[TaskKernel]:
        """Return Gaussian kernels of several widths between these tasks and the training tasks (T,)."""
        at = positions(name, self.labels, tasks)
        encoders = tuple(
            Column.fit(column, values[at]) for column, values in zip(self.names, self.columns, strict=True)
        )
        features = encode(encoders, self.columns)
        return [
            TaskKernel(f"{name}({width:g})", name, self.labels, np.empty(0), encoders, features[at], width).at(self)
            for width in FEATURE_WIDTHS
        ]


@dataclass(frozen=True)
class GivenTaskKernel:
    """A positive semi-definite matrix (P, P) between the tasks `labels` (P,)."""

    labels: np.ndarray
    matrix: np.ndarray

    def kernels(self, name: str, tasks: np.ndarray) -> list[TaskKernel]:
        """Return the kernel of unit diagonal between these tasks and the training tasks (T,)."""
        at = positions(name, self.labels, tasks)
        root = np.sqrt(np.diag(self.matrix))
        root = np.where(root > 0, root, 1.0)
        values = self.matrix / root / root[:, np.newaxis]
        return [TaskKernel(name, name, self.labels, values[:, at])]


@dataclass(frozen=True)
class TaskKernel:
    """Values of a kernel of unit diagonal between tasks with features and the T tasks of training.

    Attributes
    ----------
    name : of the coupling it makes.
    source : the name of the table or kernel that it was made from.
    labels : (P,) the tasks that have features.
    values : (P, T)
    encoders : from columns of a table to numbers; empty where the kernel was given.
    features : (T, d) those of the training tasks.
    width : of the Gaussian kernel, relative to the median distance of the training tasks.
    """

    name: str
    source: str
    labels: np.ndarray
    values: np.ndarray
    encoders: tuple[Column, ...] = ()
    features: np.ndarray | None = None
    width: float = 1.0

    def matrix(self, tasks: np.ndarray) -> np.ndarray:
        """The values (T, T) between the tasks of training."""
        return self.values[positions(self.name, self.labels, tasks)]

    def take(self, tasks: np.ndarray) -> TaskKernel:
        """Return the kernel at some of the tasks that have features."""
        at = positions(self.name, self.labels, tasks)
        return replace(self, labels=self.labels[at], values=self.values[at])

    def at(self, table: TaskTable) -> TaskKernel:
        """Return the kernel between the tasks of another table and those of training."""
        if self.features is None:
            raise ValueError(
                f"task_features: {self.source!r} is a kernel between tasks, and new tasks need their values in it: "
                "give the whole kernel to the estimator before the fit"
            )
        names = tuple(encoder.name for encoder in self.encoders)
        if table.names != names:
            raise ValueError(
                f"task_features: {self.source!r} has the columns {listing(table.names)} here, and {listing(names)} in "
                "training"
            )
        features = encode(self.encoders, table.columns)
        unit = median_distance(self.features) * self.width
        values = np.exp(-0.5 * squared_distances(features, self.features) / unit**2)
        return replace(self, labels=table.labels, values=values)


def encode(encoders: Sequence[Column], columns: Sequence[np.ndarray]) -> np.ndarray:
    """Columns (P,) -> features (P, d)."""
    return np.hstack([encoder.encode(values) for encoder, values in zip(encoders, columns, strict=True)])


def positions(name: str, labels: np.ndarray, tasks: np.ndarray) -> np.ndarray:
    """Return where tasks are among the labels of features; a task that has none is named."""
    index = {label: i for i, label in enumerate(labels.tolist())}
    without = [task for task in tasks.tolist() if task not in index]
    if without:
        raise ValueError(f"task_features: {name!r} has no row for task {listing(without)}")
    return np.array([index[task] for task in tasks.tolist()], dtype=np.intp)


def squared_distances(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A (p, d), B (q, d) -> (p, q)."""
    return np.sum((A[:, np.newaxis] - B) ** 2, axis=2)


def median_distance(features: np.ndarray) -> float:
    """Return the median distance of different tasks with different features (T, d); 1 where all are the same."""
    distances = squared_distances(features, features)
    apart = distances[distances > 1e-12]
    return float(np.sqrt(np.median(apart))) if len(apart) else 1.0


def level_weights(known: np.ndarray, new: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return the weights (q, T) with which the levels (T, m) of the training tasks predict those of new tasks.

    Kernel ridge regression around the mean level, on kernel values `known` (T, T) among the training tasks and `new`
    (q, T); its strength, or the mean alone, is chosen by the leave-one-out error over tasks.
    """
    T, mean = len(known), levels.mean(axis=0)
    centred = levels - mean
    # The mean of the others is what a left-out task has without features.
    best, error = np.zeros((len(new), T)), float(np.sum((centred * T / max(T - 1, 1)) ** 2))
    for ridge in _RIDGES:
        inverted = inverse(known + ridge * np.eye(T))
        left_out = float(np.sum((inverted @ centred / np.diag(inverted)[:, np.newaxis]) ** 2))
        if left_out < error:
            best, error = new @ inverted, left_out
    return (1.0 - best.sum(axis=1, keepdims=True)) / T + best
