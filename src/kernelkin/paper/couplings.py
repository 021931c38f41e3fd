"""Couplings: parts of the functions that several tasks share, and their penalty.

Coupling j has a T x T positive semi-definite matrix M_j with unit diagonal on its tasks. Its part of the kernel is
`sum_k b_kj M_j[t, t'] k_k(x, x')`, so each coupling adds one column to the kernel weights B.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.arrays import listing, missing, named_matrix
from ..data.forms import TaskData
from ..decompositions import eigh, eigvalsh

COMMON = "common"


@dataclass(frozen=True)
class Coupling:
    """A named coupling with matrix M = L L'."""

    name: str  # name in reports
    factor: np.ndarray  # (T, r) L

    @property
    def matrix(self) -> np.ndarray:
        return self.factor @ self.factor.T

    @property
    def is_common(self) -> bool:
        """Whether all tasks, including new ones, share one function here."""
        return self.factor.shape[1] == 1 and bool(np.allclose(self.factor, self.factor[0]))

    def charged(self, sharing: float) -> Coupling:
        """Return the coupling with its Gram matrices divided by m^(1 - sharing), if m tasks share a function."""
        # |M|^2 / tr M, from the (r, r) side: T for a common part, the group size for equal groups.
        m = float(np.sum((self.factor.T @ self.factor) ** 2) / np.sum(self.factor**2))
        return Coupling(self.name, self.factor * np.sqrt(m ** (sharing - 1.0)))


def connected_tasks(couplings: Sequence[Coupling], n_tasks: int) -> list[np.ndarray]:
    """Return the tasks of each machine: tasks that are linked by couplings, directly or indirectly."""
    if not couplings:
        return list(np.arange(n_tasks)[:, np.newaxis])
    from scipy.sparse import block_array, csr_array
    from scipy.sparse.csgraph import connected_components

    # A bipartite graph of tasks and columns of the factors avoids a T x T matrix.
    touches = csr_array(np.hstack([coupling.factor for coupling in couplings]))
    graph = block_array([[None, touches], [touches.T, None]])
    labels = connected_components(graph, directed=False)[1][:n_tasks]
    return [np.flatnonzero(labels == c) for c in dict.fromkeys(labels.tolist())]


def read_couplings(couplings: Any, data: TaskData, sharing: float = 1.0) -> tuple[Coupling, ...]:
    """Return the couplings of the tasks of these data, charged according to `sharing`.

    None: no couplings. "common": one function for all tasks. A dict from names to "common", to group labels (one per
    task, in the order of `data.labels`, or a dict or Series by task; tasks with the same label share a function) or to
    T x T matrices, as arrays in that order or as data frames named by the tasks.
    """
    if couplings is None:
        return ()
    if isinstance(couplings, str) and couplings == COMMON:
        couplings = {COMMON: COMMON}
    if not isinstance(couplings, Mapping):
        got = repr(couplings) if isinstance(couplings, str) else type(couplings).__name__
        raise ValueError(f"couplings must be None, 'common' or a dict, got {got}")
    found = [Coupling(str(name), _factor(name, value, data)) for name, value in couplings.items()]
    names = [coupling.name for coupling in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"couplings have duplicate names: {listing(twice)}")
    return tuple(coupling.charged(sharing) for coupling in found)


def _factor(name: Any, value: Any, data: TaskData) -> np.ndarray:
    """Return a factor (T, r) of one coupling: common, groups, or a matrix."""
    tasks = data.labels
    if isinstance(value, str) and value == COMMON:
        return np.ones((data.n_tasks, 1))
    if hasattr(value, "iloc") and not hasattr(value, "columns"):  # a pandas Series
        value = dict(value.items())
    if isinstance(value, Mapping) and not any(map(np.ndim, value.values())):
        unnamed = [task for task in tasks.tolist() if task not in value]
        if unnamed:
            raise ValueError(f"coupling {name!r} has no label for task {listing(unnamed)}")
        value = [value[task] for task in tasks.tolist()]
    array = named_matrix(value, tasks.tolist(), f"coupling {name!r}")
    if array.ndim == 1:
        return _group_factor(name, array, tasks)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"coupling {name!r} is neither one label for each task nor a matrix of real numbers")
    return _matrix_factor(name, array.astype(np.float64), tasks)


def _group_factor(name: Any, labels: np.ndarray, tasks: np.ndarray) -> np.ndarray:
    """Return indicators (T, groups): the tasks of a group share one function."""
    if len(labels) != len(tasks):
        raise ValueError(f"coupling {name!r} has {len(labels)} group labels, but there are {len(tasks)} tasks")
    if missing(labels).any():
        raise ValueError(f"coupling {name!r} has no group for task {tasks[missing(labels)][0].item()!r}")
    try:
        codes = np.unique(labels, return_inverse=True)[1]
    except TypeError:
        raise ValueError(f"the group labels of coupling {name!r} are of mixed types") from None
    return (codes[:, np.newaxis] == np.arange(codes.max() + 1)).astype(np.float64)


def _matrix_factor(name: Any, M: np.ndarray, tasks: np.ndarray) -> np.ndarray:
    """Return a thin factor of a positive semi-definite matrix with 1 on its diagonal (0 for tasks not coupled)."""
    T = len(tasks)
    if M.shape != (T, T):
        raise ValueError(f"coupling {name!r} has shape {M.shape}; {T} tasks need ({T}, {T}), or one label each")
    if not np.isfinite(M).all() or np.abs(M - M.T).max() > 1e-8:
        raise ValueError(f"coupling {name!r} is not a finite symmetric matrix")
    diagonal = np.diag(M)
    bad = ~(np.isclose(diagonal, 1.0) | (diagonal == 0))
    if bad.any():
        raise ValueError(
            f"coupling {name!r} must have 1 on its diagonal, or 0 for tasks that it does not couple; task "
            f"{tasks[bad][0].item()!r} has {diagonal[bad][0]:g}"
        )
    if not diagonal.any():
        raise ValueError(f"coupling {name!r} is zero: it links no tasks")
    values = eigvalsh((M + M.T) / 2)
    if values[0] < -1e-8 * T:
        raise ValueError(f"coupling {name!r} is not positive semi-definite: its smallest eigenvalue is {values[0]:.3g}")
    return block_factor((M + M.T) / 2)


def block_factor(M: np.ndarray) -> np.ndarray:
    """Factor M (T, T) = L L' by connected blocks, so that unlinked tasks share no column of L (T, r)."""
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
