"""How alike tasks on the same rows are, by their targets."""

from __future__ import annotations

import numpy as np

from ...data import TaskData
from ...decompositions import eigh
from ...kernels.profiles import profile_kernel

# A correlation of labels over n common rows counts n / (n + this).
_FEW_ROWS = 20


def target_similarity(data: TaskData) -> np.ndarray:
    """Return how alike the targets of tasks are over the rows that both have (T, T), positive semi-definite.

    Of numbers, the likeness of profiles (`profile_kernel`); of two classes, the correlation of labels.
    """
    coded = [np.unique(y, return_inverse=True) for y in data.y]
    is_binary = all(len(classes) <= 2 for classes, _ in coded)
    if data.form != "wide" or not (is_binary or all(y.dtype.kind == "f" for y in data.y)):
        raise ValueError(
            "coupling 'targets' compares the targets of tasks row by row: it is for wide data (y with a column for "
            "each task) of numbers or of two classes"
        )
    table = np.full((len(data.X), data.n_tasks), np.nan)
    for t, (rows, y) in enumerate(zip(data.rows, data.y, strict=True)):
        table[rows, t] = coded[t][1] if is_binary else y
    return label_correlation(table) if is_binary else profile_kernel(table)


def label_correlation(table: np.ndarray) -> np.ndarray:
    """Return the correlations (T, T) of columns of zeros and ones (n, T), NaN where there is no label.

    Means of rows are kept, other than in `profile_kernel`: few labels of a row say little about its mean.
    """
    known = np.isfinite(table).astype(np.float64)
    filled = np.where(known > 0, table, 0.0)
    values = known * (filled - filled.sum(axis=0) / np.maximum(known.sum(axis=0), 1.0))
    squares = (values**2).T @ known
    spread = np.sqrt(squares * squares.T)
    count = known.T @ known
    kernel = np.divide(values.T @ values, spread, out=np.zeros_like(spread), where=spread > 0) * count
    kernel /= count + _FEW_ROWS
    np.fill_diagonal(kernel, 1.0)
    size, vectors = eigh(kernel)
    kernel = (vectors * np.maximum(size, 0.0)) @ vectors.T
    root = np.sqrt(np.diag(kernel))
    kernel = kernel / np.outer(root, root)
    kernel = 0.5 * (kernel + kernel.T)
    np.fill_diagonal(kernel, 1.0)
    return kernel
