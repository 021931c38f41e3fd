"""Synthetic data: tasks with known kernels and groups, and shops."""

from __future__ import annotations

from inspect import getdoc
from typing import Any

import numpy as np
from sklearn.utils import Bunch, check_random_state

from .decompositions import cholesky
from .kernels.families import view_kernels
from .kernels.kernel import fit_kernels

__all__ = ["make_related_tasks", "make_shops"]

# Added to the diagonal of Gram matrices, which are singular up to rounding.
_JITTER = 1e-8
# Share of the weights of a task that is common to its group.
_SIMILARITY = 0.9
# Share of the variance of a shop's function that is common to all shops, and the noise, for functions of variance one.
_LIKENESS, _NOISE = 0.7, 0.3
_FEATURES = ("day", "temperature", "price", "rain", "humidity", "wind", "pressure")


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
        DESCR=getdoc(make_related_tasks),
    )


def make_shops(
    n_shops: int = 12,
    n_days: int = 15,
    *,
    test_size: int = 0,
    random_state: int | np.random.RandomState | None = None,
    return_X_y: bool = False,
) -> Any:
    """Draw daily sales of shops, with few days each.

    Sales depend on the day of the year, the temperature and the price; rain, humidity, wind and pressure are
    irrelevant. A part of the function is common to all shops, the rest is each shop's own, and shops differ in size.

    Parameters
    ----------
    n_shops : int, default=12
        Number of shops, the tasks.
    n_days : int, default=15
        Training rows of each shop.
    test_size : int, default=0
        Held-out rows of each shop.
    random_state : int, RandomState or None
        Seed.
    return_X_y : bool, default=False
        Return ``(data, target, tasks)`` of the training rows instead of a Bunch.

    Returns
    -------
    Bunch or tuple
        ``data`` (n_shops * n_days, 7), ``target`` (sales) and ``tasks`` (labels "shop01" and on), and ``data_test``,
        ``target_test``, ``tasks_test`` for the held-out rows; ``task_names``, ``feature_names``, ``DESCR``.

    Examples
    --------
    >>> from kernelkin.datasets import make_shops
    >>> data = make_shops(n_shops=3, n_days=10, random_state=0)
    >>> data.data.shape, data.tasks[::10].tolist()
    ((30, 7), ['shop01', 'shop02', 'shop03'])
    >>> data.feature_names
    ['day', 'temperature', 'price', 'rain', 'humidity', 'wind', 'pressure']
    """
    if min(n_shops, n_days) < 1 or test_size < 0:
        raise ValueError("n_shops and n_days must be positive, and test_size not negative")
    rng = check_random_state(random_state)
    names = np.array([f"shop{s + 1:0{max(2, len(str(n_shops)))}d}" for s in range(n_shops)])
    size = np.exp(0.5 * rng.standard_normal(n_shops))
    peaks, (season, warmth, discount) = rng.uniform(0, 365, n_shops), rng.standard_normal((3, n_shops))

    def parts(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the common part (q, 1) and the own parts (q, n_shops) of the functions at X (q, 7)."""
        day, temperature, price = X[:, :3].T[:, :, np.newaxis]
        year = 2 * np.pi * day / 365
        common = np.sin(year) + 0.7 * np.sin(2 * year) + 1.5 * np.exp(-(((temperature - 24) / 6) ** 2)) - 0.6 * price
        own = season * np.cos(year - 2 * np.pi * peaks / 365) + warmth * np.sin(temperature / 5) - discount * price
        return common, own

    sample = parts(_draw_days(2000, rng))
    means, spreads = [part.mean(axis=0) for part in sample], [part.std(axis=0) for part in sample]
    shares = np.sqrt([_LIKENESS, 1.0 - _LIKENESS])

    def draw(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draw rows, sales and names for n days of each shop, sorted by shop."""
        X, shop = _draw_days(n * n_shops, rng), np.repeat(np.arange(n_shops), n)
        f = sum(s * (part - m) / d for part, m, d, s in zip(parts(X), means, spreads, shares, strict=True))
        values = f + _NOISE * rng.standard_normal((len(X), 1))
        return X, (size * (100.0 + 20.0 * values))[np.arange(len(X)), shop], names[shop]

    train, test = draw(n_days), draw(test_size)
    if return_X_y:
        return train
    found = dict(zip(("data", "target", "tasks", "data_test", "target_test", "tasks_test"), train + test, strict=True))
    return Bunch(**found, feature_names=list(_FEATURES), task_names=names, DESCR=getdoc(make_shops))


def _draw_days(n: int, rng: np.random.RandomState) -> np.ndarray:
    """Draw days (n, 7); temperatures follow the season, the other columns are independent of it."""
    day = rng.uniform(1, 366, n)
    temperature = 13 - 8 * np.cos(2 * np.pi * day / 365) + 5 * rng.standard_normal(n)
    price, rain = rng.uniform(2, 4, n), rng.exponential(2.0, n)
    humidity, wind, pressure = rng.uniform(30, 90, n), rng.gamma(2.0, 5.0, n), 1013 + 8 * rng.standard_normal(n)
    return np.column_stack([day, temperature, price, rain, humidity, wind, pressure])
