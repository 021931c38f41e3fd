"""One kernel mix for all components: the squared p-norm of their shared weights."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from .base import Array, Penalty
from .factors import Relation
from .lp import check_power, column_norms, dual_power, half_square_norm, norm_gradients


class SharedLpPenalty(Penalty):
    """R(B) = |w|_p^2 with w_k = max over components j of B_kj.

    No machine's value rises with a weight, so there is an optimum where all columns of B are w: the free variables are
    w as one column (K, 1).

    Parameters
    ----------
    n_components : int
        Number J of components.
    p : float in [1, inf)
        Small p makes sparse weights, large p even ones.
    """

    name: ClassVar[str] = "shared"

    def __init__(self, n_components: int, p: float = 2.0) -> None:
        if n_components < 1:
            raise ValueError(f"n_components must be at least 1, got {n_components!r}")
        self.n_components = int(n_components)
        self.p = check_power(p)

    def value_and_gradient(self, B: Array) -> tuple[float, Array]:
        """R(B), and a (sub)gradient (K, J) of R/2 at a B (K, J) whose columns are equal."""
        w = self.free(B)
        norm = column_norms(w, self.p)
        gradient = self.expand(norm_gradients(w, norm, self.p)) / self.n_components
        return float(norm @ norm), gradient

    def bound(self, Q: Array, B: Array, mu: float) -> float:
        """Minimum over B' >= 0 of (mu/2) R(B') - <B', Q>: exact, so B is not used."""
        return -half_square_norm(column_norms(self.pull(Q), dual_power(self.p)), mu)

    def relation(self, B: Array) -> Relation:
        """11'/J: the components are one."""
        return Relation.identical(self.n_components)

    def free(self, B: Array) -> Array:
        """Shared weights (K, 1) of B (K, J)."""
        return B.max(axis=1, keepdims=True)

    def expand(self, V: Array) -> Array:
        """Weights B (K, J) with the column V (K, 1) for every component."""
        return np.repeat(V, self.n_components, axis=1)

    def pull(self, G: Array) -> Array:
        """Gradient (K, 1) in the shared weights of a gradient G (K, J) in B."""
        return G.sum(axis=1, keepdims=True)
