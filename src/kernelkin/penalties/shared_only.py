"""Tasks without parts of their own: all that is learned is what they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from .base import Array, Penalty
from .factors import Relation


class SharedOnlyPenalty(Penalty):
    """R(B) = S(shared columns of B) where the columns of the tasks' own parts are zero; infinite elsewhere.

    With one coupling of all tasks, they have one function and differ by their intercepts. The free variables are the
    shared columns.

    Parameters
    ----------
    n_tasks : int
        Number T of columns of own parts, which come first.
    shared : Penalty
        S, on the other columns.
    """

    name: ClassVar[str] = "shared only"

    def __init__(self, n_tasks: int, shared: Penalty) -> None:
        if n_tasks < 1:
            raise ValueError(f"n_tasks must be at least 1, got {n_tasks!r}")
        self.n_tasks = int(n_tasks)
        self.shared = shared

    def value_and_gradient(self, B: Array) -> tuple[float, Array]:
        """R(B), and the gradient (K, J) of R/2 along the shared columns; zeros in the others."""
        value, gradient = self.shared.value_and_gradient(B[:, self.n_tasks :])
        own = B[:, : self.n_tasks]
        return np.inf if own.any() else value, np.hstack([np.zeros_like(own), gradient])

    def bound(self, Q: Array, B: Array, mu: float) -> float:
        """Lower bound on the minimum over B' >= 0 of (mu/2) R(B') - <B', Q>, which the shared columns alone decide."""
        return self.shared.bound(Q[:, self.n_tasks :], B[:, self.n_tasks :], mu)

    def relation(self, B: Array) -> Relation:
        """11'/J: the tasks are one."""
        return Relation.identical(B.shape[1])

    def revised(self, B: Array, tol: float) -> SharedOnlyPenalty:
        """With the next penalty of the shared columns."""
        shared = self.shared.revised(B[:, self.n_tasks :], tol)
        return self if shared is self.shared else SharedOnlyPenalty(self.n_tasks, shared)

    def kernel_relation(self, n_kernels: int) -> Array | None:
        """That of the shared columns."""
        return self.shared.kernel_relation(n_kernels)

    def ladder(self) -> Sequence[SharedOnlyPenalty]:
        """Those of the shared columns."""
        *rungs, _ = self.shared.ladder()
        return (*(SharedOnlyPenalty(self.n_tasks, rung) for rung in rungs), self)

    def free(self, B: Array) -> Array:
        """Free variables of the shared columns of B (K, J)."""
        return self.shared.free(B[:, self.n_tasks :])

    def expand(self, V: Array) -> Array:
        """Weights B (K, J) with zeros for the tasks' own parts."""
        shared = self.shared.expand(V)
        return np.hstack([np.zeros((len(shared), self.n_tasks)), shared])

    def pull(self, G: Array) -> Array:
        """Gradient in the free variables of a gradient G (K, J) in B."""
        return self.shared.pull(G[:, self.n_tasks :])
