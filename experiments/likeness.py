"""How alike tasks are, by their targets on rows that both have."""

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


def profile_kernel(table: np.ndarray) -> np.ndarray:
    """Return a kernel (m, m) between the columns of a table (n, m), NaN where unknown, with ones on the diagonal.

    It is based on the correlations of columns over the rows where both are known, after subtracting the means of
    columns and rows. Even the sample correlations of unrelated columns are not zero: their matrix has eigenvalues of
    one on average. So one is subtracted from all eigenvalues before the diagonal is scaled to one.
    """
    known = np.isfinite(table)
    values = np.where(known, table, 0.0)
    # Subtract the means of rows and columns in turn; a few passes are enough unless most values are missing.
    for axis in (1, 0) * 20:
        mean = values.sum(axis=axis, keepdims=True) / np.maximum(known.sum(axis=axis, keepdims=True), 1.0)
        values = known * (values - mean)
    count = known.T.astype(np.float64) @ known
    spread = np.sqrt((values**2).sum(axis=0) / np.maximum(np.diag(count), 1.0))
    values = values / np.where(spread > 1e-10 * np.abs(table[known]).max(initial=0.0), spread, np.inf)
    # Dividing by count + 1 shrinks correlations over few rows towards zero.
    size, vectors = np.linalg.eigh(values.T @ values / (count + 1.0))
    kernel = (vectors * np.maximum(size - 1.0, 0.0)) @ vectors.T
    root = np.sqrt(np.diag(kernel))
    root = np.where(root > 1e-8, root, np.inf)
    kernel = kernel / np.outer(root, root)
    kernel = 0.5 * (kernel + kernel.T)
    np.fill_diagonal(kernel, 1.0)
    return kernel
