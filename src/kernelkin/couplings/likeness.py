"""How alike tasks are, judged by some of their rows: by their inputs, or by the functions that fit their targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..data import TaskData
from ..decompositions import eigh, inverse
from ..kernels.distances import squared_distances

# Rows of all tasks together that are looked at, and of one task at least.
MAX_ROWS, LEAST_ROWS = 800, 4
# Widths of the Gaussian kernel, relative to the median distance, and ridges, of which the best pair is used.
_WIDTHS, _RIDGES = (0.5, 1.0, 2.0, 4.0), np.logspace(-2, 2, 9)

Parts = Sequence[np.ndarray]


class Likeness(Protocol):
    """Judges how alike tasks are."""

    def distances(self, parts: Parts) -> np.ndarray:
        """Positions within each task's rows -> squared distances of tasks (T, T); those of noise alone may differ."""
        ...


@dataclass(frozen=True)
class Sample:
    """Rows of all tasks, thinned.

    Attributes
    ----------
    distances : (n, n) squared distances of the rows; or a kernel matrix where Gram matrices are precomputed.
    is_kernel : which of both.
    rows : for each task its rows among the n.
    y : for each task its targets (n_t, m): numbers, or classes as indicators.
    """

    distances: np.ndarray
    is_kernel: bool
    rows: tuple[np.ndarray, ...]
    y: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, data: TaskData, rng: np.random.Generator) -> Sample:
        limit = max(LEAST_ROWS, MAX_ROWS // data.n_tasks)
        kept = [
            np.arange(len(rows)) if len(rows) <= limit else np.sort(rng.choice(len(rows), limit, replace=False))
            for rows in data.rows
        ]
        used = np.unique(np.concatenate([rows[part] for rows, part in zip(data.rows, kept, strict=True)]))
        rows = tuple(np.searchsorted(used, rows[part]) for rows, part in zip(data.rows, kept, strict=True))
        y = tuple(numbers[part] for numbers, part in zip(_targets(data), kept, strict=True))
        if data.X.ndim == 3:
            stack = data.X[np.ix_(used, used)]
            scale = np.einsum("iik->k", stack) / len(used)
            return cls((stack / np.where(scale > 0, scale, 1.0)).mean(axis=2), True, rows, y)
        X = np.asarray(data.X[used], dtype=np.float64)
        scale = X.std(axis=0)
        X = (X - X.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
        distances = np.empty((len(X), len(X)))
        squared_distances(X, None, distances)
        return cls(distances, False, rows, y)

    @property
    def every(self) -> list[np.ndarray]:
        """All positions within each task's rows."""
        return [np.arange(len(rows)) for rows in self.rows]

    def kernel(self, width: float) -> np.ndarray:
        """(n, n) the Gaussian kernel of a width relative to the median distance, or the given one."""
        if self.is_kernel:
            return self.distances
        apart = self.distances[np.triu_indices(len(self.distances), 1)]
        unit = float(np.median(apart)) or 1.0
        return np.exp(-0.5 * self.distances / (unit * width**2))


@dataclass(frozen=True)
class InputLikeness:
    """Distances of the mean feature vectors of tasks, unbiased: tasks with few rows are not farther from all others."""

    kernel: np.ndarray
    rows: tuple[np.ndarray, ...]

    def distances(self, parts: Parts) -> np.ndarray:
        shares = np.zeros((len(self.kernel), len(parts)))
        own = np.empty(len(parts))
        for t, (rows, part) in enumerate(zip(self.rows, parts, strict=True)):
            used = rows[part]
            shares[used, t] = 1.0 / max(len(used), 1)
            block = self.kernel[np.ix_(used, used)]
            pairs = len(used) * (len(used) - 1)
            own[t] = (block.sum() - np.trace(block)) / pairs if pairs else np.nan
        own = np.where(np.isnan(own), np.nanmean(own) if np.isfinite(own).any() else 1.0, own)
        found = own[:, np.newaxis] + own - 2.0 * shares.T @ (self.kernel @ shares)
        np.fill_diagonal(found, 0.0)
        return np.maximum(found, 0.0)


@dataclass(frozen=True)
class FunctionLikeness:
    """1 minus the correlations of the functions of tasks over all rows; at its own rows a function is out of fold."""

    kernel: np.ndarray
    rows: tuple[np.ndarray, ...]
    y: tuple[np.ndarray, ...]
    ridge: float

    @classmethod
    def of(cls, sample: Sample) -> FunctionLikeness:
        """Choose the width of the kernel and the ridge by the leave-one-out error of all tasks' functions."""
        best, least = None, np.inf
        for width in _WIDTHS[:1] if sample.is_kernel else _WIDTHS:
            kernel = sample.kernel(width)
            pairs = zip(sample.rows, sample.y, strict=True)
            errors = np.sum([_left_out_errors(kernel, rows, y) for rows, y in pairs], axis=0)
            position = int(np.argmin(errors))
            if best is None or errors[position] < least:
                best, least = (kernel, float(_RIDGES[position])), float(errors[position])
        assert best is not None
        return cls(best[0], sample.rows, sample.y, best[1])

    def distances(self, parts: Parts) -> np.ndarray:
        values = self._standard_values(parts)
        found = 1.0 - values.T @ values
        np.fill_diagonal(found, 0.0)
        return np.maximum(found, 0.0)

    def correlations(self, first: Parts, second: Parts) -> np.ndarray:
        """(T, T) correlations of functions fitted to some rows with functions fitted to others."""
        return self._standard_values(first).T @ self._standard_values(second)

    def _standard_values(self, parts: Parts) -> np.ndarray:
        """Functions of the tasks at all rows (n m, T), of mean zero and length one; zero where they are constant."""
        columns = [
            self._function(rows[part], y[part]).ravel() for rows, y, part in zip(self.rows, self.y, parts, strict=True)
        ]
        values = np.column_stack(columns)
        values -= values.mean(axis=0)
        lengths = np.linalg.norm(values, axis=0)
        return values / np.where(lengths > 0, lengths, 1.0)

    def _function(self, rows: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Kernel ridge regression of y (n_t, m) at all rows (n, m); at its own rows, without the row itself."""
        if not len(rows):
            return np.zeros((len(self.kernel), y.shape[1]))
        centred = y - y.mean(axis=0)
        inverted = inverse(self.kernel[np.ix_(rows, rows)] + self.ridge * np.eye(len(rows)))
        a = inverted @ centred
        values = self.kernel[:, rows] @ a
        values[rows] = centred - a / np.diag(inverted)[:, np.newaxis]
        return values


def _left_out_errors(kernel: np.ndarray, rows: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The sum of squared leave-one-out errors for each ridge."""
    if len(rows) < 2:
        return np.zeros(len(_RIDGES))
    values, vectors = eigh(kernel[np.ix_(rows, rows)])
    rotated = vectors.T @ (y - y.mean(axis=0))
    errors = []
    for ridge in _RIDGES:
        shrunk = 1.0 / (np.maximum(values, 0.0) + ridge)
        diagonal = (vectors**2) @ shrunk
        errors.append(np.sum((vectors @ (shrunk[:, np.newaxis] * rotated) / diagonal[:, np.newaxis]) ** 2))
    return np.array(errors)


def _targets(data: TaskData) -> list[np.ndarray]:
    """Targets (n_t, m) of each task: numbers in standard deviations, or indicators of all classes of the data."""
    if all(y.dtype.kind == "f" for y in data.y):
        return [((y - y.mean()) / (y.std() or 1.0))[:, np.newaxis] if len(y) else y[:, np.newaxis] for y in data.y]
    classes = np.unique(np.concatenate(data.y))
    wanted = classes if len(classes) > 2 else classes[1:]
    return [(y[:, np.newaxis] == wanted).astype(np.float64) for y in data.y]
