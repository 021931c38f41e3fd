"""Synthetic tasks whose kernel weights and groups are known."""

from __future__ import annotations

import numpy as np
from sklearn.utils import Bunch, check_random_state

from ..decompositions import cholesky
from ..kernels.families import view_kernels
from ..kernels.kernel import fit_kernels

JITTER = 1e-8  # Gaussian Grams are singular to rounding

DESCR = (
    "Tasks in groups. Each kernel is a Gaussian on its own block of columns; the tasks of a group use the same few "
    "kernels with similar weights, and each task's function is an independent draw from the Gaussian process of its "
    "weighted sum of kernels. So rows of other tasks carry no information on a task's function, but on its kernels."
)


def make_related_tasks(
    n_tasks: int = 12,
    n_groups: int = 3,
    n_kernels: int = 6,
    *,
    n_samples: int = 40,
    n_features_per_kernel: int = 2,
    n_relevant: int = 2,
    noise: float = 0.1,
    regression: bool = True,
    similarity: float = 0.9,
    test_size: int = 0,
    random_state: int | np.random.RandomState | None = None,
) -> Bunch:
    """Draw tasks that satisfy the assumption of MK-MTRL: kernel weights are similar within groups of tasks.

    Parameters
    ----------
    n_tasks : int, default=12
        Number of tasks T.
    n_groups : int, default=3
        Number of groups of tasks, at most ``min(n_tasks, n_kernels)``.
    n_kernels : int, default=6
        Number of kernels K.
    n_samples : int, default=40
        Training rows of each task.
    n_features_per_kernel : int, default=2
        Columns of each kernel's block.
    n_relevant : int, default=2
        Number of kernels that each group uses. Groups use disjoint kernels if ``n_groups * n_relevant <= n_kernels``.
    noise : float, default=0.1
        Regression: standard deviation of the noise, for functions of variance one. Classification: share of flipped
        labels, below 0.5.
    regression : bool, default=True
        Whether targets are real numbers; otherwise they are labels -1 and 1, below and above the task's median.
    similarity : float in [0, 1], default=0.9
        Similarity of the weights within a group; 1 makes them equal.
    test_size : int, default=0
        Held-out rows of each task.
    random_state : int, RandomState or None
        Seed.

    Returns
    -------
    Bunch
        ``data`` (T * n_samples, K * n_features_per_kernel), ``target`` and ``tasks`` (labels "task00" and on), and
        ``data_test``, ``target_test``, ``tasks_test`` for the held-out rows; ``task_names`` (T,), ``groups`` (T,),
        ``kernel_weights`` (T, K) with rows that sum to one, ``kernels`` (list of K), ``feature_names``, ``DESCR``.

    Examples
    --------
    >>> from kernelkin.datasets import make_related_tasks
    >>> data = make_related_tasks(4, 2, 6, n_samples=20, random_state=0)
    >>> data.data.shape, data.groups.tolist()
    ((80, 12), [0, 0, 1, 1])
    >>> (data.kernel_weights > 0).sum(axis=1).tolist()
    [2, 2, 2, 2]
    """
    if min(n_tasks, n_groups, n_kernels, n_samples, n_features_per_kernel, n_relevant) < 1 or test_size < 0:
        raise ValueError("all numbers must be positive (test_size: not negative)")
    if n_groups > min(n_tasks, n_kernels):
        raise ValueError(f"n_groups={n_groups} is more than n_tasks={n_tasks} or n_kernels={n_kernels}")
    if n_relevant > n_kernels:
        raise ValueError(f"n_relevant={n_relevant} is more than n_kernels={n_kernels}")
    if noise < 0 or (not regression and noise >= 0.5):
        raise ValueError(f"noise must not be negative, and below 0.5 for classification; got {noise!r}")
    if not 0 <= similarity <= 1:
        raise ValueError(f"similarity must be between 0 and 1, got {similarity!r}")
    rng = check_random_state(random_state)
    groups = np.arange(n_tasks) * n_groups // n_tasks
    weights = _draw_weights(groups, n_kernels, n_relevant, similarity, rng)
    width = n_features_per_kernel
    kernels = view_kernels({f"view{k}": list(range(k * width, (k + 1) * width)) for k in range(n_kernels)})

    X = rng.standard_normal((n_tasks, n_samples + test_size, n_kernels * width))
    fitted = fit_kernels(kernels, X.reshape(-1, X.shape[-1]))
    f = np.stack([_draw_function(fitted, b, rows, rng) for b, rows in zip(weights, X, strict=True)])
    y = f + noise * rng.standard_normal(f.shape) if regression else _draw_labels(f, noise, rng)

    names = np.array([f"task{t:0{max(2, len(str(n_tasks - 1)))}d}" for t in range(n_tasks)])
    # Long form, sorted by task.
    parts = {}
    for suffix, rows in (("", slice(n_samples)), ("_test", slice(n_samples, None))):
        parts[f"data{suffix}"], parts[f"target{suffix}"] = X[:, rows].reshape(-1, X.shape[2]), y[:, rows].ravel()
        parts[f"tasks{suffix}"] = np.repeat(names, y[:, rows].shape[1])
    return Bunch(
        **parts,
        feature_names=[f"view{k}_{j}" for k in range(n_kernels) for j in range(width)],
        task_names=names,
        groups=groups,
        kernel_weights=weights,
        kernels=kernels,
        DESCR=DESCR,
    )


def _draw_weights(
    groups: np.ndarray, n_kernels: int, n_relevant: int, similarity: float, rng: np.random.RandomState
) -> np.ndarray:
    """Return weights (T, K) for groups (T,): zero except for the group's kernels; rows sum to one."""
    weights = np.zeros((len(groups), n_kernels))
    order = rng.permutation(n_kernels)
    n_groups = groups[-1] + 1
    for g in range(n_groups):
        # Consecutive kernels, cyclic, with evenly spaced starts: all different, and disjoint if there are enough.
        used = order[(g * n_kernels // n_groups + np.arange(n_relevant)) % n_kernels]
        common = rng.dirichlet(np.full(n_relevant, 5.0))
        own = rng.dirichlet(np.ones(n_relevant), size=np.count_nonzero(groups == g))
        weights[np.ix_(groups == g, used)] = similarity * common + (1 - similarity) * own
    return weights


def _draw_function(fitted: list, b: np.ndarray, X: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """Return the values (n,) at X (n, d) of a draw from the Gaussian process with kernel sum_k b_k k_k."""
    gram = sum(b[k] * fitted[k](X) for k in np.flatnonzero(b))
    return cholesky(gram + JITTER * np.eye(len(X))) @ rng.standard_normal(len(X))


def _draw_labels(f: np.ndarray, noise: float, rng: np.random.RandomState) -> np.ndarray:
    """Return labels (T, n) in {-1, 1} for values (T, n), half of each in every task before flips."""
    labels = np.where(f > np.median(f, axis=1, keepdims=True), 1, -1)
    return np.where(rng.uniform(size=f.shape) < noise, -labels, labels)
