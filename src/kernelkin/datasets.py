"""Synthetic data: tasks with known kernels and groups."""

from __future__ import annotations

import numpy as np
from sklearn.utils import Bunch, check_random_state

from .decompositions import cholesky
from .kernels.families import view_kernels
from .kernels.kernel import fit_kernels

__all__ = ["make_related_tasks"]

# Added to the diagonal of Gram matrices, which are singular up to rounding.
_JITTER = 1e-8
# Share of the weights of a task that is common to its group.
_SIMILARITY = 0.9


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
    test_size: int = 0,
    random_state: int | np.random.RandomState | None = None,
) -> Bunch:
    """Draw tasks that satisfy the assumption of MK-MTRL: kernel weights are similar within groups of tasks.

    Each kernel is a Gaussian on its own block of columns. The tasks of a group use the same few kernels with similar
    weights, and each task's function is an independent draw from the Gaussian process of its weighted sum of kernels.
    So rows of other tasks tell nothing about the function of a task, but help to find its kernels.

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
    test_size : int, default=0
        Held-out rows of each task.
    random_state : int, RandomState or None
        Seed.

    Returns
    -------
    Bunch
        ``data`` (T * n_samples, K * n_features_per_kernel), ``target`` and ``tasks`` (labels "task00" and on), and
        ``data_test``, ``target_test``, ``tasks_test`` for the held-out rows; ``task_names`` (T,), ``groups`` (T,),
        ``kernel_weights`` (T, K) with rows that sum to one, ``kernels`` (list of K), ``feature_names``.

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
    rng = check_random_state(random_state)
    groups = np.arange(n_tasks) * n_groups // n_tasks
    weights = np.zeros((n_tasks, n_kernels))
    order = rng.permutation(n_kernels)
    for g in range(n_groups):
        # Consecutive kernels, cyclic, with evenly spaced starts: all different, and disjoint if there are enough.
        used = order[(g * n_kernels // n_groups + np.arange(n_relevant)) % n_kernels]
        common = rng.dirichlet(np.full(n_relevant, 5.0))
        own = rng.dirichlet(np.ones(n_relevant), size=np.count_nonzero(groups == g))
        weights[np.ix_(groups == g, used)] = _SIMILARITY * common + (1 - _SIMILARITY) * own
    width = n_features_per_kernel
    kernels = view_kernels({f"view{k}": list(range(k * width, (k + 1) * width)) for k in range(n_kernels)})

    X = rng.standard_normal((n_tasks, n_samples + test_size, n_kernels * width))
    fitted = fit_kernels(kernels, X.reshape(-1, X.shape[-1]))
    f = np.empty(X.shape[:2])
    for t, (b, rows) in enumerate(zip(weights, X, strict=True)):
        gram = sum(b[k] * fitted[k](rows) for k in np.flatnonzero(b))
        f[t] = cholesky(gram + _JITTER * np.eye(len(rows))) @ rng.standard_normal(len(rows))
    if regression:
        y = f + noise * rng.standard_normal(f.shape)
    else:
        labels = np.where(f > np.median(f, axis=1, keepdims=True), 1, -1)
        y = np.where(rng.uniform(size=f.shape) < noise, -labels, labels)

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
    )
