"""How alike the inputs of tasks are: a Gaussian kernel between their distributions.

The inputs of a task stand for their distribution by the mean of their feature vectors in the space of a kernel. Tasks
whose means are close see inputs of one kind, and may be expected to need one function (Blanchard, Lee and Scott, 2011).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..data import TaskData
from .families import gaussian_kernels

# Rows of a block of the kernel matrix.
_BLOCK = 512
# Squared distances below this share of the squared lengths are rounding.
_ROUNDING = 1e-10


def input_similarity(data: TaskData) -> np.ndarray:
    """(T, T) positive semi-definite, 1 on the diagonal; the typical pair of tasks has exp(-1/2)."""
    means = _mean_products(data)
    lengths = np.diag(means)
    distances = lengths[:, np.newaxis] + lengths - 2.0 * means
    apart = distances[np.triu_indices(data.n_tasks, 1)]
    typical = float(np.median(apart)) if len(apart) else 0.0
    if typical <= _ROUNDING * lengths.mean():
        return np.ones_like(means)
    np.fill_diagonal(distances, 0.0)
    return np.exp(-0.5 * np.maximum(distances, 0.0) / typical)


def _mean_products(data: TaskData) -> np.ndarray:
    """(T, T) products of the tasks' mean feature vectors: the mean of the kernel over pairs of their rows."""
    used = np.unique(np.concatenate(data.rows))
    shares = np.zeros((len(used), data.n_tasks))
    for t, rows in enumerate(data.rows):
        weight = data.sample_weight[rows]
        shares[np.searchsorted(used, rows), t] = weight / weight.sum()
    kernel = _kernel(data, used)
    products = np.zeros((data.n_tasks, data.n_tasks))
    for begin in range(0, len(used), _BLOCK):
        block = slice(begin, begin + _BLOCK)
        products += shares[block].T @ (kernel(block) @ shares)
    return 0.5 * (products + products.T)


def _kernel(data: TaskData, used: np.ndarray) -> Callable[[slice], np.ndarray]:
    """Blocks of rows of the kernel matrix of the rows `used`: a Gaussian, or the average of given Grams."""
    if data.X.ndim == 3:
        scales = np.einsum("iik->ik", data.X)[used].mean(axis=0)
        return lambda block: (data.X[used[block]][:, used] / np.maximum(scales, np.finfo(float).tiny)).mean(axis=2)
    X = data.X[used]
    gaussian = gaussian_kernels((1.0,))[0].fit(X, data.feature_names, data.sample_weight[used])
    return lambda block: gaussian(X[block], X)
