"""How alike tasks with two classes are, by their labels on rows that both have."""

import numpy as np

# A correlation of labels over n common rows counts n / (n + this).
_FEW_ROWS = 20


def label_correlation(table: np.ndarray) -> np.ndarray:
    """Return the correlations (T, T) of columns of zeros and ones (n, T), NaN where there is no label.

    They are shrunk where few rows are common, and made positive semi-definite. Means of rows are kept, other than in
    `profile_kernel`: few labels of a row say little about its mean.
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
    size, vectors = np.linalg.eigh(kernel)
    kernel = (vectors * np.maximum(size, 0.0)) @ vectors.T
    root = np.sqrt(np.diag(kernel))
    kernel = kernel / np.outer(root, root)
    kernel = 0.5 * (kernel + kernel.T)
    np.fill_diagonal(kernel, 1.0)
    return kernel
