"""A coupling: a part of the function that several tasks share, and which tasks couplings link into one machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

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
