"""What the problems share: data, Gram matrices as a user would compute them, and a judge outside all contenders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel


def referee(model: Any, X: np.ndarray, y: np.ndarray, tasks: np.ndarray | None = None) -> Callable[[np.ndarray], float]:
    """The objective of `model` on these rows, as a function of kernel weights B (K, T); machines to a gap of 1e-8."""
    data = model.training_data(X, y, tasks)
    plan = model.specification().plan(data)
    grams, _ = plan.grams()
    problem, units = plan.problem(grams), plan.units
    return lambda B: units.restore(problem.evaluate(units.weights(B), tol=1e-8)).primal


def polynomial_stack(X: np.ndarray, degrees: Sequence[int]) -> np.ndarray:
    """(K, n, n) polynomial Grams of mean diagonal one."""
    return scaled([polynomial_kernel(X, degree=degree, gamma=1, coef0=1) for degree in degrees])


def gaussian_stack(X: np.ndarray, widths: Sequence[float], Y: np.ndarray | None = None) -> np.ndarray:
    """Gaussians of each width on each feature, kernels of one width side by side; their diagonal is one."""
    columns = [(X[:, [j]], None if Y is None else Y[:, [j]]) for j in range(X.shape[1])]
    return np.stack([rbf_kernel(x, z, gamma=0.5 / width**2) for width in widths for x, z in columns])


def scaled(grams: Sequence[np.ndarray]) -> np.ndarray:
    return np.stack([gram / gram.diagonal().mean() for gram in grams])


def landmine_like(seed: int, rows: int, n_tasks: int = 19, share: float = 0.15) -> tuple[np.ndarray, ...]:
    """Two groups of tasks with rare positives on 9 standardised features: X, y, tasks."""
    rng = np.random.default_rng(seed)
    truth = np.random.default_rng(0)
    linear, curved = truth.normal(size=(2, 9)), truth.normal(size=(2, 9))
    own = 0.3 * truth.normal(size=(n_tasks, 9))
    X, tasks = rng.normal(size=(n_tasks * rows, 9)), np.repeat(np.arange(n_tasks), rows)
    group = tasks % 2
    score = np.sum(X * (linear[group] + own[tasks]), axis=1) + np.sum((X**2 - 1) * curved[group], axis=1)
    score += rng.normal(size=len(X))
    cut = np.array([np.quantile(score[tasks == t], 1 - share) for t in range(n_tasks)])
    return X, np.where(score > cut[tasks], 1, -1), tasks


def wide_targets(seed: int, n: int, n_tasks: int, n_features: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """X (n, d) and targets (n, T): each of five groups of tasks lives on two features of its own."""
    rng, truth = np.random.default_rng(seed), np.random.default_rng(0)
    mix = truth.normal(size=(n_tasks, 2))
    X = rng.uniform(-2, 2, size=(n, n_features))
    group = np.arange(n_tasks) % 5
    Y = np.sin(2 * X[:, 2 * group]) * mix[:, 0] + np.tanh(2 * X[:, 2 * group + 1]) * mix[:, 1]
    return X, Y + 0.3 * rng.normal(size=Y.shape)


def mean_auc(values: np.ndarray, y: np.ndarray, tasks: np.ndarray) -> float:
    return float(np.mean([roc_auc_score(y[tasks == t], values[tasks == t]) for t in np.unique(tasks)]))


def mean_r2(prediction: np.ndarray, Y: np.ndarray) -> float:
    residual, spread = ((Y - prediction) ** 2).sum(axis=0), ((Y - Y.mean(axis=0)) ** 2).sum(axis=0)
    return float(np.mean(1 - residual / spread))
