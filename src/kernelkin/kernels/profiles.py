"""A kernel between the columns of a table with missing values: how alike their profiles over the rows are."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..decompositions import eigh

# Sweeps that take off the means of columns and of rows in turn: a few are enough unless most values are missing.
_SWEEPS = 20


def profile_kernel(table: Any) -> np.ndarray:
    """Return how alike the columns of a table are, from values of which some are missing.

    The correlations of columns over the rows that both have, without the means of columns and rows. Correlations of
    columns that have nothing in common are not zero over a finite number of rows: their matrix has eigenvalues of one
    on average, so that one is taken off all eigenvalues before the diagonal is scaled to one.

    Parameters
    ----------
    table : array of shape (n, m)
        Numbers, NaN where they are missing. Tasks are columns of wide targets; for a kernel between rows pass the
        transposed table. Use training values alone.

    Returns
    -------
    kernel : array of shape (m, m)
        Positive semi-definite, with ones on the diagonal.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin.kernels import profile_kernel
    >>> rng = np.random.default_rng(0)
    >>> shape = rng.normal(size=(50, 2))
    >>> table = shape[:, [0, 0, 0, 1, 1, 1]] + 0.5 * rng.normal(size=(50, 6))
    >>> table[rng.uniform(size=table.shape) < 0.1] = np.nan
    >>> profile_kernel(table)[0].round(1)
    array([ 1.,  1.,  1., -1., -1., -1.])
    """
    table = np.asarray(table, dtype=np.float64)
    if table.ndim != 2 or np.isinf(table).any():
        raise ValueError(f"a table of profiles must have two dimensions and no infinite values, got {table.shape}")
    known = np.isfinite(table)
    values = _centred(np.where(known, table, 0.0), known.astype(np.float64))
    count = known.T.astype(np.float64) @ known
    spread = np.sqrt((values**2).sum(axis=0) / np.maximum(np.diag(count), 1.0))
    values = values / np.where(spread > 1e-10 * np.abs(table[known]).max(initial=0.0), spread, np.inf)
    # Divided by one row more than there are: a correlation over few rows is drawn towards zero.
    size, vectors = eigh(values.T @ values / (count + 1.0))
    kernel = (vectors * np.maximum(size - 1.0, 0.0)) @ vectors.T
    root = np.sqrt(np.diag(kernel))
    root = np.where(root > 1e-8, root, np.inf)
    kernel = kernel / np.outer(root, root)
    kernel = 0.5 * (kernel + kernel.T)
    # Columns that are like no other are left on their own.
    np.fill_diagonal(kernel, 1.0)
    return kernel


def _centred(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Take the means of rows and of columns off the values that are known; others stay zero."""
    for _ in range(_SWEEPS):
        for axis in (1, 0):
            count = np.maximum(known.sum(axis=axis, keepdims=True), 1.0)
            values = known * (values - values.sum(axis=axis, keepdims=True) / count)
    return values
