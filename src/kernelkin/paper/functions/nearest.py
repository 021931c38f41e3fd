"""Which task of training a new task is most like, by its inputs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...data import TaskData
from ...kernels import median_distance, squared_distances

# Rows of all tasks that are kept, and of each task at least.
MAX_ROWS, LEAST_ROWS = 2000, 5


@dataclass(frozen=True)
class InputIndex:
    """The inputs of the tasks, as mean feature vectors in the space of a Gaussian kernel, or of given Gram matrices.

    Attributes
    ----------
    rows : (s, d) some rows of each task in standard units; None where Gram matrices are precomputed.
    weights : (s, T) the share of each row in the mean of each task.
    lengths : (T,) squared lengths of the means.
    center, scale : (d,) from columns to standard units; (K,) of scale where Gram matrices are precomputed.
    unit : the width of the kernel.
    """

    rows: np.ndarray | None
    weights: np.ndarray
    lengths: np.ndarray
    center: np.ndarray
    scale: np.ndarray
    unit: float = 1.0

    @classmethod
    def of(cls, data: TaskData) -> InputIndex:
        """Index the training rows of data in long form."""
        limit = max(LEAST_ROWS, MAX_ROWS // data.n_tasks)
        kept = [rows[:: -(-len(rows) // limit)] for rows in data.rows]
        used = np.concatenate(kept)
        weights = np.zeros((len(used), data.n_tasks))
        ends = np.cumsum([len(rows) for rows in kept])
        for t, (end, rows) in enumerate(zip(ends, kept, strict=True)):
            weights[end - len(rows) : end, t] = 1.0 / len(rows)
        if data.X.ndim == 3:
            scale = np.maximum(np.einsum("iik->k", data.X) / len(data.X), np.finfo(float).tiny)
            kernel = (data.X[np.ix_(used, used)] / scale).mean(axis=2)
            spread = np.zeros((len(data.X), data.n_tasks))
            np.add.at(spread, used, weights)
            return cls(None, spread, _lengths(kernel, weights), np.zeros(0), scale)
        X = np.asarray(data.X[used], dtype=np.float64)
        center, scale = X.mean(axis=0), X.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        X = (X - center) / scale
        index = cls(X, weights, np.zeros(data.n_tasks), center, scale, median_distance(X))
        return replace(index, lengths=_lengths(index._kernel(X), weights))

    def nearest(self, X: np.ndarray, besides: int | None = None) -> int:
        """The rows X (q, d), or precomputed (q, n, K), of a new task -> the position of the task that is most alike.

        `besides` is a task that does not count.
        """
        if self.rows is None:
            means = (X / self.scale).mean(axis=2).mean(axis=0)
        else:
            means = self._kernel((np.asarray(X, dtype=np.float64) - self.center) / self.scale).mean(axis=0)
        distances = self.lengths - 2.0 * means @ self.weights
        if besides is not None:
            distances[besides] = np.inf
        return int(np.argmin(distances))

    def _kernel(self, X: np.ndarray) -> np.ndarray:
        """X (q, d) in standard units -> (q, s)."""
        assert self.rows is not None
        squares = np.empty((len(X), len(self.rows)))
        squared_distances(X, self.rows, squares)
        return np.exp(-0.5 * squares / self.unit**2)


def _lengths(kernel: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return np.einsum("st,st->t", weights, kernel @ weights)
