"""The kernels of a model on the rows of all tasks, on one scale; and features of their mix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data import TaskData
from ..decompositions import eigh
from ..kernels import FittedKernel, default_kernels, evaluate, fit_kernels

# Rows at which kernels and functions are compared, at most.
MOST_ROWS = 500
# Features of a mix: those of the leading directions on a sample of rows, up to this share of its trace.
MOST_FEATURES, TRACE_SHARE = 50, 0.99
_BLOCK = 2000


def spread_rows(n: int, most: int = MOST_ROWS) -> np.ndarray:
    """Positions of at most `most` of n rows, evenly spaced."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.intp))


@dataclass(frozen=True)
class PooledKernels:
    """Kernels of a fitted model, to be evaluated on the rows of all tasks.

    Attributes
    ----------
    kernels : the K fitted kernels; None where Gram matrices are precomputed.
    center, scale : (d,) kernels see (x - center) / scale.
    """

    kernels: tuple[FittedKernel, ...] | None
    center: Any = 0.0
    scale: Any = 1.0

    def grams(self, X: np.ndarray, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Kernel matrices (K, r, s) between rows (r,) and others (s,) of X (n, d) or (n, n, K)."""
        if X.ndim == 3:
            return np.moveaxis(X[np.ix_(rows, others)], 2, 0).astype(np.float64)
        Z = (np.asarray(X, dtype=np.float64) - self.center) / self.scale
        assert self.kernels is not None
        return evaluate(self.kernels, Z[rows], Z[others])


def pooled_kernels(model: Any, X: np.ndarray) -> tuple[PooledKernels, np.ndarray]:
    """The kernels of a fitted model and its mixes (T, K); without weights, the default kernels in equal shares."""
    kernels = getattr(model, "kernels_", None)
    if hasattr(model, "kernel_weights_") and kernels is not None:
        return PooledKernels(None if isinstance(kernels[0], str) else tuple(kernels)), mixes(model)
    if X.ndim == 3:
        return PooledKernels(None), np.full((len(model.tasks_), X.shape[2]), 1.0 / X.shape[2])
    scale = np.std(X, axis=0)
    center, scale = X.mean(axis=0), np.where(scale > 0, scale, 1.0)
    default = fit_kernels(default_kernels(), (X - center) / scale)
    shares = np.full((len(model.tasks_), len(default)), 1.0 / len(default))
    return PooledKernels(tuple(default), center, scale), shares


def mixes(model: Any) -> np.ndarray:
    """Kernel weights of each task (T, K), parts that it shares included, as shares that sum to one.

    A task without weight has all kernels to equal shares.
    """
    weights = np.array(model.kernel_weights_, dtype=np.float64)
    for coupling, shared in zip(getattr(model, "couplings_", ()), getattr(model, "coupling_weights_", ()), strict=True):
        weights += np.square(coupling.factor).sum(axis=1)[:, np.newaxis] * shared
    totals = weights.sum(axis=1, keepdims=True)
    return np.where(totals > 0, weights / np.where(totals > 0, totals, 1.0), 1.0 / weights.shape[1])


def centred(grams: np.ndarray) -> np.ndarray:
    """Grams (K, n, n) with the means of their rows and columns taken out."""
    grams = grams - grams.mean(axis=1, keepdims=True)
    return grams - grams.mean(axis=2, keepdims=True)


def mix_features(kernels: PooledKernels, mix: np.ndarray, data: TaskData) -> np.ndarray:
    """Features (n, m) of the rows of X whose inner products are nearly the mix (K,) of kernels of unit mean diagonal.

    The leading directions on a sample of rows (Nystroem), which are uncorrelated there and of decreasing variance;
    their variances sum to one.
    """
    used = np.unique(np.concatenate(data.rows))
    sample = used[spread_rows(len(used))]
    stack = centred(kernels.grams(data.X, sample, sample))
    traces = np.einsum("kii->k", stack) / len(sample)
    factor = np.divide(mix, traces, out=np.zeros_like(mix), where=traces > 1e-12 * max(traces.max(), 1e-300))
    values, vectors = eigh(np.tensordot(factor, stack, axes=1))
    values, vectors = values[::-1], vectors[:, ::-1]
    if values[0] <= 0:
        return np.zeros((len(data.X), 1))
    count = min(MOST_FEATURES, 1 + int((np.cumsum(values) < TRACE_SHARE * values[values > 0].sum()).sum()))
    count = min(count, int((values > 1e-10 * values[0]).sum()))
    right = vectors[:, :count] / np.sqrt(values[:count])
    features = np.zeros((len(data.X), count))
    for start in range(0, len(used), _BLOCK):
        part = used[start : start + _BLOCK]
        features[part] = np.tensordot(factor, kernels.grams(data.X, part, sample), axes=1) @ right
    features[used] -= features[used].mean(axis=0)
    return features / np.sqrt(np.square(features[used]).sum(axis=1).mean())
