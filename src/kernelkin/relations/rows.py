"""The rows of all tasks in one list: features of the mix of a model's kernels, targets as numbers, tasks as codes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from ..data import TaskData
from ..decompositions import eigh
from ..kernels import FittedKernel, default_kernels, evaluate, fit_kernels

# Rows at which kernels and functions are compared, at most.
MOST_ROWS = 500
# Features of a mix: those of the leading directions on a sample of rows, up to this share of its trace.
MOST_FEATURES, TRACE_SHARE = 50, 0.99
_BLOCK = 2000
# The prior spread of functions of log odds, and the log odds beyond which rows are treated alike.
ODDS_SPREAD, MOST_ODDS = 2.0, 3.0


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


@dataclass(frozen=True)
class PooledRows:
    """One entry for each label: on wide data a row of X has an entry for each task.

    Attributes
    ----------
    features : (n, m) features of the rows.
    targets : (n, M) targets; classes as 1 and -1.
    codes : (n,) the task of each entry, from 0, ascending.
    rows : (n,) the row of X of each entry.
    """

    features: np.ndarray
    targets: np.ndarray
    codes: np.ndarray
    rows: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """Entries of each task (T,)."""
        return np.bincount(self.codes)

    @property
    def starts(self) -> np.ndarray:
        """The first entry of each task (T,)."""
        return np.concatenate([[0], np.cumsum(self.sizes)[:-1]])

    def select(self, tasks: np.ndarray) -> PooledRows:
        """Entries of some tasks (ascending positions), which become tasks 0, 1, ..."""
        kept = np.flatnonzero(np.isin(self.codes, tasks))
        found = self.take(kept)
        return replace(found, codes=np.searchsorted(tasks, found.codes))

    def take(self, entries: np.ndarray) -> PooledRows:
        """Some entries, ascending."""
        return PooledRows(self.features[entries], self.targets[entries], self.codes[entries], self.rows[entries])

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Sums over the entries of each task: (n, ...) -> (T, ...)."""
        return np.add.reduceat(values, self.starts, axis=0)

    def means(self, values: np.ndarray) -> np.ndarray:
        """The mean of each task, at each of its entries: (n, q) -> (n, q)."""
        return (self.sums(values) / self.sizes[:, np.newaxis])[self.codes]


def pool(data: TaskData, features: np.ndarray, *, classification: bool) -> PooledRows:
    """Data of tasks and features (n, m) of the rows of X -> their entries, targets on one scale.

    Targets of rows that belong to one task each are in the same units, and divided by their pooled spread. The columns
    of wide targets may have units of their own: each is divided by its own spread. Two classes of tasks with rows of
    their own are on the scale of log odds, where tasks that differ in their base rates alone differ by a level.
    """
    rows = np.concatenate(data.rows)
    codes = np.repeat(np.arange(data.n_tasks), [len(part) for part in data.rows])
    targets = _indicators(data) if classification else np.concatenate(data.y).astype(np.float64)[:, np.newaxis]
    found = PooledRows(features[rows], targets, codes, rows)
    if classification and targets.shape[1] == 1 and data.form != "wide":
        found = replace(found, targets=_log_odds(found))
        targets = found.targets
    centred = np.square(targets - found.means(targets)).sum(axis=1, keepdims=True)
    own = not classification and data.form == "wide"
    spread = np.sqrt(found.means(centred)) if own else np.full((len(rows), 1), np.sqrt(centred.mean()))
    return replace(found, targets=targets / np.where(spread > 0, spread, 1.0))


def _indicators(data: TaskData) -> np.ndarray:
    """Classes as numbers (n, M): one column of 1 and -1 where every task has two classes, otherwise one a class."""
    classes = [np.unique(y) for y in data.y]
    if all(len(found) == 2 for found in classes):
        signs = [np.where(y == found[1], 1.0, -1.0) for y, found in zip(data.y, classes, strict=True)]
        return np.concatenate(signs)[:, np.newaxis]
    labels = np.unique(np.concatenate(classes))
    return np.where(np.concatenate(data.y)[:, np.newaxis] == labels, 1.0, -1.0)


def _log_odds(data: PooledRows) -> np.ndarray:
    """Working responses (n, 1) of a logistic regression on the features with a level for each task.

    They are `eta + (y - p) / (p (1 - p))`, with y of 0 and 1, and have the log odds of a row as their mean up to second
    order in the error of the fit.
    """
    X, y, T = data.features, (data.targets[:, 0] > 0).astype(np.float64), len(data.sizes)
    m = X.shape[1]

    def eta(c: np.ndarray) -> np.ndarray:
        return X @ c[:m] + c[m:][data.codes]

    def loss(c: np.ndarray) -> tuple[float, np.ndarray]:
        f = eta(c)
        rest = expit(f) - y
        gradient = np.concatenate([X.T @ rest, np.bincount(data.codes, rest, T)])
        penalty = np.repeat([0.5 / ODDS_SPREAD**2, 0.05], [m, T])
        value = np.logaddexp(0.0, f).sum() - y @ f + penalty @ c**2
        return float(value), gradient + 2.0 * penalty * c

    f = np.clip(eta(minimize(loss, np.zeros(m + T), jac=True, method="L-BFGS-B").x), -MOST_ODDS, MOST_ODDS)
    p = expit(f)
    return (f + (y - p) / (p * (1.0 - p)))[:, np.newaxis]
