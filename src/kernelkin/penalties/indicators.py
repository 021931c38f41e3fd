"""Indicators of the kernel weights that are allowed: given ones, or one mix on the simplex for all components."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from .base import Array, Penalty
from .factors import Relation

# What rounding may leave between the sum of weights on the simplex and one.
_ROUNDING = 1e-9


class FixedWeights(Penalty):
    """R(B) = 0 at the given weights, infinite elsewhere: nothing about the kernels is learned.

    Parameters
    ----------
    B : array (K, J)
        The kernel weights.
    """

    name: ClassVar[str] = "fixed"
    is_indicator: ClassVar[bool] = True

    def __init__(self, B: Array) -> None:
        self.B = np.array(B, dtype=np.float64)
        if self.B.ndim != 2 or not (np.isfinite(self.B) & (self.B >= 0)).all():
            raise ValueError("fixed kernel weights must be an array (K, J) of finite numbers that are not negative")

    def value_and_gradient(self, B: Array) -> tuple[float, Array]:
        """0 or infinity, and zeros (K, J)."""
        return 0.0 if np.array_equal(B, self.B) else np.inf, np.zeros_like(B)

    def bound(self, Q: Array, B: Array, mu: float) -> float:
        """-<B, Q> at the given weights."""
        return -float(np.vdot(self.B, Q))

    def relation(self, B: Array) -> Relation:
        """I/J: the components are unrelated."""
        return Relation.unrelated(B.shape[1])


class SimplexPenalty(Penalty):
    """R(B) = 0 where all columns are equal, not negative and sum to one; infinite elsewhere.

    Parameters
    ----------
    n_components : int
        Number J of components.
    """

    name: ClassVar[str] = "simplex"
    is_indicator: ClassVar[bool] = True

    def __init__(self, n_components: int) -> None:
        if n_components < 1:
            raise ValueError(f"n_components must be at least 1, got {n_components!r}")
        self.n_components = int(n_components)

    def value_and_gradient(self, B: Array) -> tuple[float, Array]:
        """0 or infinity, and zeros (K, J)."""
        first = B[:, :1]
        allowed = bool((first == B).all() and (first >= 0).all() and abs(first.sum() - 1.0) <= _ROUNDING)
        return 0.0 if allowed else np.inf, np.zeros_like(B)

    def bound(self, Q: Array, B: Array, mu: float) -> float:
        """-max_k sum_j Q_kj: the minimum is at a corner of the simplex."""
        # Sums of weights may be off by rounding.
        return -float(Q.sum(axis=1).max()) * (1.0 + _ROUNDING)

    def relation(self, B: Array) -> Relation:
        """11'/J: the components share one mix."""
        return Relation.identical(self.n_components)

    def free(self, B: Array) -> Array:
        """Shared weights (K, 1) of B (K, J)."""
        return B[:, :1]

    def expand(self, V: Array) -> Array:
        """Weights B (K, J) with the column V (K, 1) for every component."""
        return np.repeat(V, self.n_components, axis=1)

    def pull(self, G: Array) -> Array:
        """Gradient (K, 1) in the shared weights of a gradient G (K, J) in B."""
        return G.sum(axis=1, keepdims=True)
