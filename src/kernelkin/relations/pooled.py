"""The pooled rows of all tasks, a common function fitted to them, and the deviations of each task from it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from ..data.forms import TaskData
from ..decompositions import eigh
from ..kernels.families import default_kernels
from ..kernels.kernel import evaluate, fit_kernels

# Features of a mix of kernels: the leading directions on a sample of this many rows, up to this share of the trace.
SAMPLE, MOST_FEATURES, TRACE_SHARE, BLOCK = 500, 50, 0.99, 2000
# The prior spreads of log-odds functions and of their levels, and the limit at which log odds are clipped.
ODDS_SPREAD, LEVEL_SPREAD, MOST_ODDS = 2.0, 10.0**0.5, 3.0
# Penalties of the common function; with a level for each task, it is penalised less than optimal.
RIDGES, WEAKER = np.logspace(-3, 3, 13), 0.1


class PooledRows(NamedTuple):
    """One entry for each label: on wide data a row of X has an entry for each task.

    `features` (n, m) and `targets` (n, M) of the entries (classes as 1 and -1, or log odds), the task of each entry
    (`codes` (n,), ascending), its row of X (`rows` (n,)), and whether tasks share rows (`wide`).
    """

    features: np.ndarray
    targets: np.ndarray
    codes: np.ndarray
    rows: np.ndarray
    wide: bool = False

    @classmethod
    def of(cls, model: Any, data: TaskData, *, classification: bool) -> PooledRows:
        """Return the entries of all tasks, with features of the model's kernels.

        Targets are divided by their pooled spread; each column of wide targets by its own. Two classes in long data are
        on the scale of log odds, where different base rates are different levels.
        """
        rows, wide = np.concatenate(data.rows), data.form == "wide"
        codes = np.repeat(np.arange(data.n_tasks), [len(part) for part in data.rows])
        targets = _indicators(data) if classification else np.concatenate(data.y).astype(np.float64)[:, None]
        found = cls(mix_features(model, data)[rows], targets, codes, rows, wide)
        if classification and targets.shape[1] == 1 and not wide:
            targets = _log_odds(found)
        squares = np.square(targets - found.means(targets)).sum(axis=1, keepdims=True)
        spread = np.sqrt(found.means(squares) if wide and not classification else np.full_like(squares, squares.mean()))
        return found._replace(targets=targets / np.where(spread > 0, spread, 1.0))

    @property
    def sizes(self) -> np.ndarray:
        """The number of entries of each task (T,)."""
        return np.bincount(self.codes)

    @property
    def starts(self) -> np.ndarray:
        """The first entry of each task (T,)."""
        return np.concatenate([[0], np.cumsum(self.sizes)[:-1]])

    def select(self, tasks: np.ndarray) -> PooledRows:
        """Return the entries of some tasks (ascending positions), renumbered 0, 1, ..."""
        found = self.take(np.flatnonzero(np.isin(self.codes, tasks)))
        return found._replace(codes=np.searchsorted(tasks, found.codes))

    def take(self, entries: np.ndarray) -> PooledRows:
        """Return the entries at these ascending positions."""
        features, targets, codes, rows = (values[entries] for values in self[:4])
        return PooledRows(features, targets, codes, rows, self.wide)

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Return the sums over the entries of each task: (n, ...) -> (T, ...)."""
        return np.add.reduceat(values, self.starts, axis=0)

    def means(self, values: np.ndarray) -> np.ndarray:
        """Return the mean of each task, at each of its entries: (n, q) -> (n, q)."""
        return (self.sums(values) / self.sizes[:, None])[self.codes]


def mix_features(model: Any, data: TaskData) -> np.ndarray:
    """Return features (n, m) of the rows of X whose inner products approximate a mix of kernels.

    They are the leading directions on a sample of rows (Nystroem), uncorrelated on it, with variances that sum to one.
    """
    grams, mix = _model_kernels(model, data.X)
    used = np.unique(np.concatenate(data.rows))
    sample = used[np.unique(np.linspace(0, len(used) - 1, min(len(used), SAMPLE)).astype(np.intp))]
    stack = grams(sample, sample)
    stack = stack - stack.mean(axis=1, keepdims=True)
    stack -= stack.mean(axis=2, keepdims=True)
    traces = np.einsum("kii->k", stack) / len(sample)
    factor = np.divide(mix, traces, out=np.zeros_like(mix), where=traces > 1e-12 * max(traces.max(), 1e-300))
    values, vectors = (part[..., ::-1] for part in eigh(np.tensordot(factor, stack, axes=1)))
    if values[0] <= 0:
        return np.zeros((len(data.X), 1))
    count = min(MOST_FEATURES, 1 + int((np.cumsum(values) < TRACE_SHARE * values[values > 0].sum()).sum()))
    count = min(count, int((values > 1e-10 * values[0]).sum()))
    right = vectors[:, :count] / np.sqrt(values[:count])
    features = np.zeros((len(data.X), count))
    for start in range(0, len(used), BLOCK):
        part = used[start : start + BLOCK]
        features[part] = np.tensordot(factor, grams(part, sample), axes=1) @ right
    features[used] -= features[used].mean(axis=0)
    return features / np.sqrt(np.square(features[used]).sum(axis=1).mean())


def _model_kernels(model: Any, X: np.ndarray) -> tuple[Any, np.ndarray]:
    """Return a function from rows (r,) and others (s,) of X to kernel matrices (K, r, s), and the mix (K,) of kernels.

    The mix is the mean over tasks if the model has kernel weights, otherwise the default kernels in equal shares.
    """
    kernels: Any = getattr(model, "kernels_", None)
    weights, Z = np.ones((1, X.shape[-1])), X
    if hasattr(model, "kernel_weights_") and kernels is not None:
        weights = np.array(model.kernel_weights_, dtype=np.float64)
        couplings = getattr(model, "couplings_", ()), getattr(model, "coupling_weights_", ())
        for coupling, shared in zip(*couplings, strict=True):
            weights += np.square(coupling.factor).sum(axis=1)[:, None] * shared
        # A task without kernel weights uses all kernels in equal shares.
        weights[weights.sum(axis=1) <= 0] = 1.0
    elif X.ndim == 2:
        spread = X.std(axis=0)
        Z = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        kernels = fit_kernels(default_kernels(), Z)
        weights = np.ones((1, len(kernels)))
    mix = (weights / weights.sum(axis=1, keepdims=True)).mean(axis=0)
    if X.ndim == 3:
        return lambda rows, others: np.moveaxis(X[np.ix_(rows, others)], 2, 0).astype(np.float64), mix
    Z = np.asarray(Z, dtype=np.float64)
    return lambda rows, others: evaluate(kernels, Z[rows], Z[others]), mix


def _indicators(data: TaskData) -> np.ndarray:
    """Return classes as numbers (n, M): one column of 1 and -1 if every task has two classes, else one per class."""
    classes = [np.unique(y) for y in data.y]
    if all(len(found) == 2 for found in classes):
        signs = [np.where(y == found[1], 1.0, -1.0) for y, found in zip(data.y, classes, strict=True)]
        return np.concatenate(signs)[:, None]
    labels = np.unique(np.concatenate(classes))
    return np.where(np.concatenate(data.y)[:, None] == labels, 1.0, -1.0)


def _log_odds(data: PooledRows) -> np.ndarray:
    """Return working responses `eta + (y - p) / (p (1 - p))` (n, 1) of a logistic regression with task levels."""
    y, entries = data.targets[:, 0] > 0, np.arange(len(data.codes))
    levels = sparse.csr_array((np.full(len(y), LEVEL_SPREAD), (entries, data.codes)))
    # Columns are scaled by the prior spreads of their coefficients.
    design = sparse.hstack([ODDS_SPREAD * data.features, levels], format="csr")
    model = LogisticRegression(fit_intercept=False, tol=1e-6, max_iter=1000).fit(design, y)
    f = np.clip(model.decision_function(design), -MOST_ODDS, MOST_ODDS)
    p = expit(f)
    return (f + (y - p) / (p * (1.0 - p)))[:, None]


class CommonFit:
    """Ridge regression on the features for all tasks, with one level for each task (`offsets`) or one for all.

    The penalty is chosen by generalised cross-validation. With offsets it is weaker, because anything the common
    function misses would look like a difference between tasks with different inputs. `errors` are residuals rescaled to
    the size of the errors. `even` are the features, rescaled so that directions with more than the share `floor` of the
    variance have similar variances.
    """

    def __init__(self, data: PooledRows, *, offsets: bool, floor: float = 1.0) -> None:
        self.data, self.offsets = data, offsets
        self.design, y = self._centre(data.features), self._centre(data.targets)
        variance = np.square(self.design).mean(axis=0)
        self.even = self.design / np.sqrt(variance + floor * max(variance.sum(), 1e-300))
        values, vectors = eigh(self.design.T @ self.design)
        kept = values > 1e-10 * max(values[-1], 1e-300)
        squares = values[kept]
        self.U = self.design @ (vectors[:, kept] / np.sqrt(squares))
        shrink = squares / (squares + RIDGES[:, None])
        error = (y**2).sum() - (((2 - shrink) * shrink)[..., None] * (self.U.T @ y) ** 2).sum(axis=(1, 2))
        free = len(y) - (len(data.sizes) if offsets else 1) - shrink.sum(axis=1)
        best = float(RIDGES[np.argmin(error / np.maximum(free, 1e-9) ** 2)])
        self.ridge = WEAKER * best if offsets else best
        self.shrink = squares / (squares + self.ridge)
        self.fitted = self.smooth(y)
        self.residuals = y - self.fitted
        leverage = np.square(self.U) @ self.shrink
        leverage += 1.0 / data.sizes[data.codes] if offsets else 1.0 / len(y)
        self.errors = self.residuals / np.sqrt(np.maximum(1.0 - leverage, 0.1))[:, None]

    def _centre(self, values: np.ndarray) -> np.ndarray:
        return values - (self.data.means(values) if self.offsets else values.mean(axis=0))

    def smooth(self, y: np.ndarray) -> np.ndarray:
        """Return the fitted values (n, M) of centred targets (n, M)."""
        return self.U @ (self.shrink[:, None] * (self.U.T @ y))

    def simulate(self, signs: np.ndarray) -> np.ndarray:
        """Return the residuals (n, M) of new targets: the fitted function plus errors with these signs (n,)."""
        y = self._centre(self.fitted + signs[:, None] * self.errors)
        return y - self.smooth(y)


class ScoreProducts:
    """Products of task scores: sums of centred features times residuals, over the square root of the rows."""

    def __init__(self, features: np.ndarray, data: PooledRows) -> None:
        self.data, self.features = data, features - data.means(features)
        self.lengths = np.square(self.features).sum(axis=1, keepdims=True)

    def scores(self, residuals: np.ndarray) -> np.ndarray:
        """Return the scores (T, m, M) of residuals (n, M)."""
        bounds = self.data.starts[1:]
        parts = zip(np.split(self.features, bounds), np.split(residuals, bounds), strict=True)
        return np.stack([F.T @ r for F, r in parts]) / np.sqrt(self.data.sizes)[:, None, None]

    def matrix(self, residuals: np.ndarray) -> np.ndarray:
        """Return the products (T, T) of the scores of two tasks, without products of a row with itself.

        If the tasks follow the common function, all entries have mean zero, because errors of different rows are
        independent. On wide data, errors of tasks in the same row may be correlated; those products are left out too.
        """
        scores = self.scores(residuals)
        return np.einsum("sjo,tjo->st", scores, scores, optimize=True) - self.same_rows(residuals)

    def same_rows(self, residuals: np.ndarray) -> np.ndarray:
        """Return the sums (T, T) of products of a row with itself, from residuals (n, M)."""
        data, T = self.data, len(self.data.sizes)
        residuals = residuals - data.means(residuals)
        if not data.wide:
            return np.diag(data.sums(self.lengths * np.square(residuals).sum(axis=1, keepdims=True))[:, 0] / data.sizes)
        rows, place = np.unique(data.rows, return_inverse=True)
        found = np.zeros((T, T))
        for column in (np.sqrt(self.lengths) * residuals / np.sqrt(data.sizes[data.codes])[:, None]).T:
            terms = np.zeros((len(rows), T))
            terms[place, data.codes] = column
            found += terms.T @ terms
        return found
