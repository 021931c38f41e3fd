"""Groups of tasks: a tree by evidence, and the splits of it that pass a test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..decompositions import cholesky, inverse
from .common import CommonFit
from .rows import PooledRows

# Prior variances of the deviations that are tried, relative to that of the noise.
PRIORS = np.logspace(-3, 2, 11)
_BLOCK = 2000


@dataclass(frozen=True)
class TaskEvidence:
    """What tasks say about their deviations w from the common function: exp(score'w - w'information w / 2).

    Attributes
    ----------
    scores : (T, m, M), divided by the variance of the noise.
    information : (T, m, m), divided likewise.
    """

    scores: np.ndarray
    information: np.ndarray

    def of_tasks(self, prior: float) -> np.ndarray:
        """Log evidence (T,) of one deviation a task, of prior variance `prior`."""
        return log_evidence(self.scores, self.information, prior)

    def best_prior(self) -> float:
        return float(PRIORS[np.argmax([self.of_tasks(prior).sum() for prior in PRIORS])])


def task_evidence(data: PooledRows) -> TaskEvidence:
    """Evidence of the tasks' deviations from one function with offsets."""
    fit = CommonFit(data, offsets=True)
    noise = float(np.square(fit.errors).mean())
    F = fit.design
    scores = np.stack([data.sums(F * column[:, np.newaxis]) for column in fit.residuals.T], axis=2)
    parts = np.split(F, data.starts[1:])
    return TaskEvidence(scores / max(noise, 1e-300), np.stack([part.T @ part for part in parts]) / max(noise, 1e-300))


def log_evidence(scores: np.ndarray, information: np.ndarray, prior: float) -> np.ndarray:
    """Log evidence (P,) from scores (P, m, M) and information (P, m, m), of deviations of prior variance `prior`."""
    found = np.empty(len(scores))
    m, M = scores.shape[1:]
    for start in range(0, len(scores), _BLOCK):
        part = slice(start, start + _BLOCK)
        factor = cholesky(information[part] + np.eye(m) / prior)
        inside = inverse(factor) @ scores[part]
        logs = 2.0 * np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1) + m * np.log(prior)
        found[part] = 0.5 * np.square(inside).sum(axis=(1, 2)) - 0.5 * M * logs
    return found


def evidence_linkage(evidence: TaskEvidence) -> np.ndarray:
    """The tree of tasks (T - 1, 4), in scipy's form: the two clusters whose union has most evidence are joined.

    The height of a union is the log evidence that it loses, and never less than the heights below it: 0 where nothing
    speaks against it.
    """
    prior, T = evidence.best_prior(), len(evidence.scores)
    scores, information = list(evidence.scores), list(evidence.information)
    alone = list(evidence.of_tasks(prior))
    heights, counts, active = [0.0] * T, [1] * T, list(range(T))
    left, right = np.triu_indices(T, k=1)
    gains: dict[tuple[int, int], float] = {}
    _add_gains(gains, list(zip(left.tolist(), right.tolist(), strict=True)), scores, information, alone, prior)
    linkage = np.zeros((T - 1, 4))
    for step in range(T - 1):
        a, b = max(gains, key=lambda pair: gains[pair])
        height = max(-gains[a, b], heights[a], heights[b], 0.0)
        new = T + step
        linkage[step] = a, b, height, counts[a] + counts[b]
        scores.append(scores[a] + scores[b])
        information.append(information[a] + information[b])
        alone.append(gains[a, b] + alone[a] + alone[b])
        heights.append(height)
        counts.append(counts[a] + counts[b])
        active = [c for c in active if c not in (a, b)]
        gains = {pair: gain for pair, gain in gains.items() if a not in pair and b not in pair}
        _add_gains(gains, [(c, new) for c in active], scores, information, alone, prior)
        active.append(new)
    return linkage


def _add_gains(gains: dict, pairs: list, scores: list, information: list, alone: list, prior: float) -> None:
    """Add what the evidence gains by joining each of these pairs of clusters."""
    for start in range(0, len(pairs), _BLOCK):
        part = pairs[start : start + _BLOCK]
        joint = log_evidence(
            np.stack([scores[a] + scores[b] for a, b in part]),
            np.stack([information[a] + information[b] for a, b in part]),
            prior,
        )
        gains.update({(a, b): float(value) - alone[a] - alone[b] for (a, b), value in zip(part, joint, strict=True)})


def tested_groups(
    linkage: np.ndarray, p_value: Callable[[np.ndarray], float], root_p_value: float, alpha: float
) -> np.ndarray:
    """Labels (T,) of the groups: a cluster is split where its tasks do not pass as one, from the top of the tree.

    A cluster of q of the T tasks is tested at level alpha q / T: the chance that any group is split that is one is at
    most alpha. Labels are numbered in the order of the tasks.
    """
    T = len(linkage) + 1
    members = [np.array([t]) for t in range(T)]
    for a, b, _, _ in linkage:
        members.append(np.sort(np.concatenate([members[int(a)], members[int(b)]])))
    groups = np.zeros(T, dtype=np.intp)
    todo, count = [(len(members) - 1, root_p_value)], 0
    while todo:
        node, p = todo.pop()
        tasks = members[node]
        if len(tasks) > 1 and p <= alpha * len(tasks) / T:
            children = [int(child) for child in linkage[node - T, :2]]
            todo += [(c, p_value(members[c]) if len(members[c]) > 1 else 1.0) for c in children]
            continue
        groups[tasks] = count
        count += 1
    _, first, labels = np.unique(groups, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[labels]
