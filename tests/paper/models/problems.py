"""Small multi-task data in every form, and models of every loss."""

import numpy as np

from kernelkin import MKMTRLClassifier, MKMTRLRegressor
from kernelkin.datasets import make_related_tasks

N_TASKS, N_ROWS = 3, 14
NAMES = np.array(["ada", "bea", "cyd"])

MODELS = {
    "hinge": MKMTRLClassifier(),
    "squared": MKMTRLRegressor(),
    "epsilon": MKMTRLRegressor(loss="epsilon_insensitive"),
}


def long_data(seed=0, classes=2, n=N_ROWS):
    """X (T n, 3), real targets, class labels and the task of each row, in mixed order."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_TASKS * n, 3))
    tasks = rng.permutation(np.repeat(NAMES, n))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] * (tasks == "cyd") + 0.1 * rng.normal(size=len(X))
    ranks = np.empty(len(y), dtype=int)
    for name in NAMES:
        rows = np.flatnonzero(tasks == name)
        ranks[rows] = np.argsort(np.argsort(y[rows]))
    return X, y, ranks * classes // n, tasks


def wide_data(seed=0, n=20, T=N_TASKS):
    """X (n, 3), Y (n, T)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(X) @ rng.normal(size=(3, T)) + 0.1 * rng.normal(size=(n, T))


def grouped_data(regression=True, seed=0):
    """Two groups of tasks that need disjoint kernels."""
    return make_related_tasks(
        n_tasks=6,
        n_groups=2,
        n_kernels=4,
        n_samples=40 if regression else 200,
        noise=0.1 if regression else 0.0,
        regression=regression,
        random_state=seed,
    )


def targets(model, y, labels):
    return labels if isinstance(model, MKMTRLClassifier) else y


def values(model, X, **tasks):
    """Real values, of which classes are the signs."""
    return model.decision_function(X, **tasks) if hasattr(model, "decision_function") else model.predict(X, **tasks)
