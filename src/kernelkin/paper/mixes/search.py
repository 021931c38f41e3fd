"""The search: a few mixes that tasks share, leave-one-out errors of all tasks at each, and each task's own weights.

The first mix is even, the second that of all tasks, the others are those of groups of tasks with like weights. For each
mix there is one eigendecomposition; leave-one-out errors at all strengths, and a step towards each task's own weights,
are matrix products then. Where labels are missing, out-of-fold errors by conjugate gradients take their place; see
`masked`. Tasks choose among mixes and strengths by their errors. A task that chooses a learned mix takes its own
weights in its place where these predict rows that took no part in finding them better.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..grams.operator import SharedOperator
from .components import expected_gains, mean_strengths
from .held_out import Group, gains_of_own_weights
from .left_out import Targets
from .masked import MaskedTargets
from .targets import TaskTargets, best_strength

# Strengths that are tried: C times the sum of the weights, for kernels of mean diagonal one.
STRENGTHS = np.logspace(-3, 4, 15)
# Groups of tasks with mixes of their own: at most so many, each of so many tasks in the mean.
GROUPS, TASKS_PER_GROUP = 8, 12
# What weights of a task's own must gain, as a share of the variance of its targets: less is the accuracy of machines.
_LEAST_GAIN = 1e-4


@dataclass(frozen=True)
class TaskMixes:
    """What the search found.

    Attributes
    ----------
    B : (K, T) the kernel weights of each task, at cost 1.
    mixes : (m, K) the mixes that were tried, of sum one.
    strengths : (c,) those that were tried.
    errors : (m, c, T) mean squares of the leave-one-out errors; of out-of-fold errors where labels are missing.
    variance : (T,) mean squares of the targets, less their means where there is an intercept.
    choices : (T, 2) the mix and the strength that each task chose, by position.
    by_own : (T,) whether its weights are its own in the place of that mix.
    """

    B: np.ndarray
    mixes: np.ndarray
    strengths: np.ndarray
    errors: np.ndarray
    variance: np.ndarray
    choices: np.ndarray
    by_own: np.ndarray


def choose_mixes(
    operator: SharedOperator,
    Y: np.ndarray,
    *,
    has_intercept: bool,
    strengths: np.ndarray = STRENGTHS,
    n_groups: int = GROUPS,
) -> TaskMixes:
    """Choose the kernel weights of each column of Y (n, T), with NaN for missing labels."""
    targets = _read_targets(operator, Y, has_intercept, strengths)
    every, even = np.arange(Y.shape[1]), np.full(operator.n_kernels, 1.0 / operator.n_kernels)
    plain = targets.decompose(even)
    strength = best_strength(targets, targets.losses(plain), every)
    reference, own = targets.reference(plain, strength), targets.own_weights(plain, strength, every)
    mixes, found = [even], [targets.errors(plain, reference)]
    groups: list[Group] = []
    for labels in (np.zeros(len(every), dtype=int), None):
        labels = _groups(own, n_groups) if labels is None else labels
        start, groups = own, []
        own = own.copy()
        for label in range(labels.max() + 1):
            members = np.flatnonzero(labels == label)
            spectrum = targets.decompose(mean_mix(start[:, members]))
            mixes.append(spectrum.mix)
            found.append(targets.errors(spectrum, reference))
            groups.append(Group(members, spectrum.mix, best_strength(targets, found[-1].loss, members)))
            own[:, members] = targets.own_weights(spectrum, groups[-1].strength, members)
    errors = np.array([each.loss for each in found])
    # Targets may have any units: tasks are compared by shares of their variance.
    unit = targets.variance
    gains = np.array([unit * expected_gains(each.gain / unit, each.error / unit) for each in found])
    return _take(own, groups, np.array(mixes), targets, errors, gains)


def _read_targets(operator: SharedOperator, Y: np.ndarray, has_intercept: bool, strengths: np.ndarray) -> TaskTargets:
    """The targets (n, T) with NaN for missing labels; where there are any, with strengths that suit them."""
    if np.isnan(Y).any():
        return MaskedTargets.of(operator, Y, has_intercept, strengths).with_useful_strengths()
    return Targets(operator, Y - Y.mean(axis=0) if has_intercept else Y, has_intercept, strengths)


def _take(
    own: np.ndarray, groups: list[Group], mixes: np.ndarray, targets: TaskTargets, errors: np.ndarray, gains: np.ndarray
) -> TaskMixes:
    """The weights of each task from own weights (K, T), mixes (m, K), and errors and gains (m, c, T)."""
    n_tasks, strengths = own.shape[1], targets.strengths
    best = gains.reshape(-1, n_tasks).argmax(axis=0)
    mix, strength = np.divmod(best, len(strengths))
    loss = errors[mix, strength, np.arange(n_tasks)]
    total = mean_strengths(strengths, gains[mix, :, np.arange(n_tasks)].T, loss, targets.n_labels)
    shared, sums = total * mixes[mix].T, own.sum(axis=0)
    gain, error = gains_of_own_weights(targets, groups, shared)
    share = expected_gains((gain / targets.variance)[np.newaxis], (error / targets.variance)[np.newaxis])[0]
    by_own = (share > _LEAST_GAIN) & (mix > 0) & (sums > 0)
    B = np.where(by_own, total * own / np.where(sums > 0, sums, 1.0), shared)
    return TaskMixes(B, mixes, strengths, errors, targets.variance, np.column_stack([mix, strength]), by_own)


def mean_mix(weights: np.ndarray) -> np.ndarray:
    """Weights (K, T) -> (K,): the mean of their directions, of sum one; even where all are zero."""
    sums = weights.sum(axis=0)
    if not (sums > 0).any():
        return np.full(len(weights), 1.0 / len(weights))
    return (weights[:, sums > 0] / sums[sums > 0]).mean(axis=1)


def _groups(weights: np.ndarray, n_groups: int) -> np.ndarray:
    """The group (T,) of each task, by the direction of its weights (K, T)."""
    sums = np.maximum(weights.sum(axis=0), np.finfo(float).tiny)
    points = np.sqrt(weights / sums).T
    count = min(n_groups, len(points) // TASKS_PER_GROUP, len(np.unique(points.round(6), axis=0)))
    if count < 2:
        return np.zeros(len(points), dtype=int)
    # Imported here: scikit-learn's clustering takes a sixth of a second to import, which only this needs.
    from sklearn.cluster import KMeans

    return np.unique(KMeans(count, n_init=1, random_state=0).fit_predict(points), return_inverse=True)[1]
