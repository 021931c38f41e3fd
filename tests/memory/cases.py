"""Data of several shapes, and the memory that a fit allocates."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np

MB = 10**6


def long(n_tasks: int, n: int, d: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`n_tasks` tasks of n rows each; mostly noise, so that support vector machines have many support vectors."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_tasks * n, d))
    return X, 0.5 * X[:, 0] + rng.normal(size=len(X)), np.repeat(np.arange(n_tasks), n)


def wide(n: int, n_tasks: int, d: int = 4) -> tuple[np.ndarray, np.ndarray, None]:
    """n rows with a target for each task."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, 0.5 * X[:, :1] + rng.normal(size=(n, n_tasks)), None


def peak(model: Any, X: np.ndarray, y: np.ndarray, tasks: np.ndarray | None) -> int:
    """Bytes that a fit allocates at most, without what is imported and compiled once."""
    few = slice(None) if tasks is None else np.flatnonzero(tasks <= 2)
    model.fit(X[few][:60], y[few][:60], tasks=None if tasks is None else tasks[few][:60])
    tracemalloc.start()
    try:
        model.fit(X, y, tasks=tasks)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
