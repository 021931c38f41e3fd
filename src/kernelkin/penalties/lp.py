"""Independent components: the squared p-norm of each column of B."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from .base import Array, Penalty, half_square
from .factors import Relation


def check_power(p: float) -> float:
    """p as a float, if it is in [1, inf)."""
    if not 1 <= p < np.inf:
        raise ValueError(f"p must be in [1, inf), got {p!r}")
    return float(p)


def dual_power(p: float) -> float:
    """q with 1/p + 1/q = 1."""
    return np.inf if p == 1 else p / (p - 1)


def column_norms(X: Array, p: float) -> Array:
    """p-norms (J,) of the columns of X (K, J) >= 0, for p in [1, inf]."""
    # Relative to the largest entry: x^p over- or underflows for large p.
    top = X.max(axis=0)
    if np.isinf(p):
        return top
    relative = X / np.where(top > 0, top, 1.0)
    return top * (relative**p).sum(axis=0) ** (1 / p)


def norm_gradients(X: Array, norms: Array, p: float) -> Array:
    """Gradients (K, J) of half the squared p-norm of each column of X (K, J) >= 0, given the norms (J,)."""
    # At p = 1 a zero entry has the one-sided slope |x|_1, which 0**0 = 1 gives.
    return norms * (X / np.where(norms > 0, norms, 1.0)) ** (p - 1)


def half_square_norm(x: Array, mu: float) -> float:
    """|x|^2 / (2 mu) of x (J,) >= 0, without overflow or underflow on the way."""
    top = float(x.max(initial=0.0))
    if top == 0.0:
        return 0.0
    relative = x / top
    return half_square(top, mu) * float(relative @ relative)


class LpPenalty(Penalty):
    """R(B) = sum over components j of |b_j|_p^2.

    Parameters
    ----------
    p : float in [1, inf)
        Small p makes sparse weights, large p even ones.
    """

    name: ClassVar[str] = "lp"

    def __init__(self, p: float = 2.0) -> None:
        self.p = check_power(p)

    def value_and_gradient(self, B: Array) -> tuple[float, Array]:
        """R(B), and the gradient (K, J) of R/2 at B (K, J)."""
        norms = column_norms(B, self.p)
        return float(norms @ norms), norm_gradients(B, norms, self.p)

    def bound(self, Q: Array, B: Array, mu: float) -> float:
        """Minimum over B' >= 0 of (mu/2) R(B') - <B', Q>: exact, so B is not used."""
        return -half_square_norm(column_norms(Q, dual_power(self.p)), mu)

    def relation(self, B: Array) -> Relation:
        """I/J: the components are unrelated."""
        return Relation.unrelated(B.shape[1])
