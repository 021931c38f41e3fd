"""What kernels are made from: inner products, squared distances and the median distance of the training rows."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

# The median distance looks at no more rows than this: it costs more than linear time.
MAX_ROWS = 1000


def as_float(X: np.ndarray) -> np.ndarray:
    """X (n, d) as an array of float32 or float64; other numbers become float64."""
    X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"kernels need rows and columns, an array of two dimensions; got shape {X.shape}")
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)


def thin(n: int) -> slice:
    """The rows that stand for n rows where MAX_ROWS must do: all, or every (n // MAX_ROWS + 1)-th."""
    return slice(None, None, 1 if n <= MAX_ROWS else n // MAX_ROWS + 1)


def mirror(G: np.ndarray, block: int = 128) -> None:
    """Copy the upper triangle of G (n, n) onto the lower one, in place, so that G is symmetric to the last bit.

    By square blocks that fit into cache, where reading across rows costs nothing: ten times faster than by whole rows.
    """
    for start in range(0, len(G), block):
        rows = slice(start, start + block)
        for left in range(0, start, block):
            columns = slice(left, left + block)
            G[rows, columns] = G[columns, rows].T
        corner = G[rows, rows]
        np.copyto(corner, corner.T, where=_below_diagonal(len(corner)))


@lru_cache(maxsize=8)
def _below_diagonal(n: int) -> np.ndarray:
    return np.tri(n, k=-1, dtype=bool)


def inner_products(X: np.ndarray, Y: np.ndarray | None, out: np.ndarray) -> None:
    """X (n, d), Y (m, d) -> out (n, m); Y=None stands for X and gives an exactly symmetric result."""
    np.matmul(X, (X if Y is None else Y).T, out=out)
    if Y is None:
        mirror(out)


def squared_distances(X: np.ndarray, Y: np.ndarray | None, out: np.ndarray) -> None:
    """X (n, d), Y (m, d) -> out (n, m) >= 0; Y=None stands for X: symmetric, with a diagonal of exact zeros."""
    if X.shape[1] == 1:
        np.subtract(X, (X if Y is None else Y).T, out=out)
        np.square(out, out=out)
        return
    _expanded_squares(X, X if Y is None else Y, out)
    if Y is None:
        np.fill_diagonal(out, 0.0)
        mirror(out)


def _expanded_squares(X: np.ndarray, Y: np.ndarray, out: np.ndarray) -> None:
    # |x|^2 + |y|^2 - 2 x'y cancels badly when the rows are far from the origin: move it to the mean of Y first.
    center = Y.mean(axis=0)
    X, Y = X - center, Y - center
    np.matmul(-2.0 * X, Y.T, out=out)
    out += np.einsum("ij,ij->i", X, X)[:, None]
    out += np.einsum("ij,ij->i", Y, Y)
    np.maximum(out, 0.0, out=out)


def median_distance(X: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """Weighted median of the non-zero Euclidean distances between the rows of X (n, d); 1.0 if there are none.

    The pair (i, j) weighs ``w_i w_j``, so that repeating a row equals weighting it. Beyond 1000 rows of positive
    weight only every (n // 1000 + 1)-th is looked at.
    """
    from scipy.spatial.distance import pdist

    weight = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    kept = np.flatnonzero(weight > 0)
    kept = kept[thin(len(kept))]
    distance = pdist(X[kept].astype(np.float64))
    first, second = np.triu_indices(len(kept), 1)
    pair_weight = weight[kept][first] * weight[kept][second]
    apart = distance > 0
    return weighted_median(distance[apart], pair_weight[apart]) if apart.any() else 1.0


def weighted_median(values: np.ndarray, weight: np.ndarray) -> float:
    """values (n,), weight (n,) > 0 -> the median; the middle of two values where both are medians."""
    order = np.argsort(values)
    total = np.cumsum(weight[order])
    lower, upper = np.searchsorted(total, total[-1] / 2, side="left"), np.searchsorted(total, total[-1] / 2, "right")
    return float((values[order[lower]] + values[order[upper]]) / 2)
