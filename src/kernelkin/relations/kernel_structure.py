"""Relations by kernels: do tasks use one mix of kernels?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from ..data import TaskData
from ..decompositions import eigh, inverse, pseudo_inverse
from .estimate import Likeness
from .groups import TaskEvidence, evidence_linkage, tested_groups
from .kernel_scores import MixScores, TaskProcess, task_grams
from .likeness import kernel_root
from .pooled import PooledKernels, centred, pooled_kernels, spread_rows
from .result import TaskRelations
from .rows import pool
from .structure import StructureTest, shared_p_value

# Directions of the mix with less than this share of the information are weighted down.
FLOOR = 0.01
POSTERIOR_DRAWS = 400
FEWEST_ROWS, MOST_TASK_ROWS = 3, 200
# The share of the common mix that all kernels have evenly: nothing can be said of a kernel without weight.
EVEN_SHARE = 0.1


@dataclass(frozen=True)
class MixEvidence:
    """Scores (T, K), information (T, K, K) and draws (n, T, K) of tasks, against a mix that they have in common."""

    scores: np.ndarray
    information: np.ndarray
    draws: np.ndarray

    @classmethod
    def of(cls, found: list[MixScores]) -> MixEvidence:
        return cls(
            np.stack([task.scores for task in found]),
            np.stack([task.information for task in found]),
            np.stack([task.draws for task in found], axis=1),
        )

    def select(self, tasks: np.ndarray) -> MixEvidence:
        return MixEvidence(self.scores[tasks], self.information[tasks], self.draws[:, tasks])

    def test(self) -> StructureTest:
        """The spread of the tasks around the mix that suits all of them best, against that of the draws."""
        standard = self._standardise(np.concatenate([self.scores[np.newaxis], self.draws]))
        # The expected length of a task's vector, so that tasks with more information do not look further away.
        expected = np.diag(np.square(standard[1:]).sum(axis=2).mean(axis=0))
        products = (vectors @ vectors.T - expected for vectors in standard)
        return StructureTest.of(next(products), products)

    def directions(self) -> np.ndarray:
        """Products (T, T, K) of the tasks' vectors by direction, less their expected lengths."""
        standard = self._standardise(np.concatenate([self.scores[np.newaxis], self.draws]))
        _, vectors = eigh(self.information.sum(axis=0))
        turned = standard @ vectors
        products = np.einsum("sk,tk->stk", turned[0], turned[0])
        T = np.arange(len(self.scores))
        products[T, T] -= np.square(turned[1:]).mean(axis=0)
        return products

    def _standardise(self, scores: np.ndarray) -> np.ndarray:
        """Scores (n, T, K) against the best common mix, as vectors of nearly one variance in every direction."""
        total = self.information.sum(axis=0)
        ridge = FLOOR * np.trace(total) / len(total) * np.eye(len(total))
        common = scores.sum(axis=1) @ pseudo_inverse(total + ridge)
        left = scores - np.einsum("tkl,nl->ntk", self.information, common)
        roots = np.stack([_inverse_root(task) for task in self.information])
        return np.einsum("tkl,ntl->ntk", roots, left)


def _inverse_root(information: np.ndarray) -> np.ndarray:
    """(information + ridge)^(-1/2) for symmetric (K, K)."""
    values, vectors = eigh(information)
    values = np.maximum(values, 0.0)
    return (vectors / np.sqrt(values + FLOOR * max(values.sum(), 1e-300))) @ vectors.T


@dataclass(frozen=True)
class MixProblem:
    """Gram matrices (K, n_t, n_t) and centred targets (n_t, M) of each task, and the mixes (T, K) of the model."""

    grams: list[np.ndarray]
    targets: list[np.ndarray]
    mixes: np.ndarray
    wide: bool

    def evidence(self, tasks: np.ndarray, n: int, rng: np.random.RandomState) -> tuple[MixEvidence, np.ndarray]:
        """Evidence of some tasks against a mix that they have in common, with n draws; and that mix."""
        mix = self._common_mix(tasks)
        processes = self._processes(tasks, mix)
        normals = _normals(processes, n, self.wide, rng)
        return MixEvidence.of([p.scores(y, mix, z) for (p, y), z in zip(processes, normals, strict=True)]), mix

    def _processes(self, tasks: np.ndarray, mix: np.ndarray) -> list[tuple[TaskProcess, np.ndarray]]:
        return [(TaskProcess.fit(self.grams[t], mix, self.targets[t]), self.targets[t]) for t in tasks]

    def _common_mix(self, tasks: np.ndarray) -> np.ndarray:
        """The model's mean mix of these tasks, after half a step of Fisher scoring.

        Half a step takes most of the misfit of one mix out, which would look like differences. More steps lead from
        tasks of several mixes to that of a few of them, against which the others say nothing any more.
        """
        mix = _blend(self.mixes[tasks].mean(axis=0))
        processes = self._processes(tasks, mix)
        no_draws = [np.zeros((len(process.spectrum), y.shape[1], 0)) for process, y in processes]
        found = MixEvidence.of([p.scores(y, mix, none) for (p, y), none in zip(processes, no_draws, strict=True)])
        total = found.information.sum(axis=0)
        ridge = FLOOR * np.trace(total) / len(total) * np.eye(len(total))
        return _blend(mix + 0.5 * pseudo_inverse(total + ridge) @ found.scores.sum(axis=0))


def _blend(mix: np.ndarray) -> np.ndarray:
    """A mix (K,) of shares that sum to one, with a little of every kernel."""
    mix = np.maximum(mix, 0.0)
    return (1 - EVEN_SHARE) * mix / mix.sum() + EVEN_SHARE / len(mix)


def kernel_relations(
    model: Any, data: TaskData, n_permutations: int, alpha: float, rng: np.random.RandomState
) -> TaskRelations:
    """Relations by kernels, from the model's kernels and its mean mix."""
    if min(map(len, data.rows)) < FEWEST_ROWS:
        raise ValueError(f"by='kernels' needs {FEWEST_ROWS} rows of every task or more")
    kernels, mixes = pooled_kernels(model, data.X)
    problem = _problem(kernels, mixes, data, classification=is_classifier(model))

    def node_p_value(tasks: np.ndarray) -> float:
        return problem.evidence(tasks, n_permutations, rng)[0].test().tail_p_value

    evidence, mix = problem.evidence(np.arange(data.n_tasks), n_permutations, rng)
    sizes = np.array(list(map(len, data.rows)))
    p_value = evidence.test().p_value
    shared = shared_p_value(evidence.directions(), sizes, n_permutations, rng)
    tree = TaskEvidence(evidence.scores[..., np.newaxis], evidence.information)
    linkage = evidence_linkage(tree)
    groups = tested_groups(linkage, node_p_value, p_value, alpha)
    used = np.unique(np.concatenate(data.rows))
    sample = used[spread_rows(len(used))]
    root = kernel_root(centred(kernels.grams(data.X, sample, sample)))
    likeness = mix_likeness(root, mix, tree, groups, 1 - alpha, rng)
    structured = p_value <= alpha
    return TaskRelations(
        tasks=data.labels,
        by="kernels",
        structured=structured,
        p_value=p_value,
        likeness=likeness.values,
        intervals=likeness.intervals,
        groups=groups,
        shares_more=structured and shared <= alpha,
        shared_p_value=shared,
        linkage=linkage,
        null="simulation",
        reason="tasks may use one mix of kernels and have different functions",
        alpha=alpha,
        n_permutations=n_permutations,
        sizes=sizes,
    )


def _problem(kernels: PooledKernels, mixes: np.ndarray, data: TaskData, *, classification: bool) -> MixProblem:
    rows = pool(data, np.zeros((len(data.X), 1)), classification=classification)
    samples = [spread_rows(len(part), MOST_TASK_ROWS) for part in data.rows]
    used = np.unique(np.concatenate(data.rows))
    sample = used[spread_rows(len(used))]
    # One scale for all tasks: scales of their own would make different mixes of one.
    traces = np.einsum("kii->k", centred(kernels.grams(data.X, sample, sample))) / len(sample)
    scale = np.where(traces > 0, traces, 1.0)
    grams = [task_grams(kernels, data.X, part[kept], scale) for part, kept in zip(data.rows, samples, strict=True)]
    targets = [y[kept] for y, kept in zip(np.split(rows.targets, rows.starts[1:]), samples, strict=True)]
    return MixProblem(grams, [y - y.mean(axis=0) for y in targets], mixes, data.form == "wide")


def _normals(
    processes: list[tuple[TaskProcess, np.ndarray]], n: int, wide: bool, rng: np.random.RandomState
) -> list[np.ndarray]:
    """Standard normals (n_t - 1, M, n) of each task; those of tasks on the same rows as correlated as their targets."""
    shapes = [(len(process.spectrum), y.shape[1], n) for process, y in processes]
    if not wide or len(set(shapes)) > 1:
        return [rng.standard_normal(shape) for shape in shapes]
    whitened = np.stack([(process.vectors @ process.whitened(y)).ravel() for process, y in processes])
    values, vectors = eigh(np.corrcoef(whitened))
    mixed = (vectors * np.sqrt(np.maximum(values, 0.0))) @ rng.standard_normal((len(processes), np.prod(shapes[0])))
    return [part.reshape(shapes[0]) for part in mixed]


def mix_likeness(
    root: np.ndarray,
    mix: np.ndarray,
    tree: TaskEvidence,
    groups: np.ndarray,
    level: float,
    rng: np.random.RandomState,
) -> Likeness:
    """Alignment of the combined kernels of groups; one for two tasks of a group, which pass as one.

    Intervals hold the middle of draws of the groups' mixes given the rows; two draws of one mix within a group.
    """
    prior = tree.best_prior()
    G = int(groups.max()) + 1
    means, draws = [], []
    for g in range(G):
        information = tree.information[groups == g].sum(axis=0) + np.eye(len(mix)) / prior
        covariance = inverse(information)
        mean = mix + covariance @ tree.scores[groups == g, :, 0].sum(axis=0)
        means.append(mean)
        draws.append(rng.multivariate_normal(mean, covariance, size=2 * POSTERIOR_DRAWS, check_valid="ignore"))
    points = _alignment(root, np.stack(means)[np.newaxis], np.stack(means)[np.newaxis])[0]
    np.fill_diagonal(points, 1.0)
    first, second = np.stack(draws, axis=1)[:POSTERIOR_DRAWS], np.stack(draws, axis=1)[POSTERIOR_DRAWS:]
    ends = np.quantile(_alignment(root, first, second), [(1 - level) / 2, (1 + level) / 2], axis=0)
    ends[1][np.diag_indices(G)] = 1.0
    intervals = np.moveaxis(0.5 * (ends + ends.transpose(0, 2, 1)), 0, 2)[groups][:, groups]
    values = points[groups][:, groups]
    own = np.arange(len(groups))
    values[own, own], intervals[own, own] = 1.0, 1.0
    return Likeness(values, intervals)


def _alignment(root: np.ndarray, mixes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Alignments (n, G, G) of the combined kernels of mixes (n, G, K), where they are positive, and others."""
    left, right = (np.maximum(each, 0.0) @ root.T for each in (mixes, others))
    length = np.sqrt(np.square(left).sum(axis=2)), np.sqrt(np.square(right).sum(axis=2))
    products = np.einsum("ngk,nhk->ngh", left, right)
    norms = length[0][:, :, np.newaxis] * length[1][:, np.newaxis]
    return np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)
