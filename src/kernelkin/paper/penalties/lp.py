"""Penalties that relate nothing: p-norms of the weights of each component or of all, and weights that are fixed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from .base import Array, Penalty, Relation, half_square


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


class SharedMix(Penalty):
    """A penalty whose components share one mix of kernels, as one column (K, 1) of free variables.

    Parameters
    ----------
    n_components : int
        Number J of components.
    """

    def __init__(self, n_components: int) -> None:
        if n_components < 1:
            raise ValueError(f"n_components must be at least 1, got {n_components!r}")
        self.n_components = int(n_components)

    def relation(self, B: Array) -> Relation:
        """11'/J: the components are one."""
        return Relation.identical(self.n_components)

    def expand(self, V: Array) -> Array:
        """Weights B (K, J) with the column V (K, 1) for every component."""
        return np.repeat(V, self.n_components, axis=1)

    def pull(self, G: Array) -> Array:
        """Gradient (K, 1) in the shared weights of a gradient G (K, J) in B."""
        return G.sum(axis=1, keepdims=True)


class SharedLpPenalty(SharedMix):
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
        super().__init__(n_components)
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

    def free(self, B: Array) -> Array:
        """Shared weights (K, 1) of B (K, J)."""
        return B.max(axis=1, keepdims=True)


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


class SimplexPenalty(SharedMix):
    """R(B) = 0 where all columns are equal, not negative and sum to one; infinite elsewhere.

    Parameters
    ----------
    n_components : int
        Number J of components.
    """

    name: ClassVar[str] = "simplex"
    is_indicator: ClassVar[bool] = True

    def value_and_gradient(self, B: Array) -> tuple[float, Array]:
        """0 or infinity, and zeros (K, J)."""
        first = B[:, :1]
        allowed = bool((first == B).all() and (first >= 0).all() and abs(first.sum() - 1.0) <= _ROUNDING)
        return 0.0 if allowed else np.inf, np.zeros_like(B)

    def bound(self, Q: Array, B: Array, mu: float) -> float:
        """-max_k sum_j Q_kj: the minimum is at a corner of the simplex."""
        # Sums of weights may be off by rounding.
        return -float(Q.sum(axis=1).max()) * (1.0 + _ROUNDING)

    def free(self, B: Array) -> Array:
        """Shared weights (K, 1) of B (K, J)."""
        return B[:, :1]
