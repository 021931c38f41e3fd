"""Groups of tasks that training rows suggest, kept where one half of the rows finds what the other half confirms."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..data import TaskData
from .likeness import LEAST_ROWS, MAX_ROWS, FunctionLikeness, InputLikeness, Likeness, Sample

# Numbers of groups that are tried.
LEVELS = (2, 3, 5)
# How often rows are halved, and groups shuffled, to see whether groups are more than chance.
N_SPLITS, N_SHUFFLES = 6, 10
# Standard deviations of shuffled groups by which found ones must be more alike.
LEAST_GAIN = 2.0
# Functions of a task may agree with each other so much more than with other tasks' before sharing has no support.
MOST_OWN = 0.5


@dataclass(frozen=True)
class FoundGroups:
    """What training rows say about groups of tasks.

    Attributes
    ----------
    functions, inputs : group labels (T,), one array for each number of groups that passes.
    inputs_differ : whether tasks differ in their inputs by more than chance, in groups of any number.
    agreement : (T, T) mean correlations of functions fitted to one half of the rows with functions fitted to the
        other; None where there are too many tasks.
    """

    functions: tuple[np.ndarray, ...]
    inputs: tuple[np.ndarray, ...]
    inputs_differ: bool
    agreement: np.ndarray | None

    def support(self, matrix: np.ndarray) -> float:
        """Return how far the rows support a part that tasks share as a matrix (T, T) says, from 0 to 1.

        With halves of the rows, a task's function agrees with itself by `own` and with those of tasks that the matrix
        links by `linked`. Support is 1 where the two are the same, and 0 where `own` is larger by `MOST_OWN` or more.
        """
        links = matrix - np.diag(np.diag(matrix))
        if self.agreement is None or links.sum() <= 0:
            return 1.0
        own, linked = np.diag(self.agreement).mean(), (links * self.agreement).sum() / links.sum()
        return float(np.clip(1.0 - (own - linked) / MOST_OWN, 0.0, 1.0))


# What was found last, by what it was found in: a search asks again for every problem on the same rows.
_FOUND: dict[bytes, FoundGroups] = {}
_MAX_FOUND = 32


def find_groups(data: TaskData) -> FoundGroups:
    """Find groups of tasks by their functions and, where tasks have rows of their own, by their inputs.

    What halves of the rows agree on is kept, and how far functions of different tasks agree.
    """
    digest = hashlib.sha256(np.ascontiguousarray(data.X).tobytes())
    for part in (*data.rows, *data.y):
        digest.update(np.ascontiguousarray(part).tobytes())
    key = digest.digest()
    if key not in _FOUND:
        if len(_FOUND) >= _MAX_FOUND:
            _FOUND.clear()
        _FOUND[key] = _find(data)
    return _FOUND[key]


def _find(data: TaskData, seed: int = 0) -> FoundGroups:
    if data.n_tasks > MAX_ROWS // LEAST_ROWS:
        return FoundGroups((), (), False, None)
    levels = [level for level in LEVELS if 2 * level <= data.n_tasks]
    rng = np.random.default_rng(seed)
    sample = Sample.of(data, rng)
    likeness = FunctionLikeness.of(sample)
    functions = _passing(likeness, sample, levels, rng)
    inputs: tuple[np.ndarray, ...] = ()
    if data.form != "wide":
        inputs = _passing(InputLikeness(sample.kernel(1.0), sample.rows), sample, levels, rng)
    agreement = np.mean([likeness.correlations(*halves) for halves in _halves(sample, rng)], axis=0)
    return FoundGroups(functions, inputs, bool(inputs), agreement)


def _passing(
    likeness: Likeness, sample: Sample, levels: Sequence[int], rng: np.random.Generator
) -> tuple[np.ndarray, ...]:
    """Return the groups of all rows, for numbers of groups that halves of the rows agree on."""
    if not levels:
        return ()
    gains: dict[int, list[float]] = {level: [] for level in levels}
    shuffled: dict[int, list[float]] = {level: [] for level in levels}
    for half, other in _halves(sample, rng):
        found, judged = (_without_main_effects(likeness.distances(parts)) for parts in (half, other))
        for level in levels:
            labels = cluster(found, level)
            gains[level].append(_gain(labels, judged))
            shuffled[level] += [_gain(rng.permutation(labels), judged) for _ in range(N_SHUFFLES)]
    whole = _without_main_effects(likeness.distances(sample.every))
    passing = [level for level in levels if np.mean(gains[level]) > LEAST_GAIN * np.std(shuffled[level]) > 0]
    return tuple(cluster(whole, level) for level in passing)


def _halves(sample: Sample, rng: np.random.Generator) -> Iterator[tuple[list[np.ndarray], list[np.ndarray]]]:
    """Halves of each task's rows with like targets, each pair in both orders."""
    for _ in range(N_SPLITS):
        first, second = [], []
        for y in sample.y:
            order = rng.permutation(len(y))
            order = order[np.lexsort(y[order].T)]
            start = int(rng.integers(2))
            first.append(order[start::2])
            second.append(order[1 - start :: 2])
        yield first, second
        yield second, first


def _without_main_effects(distances: np.ndarray) -> np.ndarray:
    """Squared distances (T, T), T > 2, without how far each task is from all others on average.

    The function of a task with few rows is noisy, and so far from all others: that makes no group of such tasks.
    """
    T = len(distances)
    means = distances.sum(axis=1) / (T - 1)
    effects = (T - 1) / (T - 2) * (means - means.mean())
    found = np.maximum(distances - effects[:, np.newaxis] - effects, 0.0)
    np.fill_diagonal(found, 0.0)
    return found


def cluster(distances: np.ndarray, n_groups: int) -> np.ndarray:
    """Squared distances (T, T) -> group labels (T,), by Ward's method, which prefers groups of like size."""
    from scipy.cluster.hierarchy import fcluster, linkage

    apart = np.sqrt(distances[np.triu_indices(len(distances), 1)])
    return fcluster(linkage(apart, "ward"), n_groups, "maxclust")


def _gain(labels: np.ndarray, distances: np.ndarray) -> float:
    """How much closer tasks of one group are than tasks of two; 0 where there are none of either."""
    upper = np.triu_indices(len(labels), 1)
    same = (labels[:, np.newaxis] == labels)[upper]
    apart = distances[upper]
    return float(apart[~same].mean() - apart[same].mean()) if same.any() and not same.all() else 0.0
