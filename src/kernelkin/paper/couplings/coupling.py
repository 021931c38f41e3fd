"""A coupling: a part of the function that several tasks share, and which tasks couplings link into one machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...data import missing
from ...decompositions import eigh, eigvalsh
from .task_kernels import TaskKernel


@dataclass(frozen=True)
class Coupling:
    """A named coupling with matrix M = L L'.

    Attributes
    ----------
    name : what reports call it.
    factor : (T, r) L.
    kernel : the kernel between tasks that it comes from, where it was made from features of tasks.
    charge : what its part's Gram matrices were multiplied by; 1 where its diagonal is one.
    """

    name: str
    factor: np.ndarray
    kernel: TaskKernel | None = None
    charge: float = 1.0

    @property
    def matrix(self) -> np.ndarray:
        return self.factor @ self.factor.T

    @property
    def is_common(self) -> bool:
        """Whether all tasks, and any other, share one function here."""
        return self.factor.shape[1] == 1 and bool(np.allclose(self.factor, self.factor[0]))

    @property
    def n_sharing(self) -> float:
        """How many tasks share one function: T for a common part, the size of the groups for equal groups."""
        # |M|^2 / tr M, from the (r, r) side.
        return float(np.sum((self.factor.T @ self.factor) ** 2) / np.sum(self.factor**2))

    def charged(self, sharing: float) -> Coupling:
        """Return the coupling with its part's Gram matrices divided by what it costs, n_sharing^(1 - sharing)."""
        charge = self.n_sharing ** (sharing - 1.0)
        return replace(self, factor=self.factor * np.sqrt(charge), charge=self.charge * charge)

    def factor_of_new(self, values: np.ndarray) -> np.ndarray:
        """Kernel values (q, T) between new tasks and those of training -> the rows (q, r) that extend L.

        L's columns are orthogonal, and values of a kernel are in the range of M, so that L_new L' = M_new.
        """
        squares = np.sum(self.factor**2, axis=0)
        return self.charge * (values @ self.factor) / np.where(squares > 0, squares, 1.0)


def width(couplings: Sequence[Coupling]) -> int:
    """Return the number of columns of all couplings' factors together."""
    return sum(coupling.factor.shape[1] for coupling in couplings)


def connected_tasks(couplings: Sequence[Coupling], n_tasks: int) -> list[np.ndarray]:
    """Return the tasks of each machine: those that couplings link, directly or through others."""
    if not couplings:
        return list(np.arange(n_tasks)[:, np.newaxis])
    from scipy.sparse import block_array, csr_array
    from scipy.sparse.csgraph import connected_components

    # A graph of tasks and columns of the couplings' factors: nothing of size T x T is needed.
    touches = csr_array(np.hstack([coupling.factor for coupling in couplings]))
    graph = block_array([[None, touches], [touches.T, None]])
    labels = connected_components(graph, directed=False)[1][:n_tasks]
    return [np.flatnonzero(labels == c) for c in dict.fromkeys(labels.tolist())]


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
