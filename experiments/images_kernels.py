"""Base kernels from stored descriptors. Needs nothing but the library's own dependencies."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

# Rows that stay in the cache while all others pass.
_ROWS = 16


@dataclass(frozen=True)
class Kernel:
    """One base kernel.

    Attributes
    ----------
    name : what weights are listed under.
    source : descriptors (n, cells, m) of this name.
    side : cells are added up to a grid of side x side; None: as they are.
    fold : directions that differ by half a turn are added up.
    """

    name: str
    source: str
    side: int | None = None
    fold: bool = False


def _levels(source: str, sides: Iterable[int], fold: bool = False) -> list[Kernel]:
    suffix = ", half turn" if fold else ""
    return [Kernel(f"{source}{suffix} {side}x{side}", source, side, fold) for side in sides]


KERNELS: dict[str, list[Kernel]] = {
    "flowers": [
        Kernel("colour", "colour"),
        Kernel("colour sift inside", "colour sift inside", 1),
        Kernel("sift inside", "sift inside", 1),
        Kernel("sift at the boundary", "sift at the boundary"),
        Kernel("sift, whole image", "sift, whole image", 2),
        Kernel("texture", "texture"),
        Kernel("gradients", "gradients"),
    ],
    "caltech": [
        *_levels("sift", (1, 2, 4)),
        *_levels("sift, many words", (1, 2, 4)),
        *_levels("large sift", (1, 2, 4)),
        *_levels("colour sift", (1, 2, 4)),
        *_levels("self-similarity", (1, 2, 4)),
        *_levels("colour", (1, 2, 4)),
        *_levels("edges", (1, 2, 4, 8)),
        *_levels("edges", (1, 2, 4, 8), fold=True),
        *_levels("patterns", (1, 2, 4)),
        *_levels("gabor", (1, 2, 4, 8)),
        Kernel("gradients", "gradients"),
        Kernel("covariance 1x1", "covariance 1"),
        Kernel("covariance 2x2", "covariance 2"),
        Kernel("covariance 3x3", "covariance 3"),
        Kernel("tiny image", "tiny image"),
    ],
}


class Descriptors:
    """What `images_extract` stored of one data set.

    Attributes
    ----------
    names : `class/file` of each image.
    classes, labels : the names of classes, and the number of each image's.
    """

    def __init__(self, path: str | Path) -> None:
        self._arrays = np.load(path)
        self.names = self._arrays["names"]
        folders = np.array([name.split("/")[-2] for name in self.names])
        self.classes, self.labels = np.unique(folders, return_inverse=True)

    def distances(self, kernel: Kernel) -> np.ndarray:
        """(n, n) float32: chi-squared of histograms, squared Euclidean of other numbers."""
        if f"{kernel.source}: signed" in self._arrays:
            codes = self._arrays[f"{kernel.source}: signed"].astype(np.float32)
            return squared_distances((codes * self._arrays[f"{kernel.source}: range"] / 255).reshape(len(codes), -1))
        return chi_squared(histograms(self._arrays[kernel.source], kernel.side, kernel.fold))


def histograms(roots: np.ndarray, side: int | None = None, fold: bool = False) -> np.ndarray:
    """Square roots (n, cells, m) as bytes -> histograms (n, side * side * m) float32 that add up to 1."""
    counts = roots.astype(np.float32) ** 2
    n, cells, m = counts.shape
    if side is not None:
        whole = round(np.sqrt(cells))
        grouped = counts.reshape(n, side, whole // side, side, whole // side, m)
        counts = grouped.sum(axis=(2, 4)).reshape(n, side * side, m)
    if fold:
        counts = counts[..., : m // 2] + counts[..., m // 2 :]
    flat = counts.reshape(n, -1)
    return flat / np.maximum(flat.sum(axis=1, keepdims=True), 1e-12)


def chi_squared(X: np.ndarray) -> np.ndarray:
    """X (n, m) float32, not negative -> distances (n, n): the sum of (a - b)^2 / (a + b)."""
    from joblib import Parallel, delayed

    X = np.ascontiguousarray(X, dtype=np.float32)
    out = np.empty((len(X), len(X)), dtype=np.float32)
    starts = range(0, len(X), _ROWS)
    add_up = _compiled()
    Parallel(n_jobs=-1, prefer="threads")(delayed(add_up)(X, start, _ROWS, out) for start in starts)
    return out


@cache
def _compiled() -> Callable[..., None]:
    """Sums in any order, as single precision allows here: eight times as fast as one after the other."""
    from numba import njit

    signature = "(float32[:, ::1], int64, int64, float32[:, ::1])"
    return njit(signature, nogil=True, fastmath=True, error_model="numpy", cache=True)(_add_up)


def _add_up(X, start, count, out):
    n, m = X.shape
    stop = min(start + count, n)
    for j in range(stop):
        for i in range(max(start, j), stop):
            total = np.float32(0.0)
            for k in range(m):
                difference = X[i, k] - X[j, k]
                total += difference * difference / (X[i, k] + X[j, k] + np.float32(1e-12))
            out[i, j] = total
            out[j, i] = total


def squared_distances(X: np.ndarray) -> np.ndarray:
    """X (n, m) -> squared Euclidean distances (n, n) float32."""
    X = np.asarray(X, dtype=np.float64)
    squares = (X**2).sum(axis=1)
    found = np.maximum(squares[:, np.newaxis] + squares - 2 * (X @ X.T), 0)
    np.fill_diagonal(found, 0)
    return found.astype(np.float32)
