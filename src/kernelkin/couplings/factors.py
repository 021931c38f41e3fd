"""Thin factors L (T, r) of couplings M = L L'; L's columns are orthogonal."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data import missing
from ..decompositions import eigh, eigvalsh


def group_factor(name: Any, labels: np.ndarray, tasks: np.ndarray) -> np.ndarray:
    """(T, groups) zero or one: the tasks of a group share one function."""
    if len(labels) != len(tasks):
        raise ValueError(f"coupling {name!r} has {len(labels)} group labels, and there are {len(tasks)} tasks")
    if missing(labels).any():
        raise ValueError(f"coupling {name!r} has no group for task {tasks[missing(labels)][0].item()!r}")
    try:
        codes = np.unique(labels, return_inverse=True)[1]
    except TypeError:
        raise ValueError(f"the group labels of coupling {name!r} are of mixed types") from None
    return (codes[:, np.newaxis] == np.arange(codes.max() + 1)).astype(np.float64)


def matrix_factor(name: Any, M: np.ndarray, tasks: np.ndarray) -> np.ndarray:
    """A thin factor of a positive semi-definite matrix with ones on its diagonal (zeros for tasks it leaves alone)."""
    T = len(tasks)
    if M.shape != (T, T):
        raise ValueError(f"coupling {name!r} has shape {M.shape}; {T} tasks need ({T}, {T}), or one label each")
    if not np.isfinite(M).all() or np.abs(M - M.T).max() > 1e-8:
        raise ValueError(f"coupling {name!r} is not a finite symmetric matrix")
    diagonal = np.diag(M)
    if not (np.isclose(diagonal, 1.0) | (diagonal == 0)).all():
        bad = int(np.argmax(~(np.isclose(diagonal, 1.0) | (diagonal == 0))))
        raise ValueError(
            f"coupling {name!r} must have 1 on its diagonal, or 0 for tasks it leaves alone; task "
            f"{tasks[bad].item()!r} has {diagonal[bad]:g}"
        )
    if not diagonal.any():
        raise ValueError(f"coupling {name!r} is zero: it links no tasks")
    values = eigvalsh((M + M.T) / 2)
    if values[0] < -1e-8 * T:
        raise ValueError(f"coupling {name!r} is not positive semi-definite: its smallest eigenvalue is {values[0]:.3g}")
    return block_factor((M + M.T) / 2)


def block_factor(M: np.ndarray) -> np.ndarray:
    """Factor M (T, T) = L L' block by block, so that tasks that are not linked share no column of L (T, r)."""
    from scipy.sparse.csgraph import connected_components

    columns = []
    count, labels = connected_components(np.abs(M) > 1e-12, directed=False)
    for block in range(count):
        tasks = np.flatnonzero(labels == block)
        values, vectors = eigh(M[np.ix_(tasks, tasks)])
        kept = values > 1e-12 * max(values[-1], 1e-12)
        factor = np.zeros((len(M), int(kept.sum())))
        factor[tasks] = vectors[:, kept] * np.sqrt(values[kept])
        columns.append(factor)
    return np.hstack(columns)
