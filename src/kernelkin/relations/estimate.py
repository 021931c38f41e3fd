"""Likeness of the tasks' functions without the noise of their estimates, equal within tested groups; its intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from .common import CommonFit, ScoreProducts, even_features
from .rows import PooledRows

# Directions of the features with less than this share of their variance count less: they are mostly noise.
FLOOR = 0.1
# Parts of every task's rows that are left out in turn for the standard errors.
PARTS = 10


@dataclass(frozen=True)
class Likeness:
    """Likeness of tasks (T, T) with ones on the diagonal, and the ends of its intervals (T, T, 2)."""

    values: np.ndarray
    intervals: np.ndarray


def group_likeness(
    data: PooledRows, groups: np.ndarray, *, wide: bool, level: float, rng: np.random.RandomState
) -> Likeness:
    """Correlation of the tasks' functions over the rows of all tasks, one value for each pair of groups.

    Inner products of functions are those of the common function, and of the tasks' deviations from it; products of a
    row with itself are left out of the latter, so that noise neither adds to the variance of a function nor lowers
    correlations where rows are few. They are averaged over the tasks of a group, which pass as one. Intervals by the
    jackknife over parts of every task's rows.
    """
    values = _group_correlations(data, groups, wide=wide)
    parts = _parts(data, rng)
    kept = [np.flatnonzero(parts != part) for part in range(PARTS)]
    without = np.stack([_group_correlations(data.take(rows), groups, wide=wide) for rows in kept])
    error = np.sqrt((PARTS - 1) / PARTS * np.square(without - without.mean(axis=0)).sum(axis=0))
    reach = stats.t.ppf(0.5 + level / 2, PARTS - 1) * error
    defined = np.isfinite(values) & np.isfinite(reach)
    low, high = np.where(defined, values - reach, -1.0), np.where(defined, values + reach, 1.0)
    intervals = np.clip(np.stack([low, high], axis=2), -1.0, 1.0)[groups][:, groups]
    likeness = np.clip(np.where(np.isfinite(values), values, 0.0), -1.0, 1.0)[groups][:, groups]
    own = np.arange(len(groups))
    likeness[own, own], intervals[own, own] = 1.0, 1.0
    return Likeness(likeness, intervals)


def _parts(data: PooledRows, rng: np.random.RandomState) -> np.ndarray:
    """The part (n,) that each entry belongs to; rows of X stay together, and no task loses all of its entries."""
    used, first = np.unique(data.rows, return_index=True)
    # Counted off task by task, so that every part has its share of each task.
    order = np.lexsort((rng.permutation(len(used)), data.codes[first]))
    labels = np.empty(data.rows.max() + 1, dtype=np.intp)
    labels[used[order]] = np.arange(len(used)) % PARTS
    parts = labels[data.rows]
    for start, size in zip(data.starts, data.sizes, strict=True):
        if len(set(parts[start : start + size].tolist())) == 1:
            parts[start : start + size] = PARTS
    return parts


def _group_correlations(data: PooledRows, groups: np.ndarray, *, wide: bool) -> np.ndarray:
    """Correlations (G, G) of the functions of groups; within a group, that of two of its tasks. NaN: no variance."""
    products = _function_products(data, wide=wide)
    T, G = len(groups), groups.max() + 1
    member = (groups[:, np.newaxis] == np.arange(G)).astype(np.float64) * data.sizes[:, np.newaxis]
    weights = member / member.sum(axis=0)
    own = weights.T @ np.diag(products)
    pairs = products * ~np.eye(T, dtype=bool)
    total = weights.T @ pairs @ weights
    share = weights.sum(axis=0)[:, np.newaxis] * weights.sum(axis=0) - np.diag(np.square(weights).sum(axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        covariance = np.where(share > 1e-12, total / share, np.nan)
        # A group of one task has no pair of its own.
        single = np.flatnonzero(np.bincount(groups) == 1)
        covariance[single, single] = own[single]
        variance = np.where(own > 0, own, np.nan)
        return covariance / np.sqrt(np.outer(variance, variance))


def _function_products(data: PooledRows, *, wide: bool) -> np.ndarray:
    """Inner products (T, T) of the tasks' functions over pooled rows, less what noise adds to them."""
    fit = CommonFit(data, offsets=True)
    features = even_features(fit.design, FLOOR)
    products = ScoreProducts(features, data, wide=wide)
    root = np.sqrt(data.sizes)
    deviations = products.scores(fit.residuals) / root[:, np.newaxis, np.newaxis]
    # The common function in the same units as the deviations: means of features times values.
    common = features.T @ fit.fitted / len(features)
    shared = max(float(np.square(common).sum()) - fit.noise_of_means(features), 0.0)
    cross = np.einsum("tjo,jo->t", deviations, common)
    return shared + cross[:, np.newaxis] + cross + products.matrix(fit.residuals) / np.outer(root, root)
