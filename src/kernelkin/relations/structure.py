"""Test for structure among tasks, find groups, and estimate their likeness."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from scipy import stats
from scipy.cluster.hierarchy import to_tree
from scipy.sparse.csgraph import connected_components

from ..data.arrays import in_order
from ..decompositions import cholesky, eigvalsh, inverse
from .pooled import CommonFit, PooledRows, ScoreProducts

# Feature directions with less than this share of the variance get less weight, in the test and in the likeness.
TEST_FLOOR, LIKENESS_FLOOR = 0.01, 0.1
# Tasks count as exchangeable unless a test at this level rejects equal inputs, levels or noise.
ALIKE_LEVEL = 0.05
# Number of feature directions in which inputs are compared.
COMPARED = 10
# Candidate prior variances of task deviations, relative to the noise variance.
PRIORS, BLOCK = np.logspace(-3, 2, 11), 2000
# Number of jackknife parts for the standard errors of the likeness.
PARTS = 10
# Groups with a higher correlation are joined even if the test separates them: it finds tiny differences in many rows.
ALIKE = 0.99


def choose_null(data: PooledRows) -> tuple[str, str]:
    """Return how targets without structure are drawn, and why.

    "permutation" assigns rows to tasks at random, if the tasks have similar inputs, levels and noise. "simulation"
    draws targets from the common function, the levels, and residuals with random signs.
    """
    if data.wide:
        return "simulation", "the groups are columns of targets on the same rows"
    residuals, inputs = CommonFit(data, offsets=False).residuals, data.features[:, :COMPARED]
    differ = []
    if min(_anova(inputs, data), _anova(np.abs(inputs - data.means(inputs)), data)) < ALIKE_LEVEL / 2:
        differ.append("inputs")
    if _anova(residuals, data) < ALIKE_LEVEL:
        differ.append("levels")
    if _anova(np.abs(residuals - data.means(residuals)), data) < ALIKE_LEVEL:
        differ.append("noise")
    if not differ:
        return "permutation", "the groups have similar inputs, levels and noise"
    return "simulation", f"the groups differ in their {' and '.join(differ).replace(' and ', ', ', len(differ) - 2)}"


def _anova(values: np.ndarray, data: PooledRows) -> float:
    """Return the p-value of equal task means, Bonferroni-corrected over the columns (n, q)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        p = stats.f_oneway(*np.split(values, data.starts[1:]), axis=0).pvalue
    return float(min(1.0, values.shape[1] * np.nan_to_num(p, nan=1.0).min()))


def structure_p_values(data: PooledRows, null: str, n: int, rng: np.random.RandomState) -> tuple[float, float]:
    """Return the p-value of one function for all tasks, from n draws without structure, and a finer p-value.

    It is twice the smaller p-value of the trace (spread around the common function) and the largest eigenvalue (spread
    in one pattern over tasks). The finer p-value uses a Pearson III distribution if no draw is as extreme.
    """
    fit = CommonFit(data, offsets=null == "simulation", floor=TEST_FLOOR)
    products = ScoreProducts(fit.even, data)
    found = [products.matrix(fit.residuals)]
    for _ in range(n):
        if null == "permutation":
            order = rng.permutation(len(data.codes))
            found.append(ScoreProducts(fit.even[order], data).matrix(fit.residuals[order]))
        else:
            # One sign per row of X keeps the correlation between the errors of tasks in the same row.
            signs = rng.choice([-1.0, 1.0], size=data.rows.max() + 1)
            found.append(products.matrix(fit.simulate(signs[data.rows])))
    values = np.array([[np.trace(matrix), eigvalsh(matrix)[-1]] for matrix in found])
    p = float(min(1.0, 2.0 * (values >= values[0]).mean(axis=0).min()))
    if p > 2.5 / len(values):
        return p, p
    draws = values[1:]
    standard = (values[0] - draws.mean(axis=0)) / np.maximum(draws.std(axis=0, ddof=1), 1e-300)
    tails = stats.pearson3.sf(standard, np.clip(stats.skew(draws), 0.01, 3.0))
    return p, float(min(2.0 * np.nanmin(tails), p))


def _log_evidence(scores: np.ndarray, information: np.ndarray, prior: float) -> np.ndarray:
    """Return the log evidence (P,) of deviations with variance `prior`, from scores (P, m, M) and information."""
    found = np.empty(len(scores))
    m, M = scores.shape[1:]
    for start in range(0, len(scores), BLOCK):
        part = slice(start, start + BLOCK)
        factor = cholesky(information[part] + np.eye(m) / prior)
        inside = inverse(factor) @ scores[part]
        logs = 2.0 * np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1) + m * np.log(prior)
        found[part] = 0.5 * np.square(inside).sum(axis=(1, 2)) - 0.5 * M * logs
    return found


def evidence_tree(data: PooledRows, groups: np.ndarray | None = None) -> np.ndarray:
    """Return the tree of tasks (T - 1, 4) in scipy's format; each step joins the two clusters with the most evidence.

    The likelihood of the deviation w of a task from the common function is exp(s'w - w'Aw / 2). Heights are the loss of
    log evidence, made monotone. With group labels (T,), tasks of the same group are joined first.
    """
    fit, T = CommonFit(data, offsets=True), len(data.sizes)
    noise = max(float(np.square(fit.errors).mean()), 1e-300)
    of_task = np.stack([data.sums(fit.design * r[:, None]) for r in fit.residuals.T], axis=2) / noise
    squares = np.stack([part.T @ part for part in np.split(fit.design, data.starts[1:])]) / noise
    prior = float(max(PRIORS, key=lambda prior: _log_evidence(of_task, squares, prior).sum()))
    scores, information, alone = list(of_task), list(squares), list(_log_evidence(of_task, squares, prior))
    labels = [0] * T if groups is None else groups.tolist()
    heights, counts, active = [0.0] * T, [1] * T, list(range(T))
    gains: dict[tuple[int, int], float] = {}

    def compare(pairs: list[tuple[int, int]]) -> None:
        for start in range(0, len(pairs), BLOCK):
            part = pairs[start : start + BLOCK]
            s, A = (np.stack([values[a] + values[b] for a, b in part]) for values in (scores, information))
            found = _log_evidence(s, A, prior).tolist()
            gains.update({(a, b): value - alone[a] - alone[b] for (a, b), value in zip(part, found, strict=True)})

    compare([(a, b) for b in range(T) for a in range(b)])
    linkage = np.zeros((T - 1, 4))
    for step in range(T - 1):
        a, b = max(gains, key=lambda pair: (labels[pair[0]] == labels[pair[1]], gains[pair]))
        heights.append(max(-gains[a, b], heights[a], heights[b], 0.0))
        counts.append(counts[a] + counts[b])
        linkage[step] = a, b, heights[-1], counts[-1]
        scores.append(scores[a] + scores[b])
        information.append(information[a] + information[b])
        alone.append(gains[a, b] + alone[a] + alone[b])
        labels.append(labels[a] if labels[a] == labels[b] else -1)
        active = [c for c in active if c not in (a, b)]
        gains = {pair: gain for pair, gain in gains.items() if a not in pair and b not in pair}
        compare([(c, T + step) for c in active])
        active.append(T + step)
    return linkage


def tested_groups(
    linkage: np.ndarray, p_value: Callable[[np.ndarray], float], root_p_value: float, alpha: float
) -> np.ndarray:
    """Return group labels (T,): from the top of the tree, split each cluster for which the test rejects one function.

    A cluster of q tasks is tested at level alpha q / T, so a true group is split with probability at most alpha.
    """
    T, count = len(linkage) + 1, 0
    groups, todo = np.zeros(T, dtype=np.intp), [(to_tree(linkage), root_p_value)]
    while todo:
        node, p = todo.pop()
        tasks = np.sort(node.pre_order())
        if len(tasks) > 1 and p <= alpha * len(tasks) / T:
            parts = [(child, np.sort(child.pre_order())) for child in (node.left, node.right)]
            todo += [(child, p_value(part) if len(part) > 1 else 1.0) for child, part in parts]
            continue
        groups[tasks] = count
        count += 1
    return in_order(groups)


def group_likeness(
    data: PooledRows, groups: np.ndarray, level: float, rng: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """Return the groups (T,) after joining similar ones, and `TaskRelations.pairs` (G, G, 3).

    Each pair of groups has one correlation, over the rows of all tasks. Intervals come from a jackknife over parts of
    the rows of every task.
    """
    values, parts = _group_correlations(data, groups), _parts(data, rng)
    kept = [np.flatnonzero(parts != part) for part in range(PARTS)]
    without = np.stack([_group_correlations(data.take(rows), groups) for rows in kept])
    error = np.sqrt((PARTS - 1) / PARTS * np.square(without - without.mean(axis=0)).sum(axis=0))
    reach = stats.t.ppf(0.5 + level / 2, PARTS - 1) * error
    known = np.isfinite(values) & np.isfinite(reach)
    ends = [np.where(known, values, 0.0), np.where(known, values - reach, -1.0), np.where(known, values + reach, 1.0)]
    found = np.clip(ends, -1.0, 1.0)
    _, joined = connected_components(found[0] > ALIKE, directed=False)
    # Joined groups get the mean of their values.
    share = (joined[:, None] == np.arange(joined.max() + 1)) / np.bincount(joined)
    of_task = in_order(joined[groups])
    order = joined[groups][np.unique(of_task, return_index=True)[1]]
    return of_task, np.moveaxis(share.T @ found @ share, 0, 2)[order][:, order]


def _parts(data: PooledRows, rng: np.random.RandomState) -> np.ndarray:
    """Return the jackknife part (n,) of each entry; rows of X stay together, and no task loses all its entries."""
    used, first = np.unique(data.rows, return_index=True)
    # Assigned in turn task by task, so that every part has its share of each task.
    order = np.lexsort((rng.permutation(len(used)), data.codes[first]))
    labels = np.empty(data.rows.max() + 1, dtype=np.intp)
    labels[used[order]] = np.arange(len(used)) % PARTS
    parts = labels[data.rows]
    for start, size in zip(data.starts, data.sizes, strict=True):
        if len(set(parts[start : start + size].tolist())) == 1:
            parts[start : start + size] = PARTS
    return parts


def _group_correlations(data: PooledRows, groups: np.ndarray) -> np.ndarray:
    """Return the correlations (G, G) of group functions; the diagonal is for two tasks of a group. NaN: no variance.

    Products of a row with itself are left out, so that noise neither adds to the variance of a function nor lowers the
    correlations of tasks with few rows.
    """
    fit = CommonFit(data, offsets=True, floor=LIKENESS_FLOOR)
    features = fit.even
    scores, root = ScoreProducts(features, data), np.sqrt(data.sizes)
    deviations = scores.scores(fit.residuals) / root[:, None, None]
    # The common function in the same units as the deviations: means of features times values.
    common = features.T @ fit.fitted / len(features)
    # What errors are expected to add to the squared norm of these means.
    gain = features.T @ (fit.U * fit.shrink) / len(features)
    noise = float(np.square(fit.errors).sum(axis=1).mean() * np.square(gain).sum())
    shared = max(float(np.square(common).sum()) - noise, 0.0)
    cross = np.einsum("tjo,jo->t", deviations, common)
    # The variance of residuals around the level of a task of n rows is 1 - 1/n times that of errors.
    free = np.maximum(np.minimum.outer(data.sizes, data.sizes) - 1.0, 1.0)
    of_residuals = scores.matrix(fit.residuals) - scores.same_rows(fit.residuals) / free
    products = shared + cross[:, None] + cross + of_residuals / np.outer(root, root)
    member = (groups[:, None] == np.arange(groups.max() + 1)) * data.sizes[:, None].astype(np.float64)
    weights = member / member.sum(axis=0)
    own = weights.T @ np.diag(products)
    total = weights.T @ (products - np.diag(np.diag(products))) @ weights
    share = np.outer(weights.sum(axis=0), weights.sum(axis=0)) - np.diag(np.square(weights).sum(axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        covariance = np.where(share > 1e-12, total / share, np.nan)
        # A group with one task has no pair of tasks.
        single = np.flatnonzero(np.bincount(groups) == 1)
        covariance[single, single] = own[single]
        variance = np.where(own > 0, own, np.nan)
        return covariance / np.sqrt(np.outer(variance, variance))
