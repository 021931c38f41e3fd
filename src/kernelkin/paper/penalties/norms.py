"""Penalties without a task relationship (p-norms, fixed weights, the simplex), and norms of the functions.

Norms of functions are convex functions of the norms x >= 0 of the functions, homogeneous of degree two. They have
`value(x)` and `conjugate(v)`, the maximum over x >= 0 of <x, v> - value(x).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...decompositions import eigh
from .relation import Array, Penalty, Relation

# Tolerance for the sum of weights on the simplex.
_ROUNDING = 1e-9
# Smallest relative share: with a share of zero, a task could never use the kernel again.
_LEAST_SHARE = 1e-12


def column_norms(X: Array, p: float) -> Array:
    """p-norms (J,) of the columns of X (K, J) >= 0, for p in [1, inf]."""
    # Divide by the largest entry: x^p overflows or underflows for large p.
    top = X.max(axis=0)
    if np.isinf(p):
        return top
    relative = X / np.where(top > 0, top, 1.0)
    return top * (relative**p).sum(axis=0) ** (1 / p)


class LpPenalty(Penalty):
    """R(B) = sum over components j of |b_j|_p^2, for p in [1, inf): sparse weights for small p, even ones for large."""

    name: ClassVar[str] = "lp"

    def __init__(self, p: float = 2.0) -> None:
        if not 1 <= p < np.inf:
            raise ValueError(f"p must be in [1, inf), got {p!r}")
        self.p = float(p)

    def value_and_gradient(self, B: Array) -> tuple[float, Array]:
        norms = column_norms(B, self.p)
        # At p = 1 a zero entry has the one-sided slope |x|_1, which 0**0 = 1 gives.
        return float(norms @ norms), norms * (B / np.where(norms > 0, norms, 1.0)) ** (self.p - 1)

    def bound(self, Q: Array, B: Array, mu: float) -> float:
        """The minimum itself, by the dual norms of Q; B is not used."""
        norms = column_norms(Q, np.inf if self.p == 1 else self.p / (self.p - 1))
        top = float(norms.max(initial=0.0))
        return 0.0 if top == 0.0 else -0.5 * (top / np.sqrt(mu)) ** 2 * float(np.square(norms / top).sum())

    def relation(self, B: Array) -> Relation:
        return Relation.unrelated(B.shape[1])


class SharedLpPenalty(Penalty):
    """R(B) = |w|_p^2 with w_k = max over components j of B_kj, for p in [1, inf).

    The values of machines do not increase with the weights, so there is an optimum where all columns of B equal w.
    """

    name: ClassVar[str] = "shared"
    shared: ClassVar[bool] = True

    def __init__(self, p: float = 2.0) -> None:
        self._one = LpPenalty(p)
        self.p = self._one.p

    def value_and_gradient(self, B: Array) -> tuple[float, Array]:
        """R(B), and a (sub)gradient (K, J) of R/2 at a B (K, J) whose columns are equal."""
        value, gradient = self._one.value_and_gradient(B.max(axis=1, keepdims=True))
        return value, np.repeat(gradient, B.shape[1], axis=1) / B.shape[1]

    def bound(self, Q: Array, B: Array, mu: float) -> float:
        """The minimum itself; B is not used."""
        return self._one.bound(Q.sum(axis=1, keepdims=True), B, mu)

    def relation(self, B: Array) -> Relation:
        return Relation.identical(B.shape[1])


class FixedWeights(Penalty):
    """R(B) = 0 at the given weights B (K, J), infinite elsewhere: nothing about the kernels is learned."""

    name: ClassVar[str] = "fixed"
    is_indicator: ClassVar[bool] = True

    def __init__(self, B: Array) -> None:
        self.B = np.array(B, dtype=np.float64)
        if self.B.ndim != 2 or not (np.isfinite(self.B) & (self.B >= 0)).all():
            raise ValueError("fixed kernel weights must be an array (K, J) of finite, non-negative numbers")

    def value_and_gradient(self, B: Array) -> tuple[float, Array]:
        return 0.0 if np.array_equal(B, self.B) else np.inf, np.zeros_like(B)

    def bound(self, Q: Array, B: Array, mu: float) -> float:
        return -float(np.vdot(self.B, Q))

    def relation(self, B: Array) -> Relation:
        return Relation.unrelated(B.shape[1])


class SimplexPenalty(Penalty):
    """R(B) = 0 if all columns are equal, non-negative and sum to one; infinite otherwise."""

    name: ClassVar[str] = "simplex"
    is_indicator: ClassVar[bool] = True
    shared: ClassVar[bool] = True

    def value_and_gradient(self, B: Array) -> tuple[float, Array]:
        first = B[:, :1]
        allowed = bool((first == B).all() and (first >= 0).all() and abs(first.sum() - 1.0) <= _ROUNDING)
        return 0.0 if allowed else np.inf, np.zeros_like(B)

    def bound(self, Q: Array, B: Array, mu: float) -> float:
        """-max_k sum_j Q_kj: the minimum is at a corner of the simplex."""
        # Sums of weights may differ from one by rounding.
        return -float(Q.sum(axis=1).max()) * (1.0 + _ROUNDING)

    def relation(self, B: Array) -> Relation:
        return Relation.identical(B.shape[1])


@dataclass(frozen=True)
class MixedNorm:
    """1/2 (sum_k (sum_t x_kt^p)^(1/p))^2 of the sizes x_kt = |w_tk| (K, T).

    With gamma on the simplex and |lambda_k| = 1 in the norm that is dual to p/2, pt = p/(p-2), it is the minimum over
    gamma of the maximum over lambda of sum_kt lambda_kt x_kt^2 / (2 gamma_k).

    Parameters
    ----------
    p : float in [2, inf]
    """

    p: float = 2.0
    name: ClassVar[str] = "mixed"

    def __post_init__(self) -> None:
        if not self.p >= 2:
            raise ValueError(f"p must be in [2, inf], got {self.p!r}")

    def value(self, x: Array) -> float:
        """Half the squared norm of x (K, T)."""
        return 0.5 * float(self.kernel_norms(x).sum()) ** 2

    def conjugate(self, v: Array) -> float:
        """Half the squared dual norm of v (K, T): the largest over kernels of the dual norm over tasks."""
        return float(self.dual_terms(0.5 * np.square(v)).max())

    def relation(self, B: Array) -> Relation:
        """Return 11'/T: all tasks share one selection of kernels."""
        return Relation.identical(B.shape[1])

    def kernel_norms(self, x: Array) -> Array:
        """p-norms over tasks (K,) of x (K, T)."""
        return column_norms(x.T, self.p)

    def dual_terms(self, Q: Array) -> Array:
        """N_k = (sum_t Q_kt^(s/2))^(2/s), 1/s + 1/p = 1, (K,), of Q = v^2/2 (K, T)."""
        return column_norms(np.sqrt(Q).T, 1.0 if np.isinf(self.p) else self.p / (self.p - 1.0)) ** 2

    def shares(self, Q: Array) -> Array:
        """Optimal lambda (K, T) for Q: proportional to Q^(1/(pt+1)) = Q^((p-2)/(2p-2)), with pt-norm one."""
        if self.p == 2:
            return np.ones_like(Q)
        power, pt = (0.5, 1.0) if np.isinf(self.p) else ((self.p - 2) / (2 * self.p - 2), self.p / (self.p - 2))
        top = np.maximum(Q.max(axis=1, keepdims=True), np.finfo(float).tiny)
        share = np.maximum(Q / top, _LEAST_SHARE) ** power
        return share / column_norms(share.T, pt)[:, np.newaxis]


@dataclass(frozen=True)
class SpectralNorm:
    """(l1/2) |x|^2 + (l2/2) (sum x)^2 of the singular values x (r,) of W, whose columns are the tasks' functions.

    It is the minimum over D >= 0 with tr D <= 1 of 1/2 tr(W' inv(A) W), for the metric A = D inv(l1 D + l2 I).

    Parameters
    ----------
    l1, l2 : float
        Strengths of the squared Frobenius norm, not negative, and of the squared trace norm, positive.
    """

    l1: float
    l2: float
    name: ClassVar[str] = "spectral"

    def __post_init__(self) -> None:
        if not (0 <= self.l1 < np.inf and 0 < self.l2 < np.inf):
            raise ValueError(f"l1 must be in [0, inf) and l2 in (0, inf), got {self.l1!r} and {self.l2!r}")

    def value(self, x: Array) -> float:
        """The term at singular values x (r,)."""
        return 0.5 * (self.l1 * float(x @ x) + self.l2 * float(x.sum()) ** 2)

    def conjugate(self, v: Array) -> float:
        """Maximum over x >= 0 of v'x - value(x), for v (r,) >= 0.

        The k largest v have x_i = (v_i - l2 S)/l1 with S = sum of them / (l1 + k l2); the value is v'x/2.
        """
        v = np.sort(v)[::-1]
        if self.l1 == 0:
            return float(v[0] ** 2) / (2.0 * self.l2)
        level = self.l2 * np.cumsum(v) / (self.l1 + self.l2 * np.arange(1, len(v) + 1))
        active = np.flatnonzero(v > level)
        x = v[: active[-1] + 1] - level[active[-1]] if len(active) else v[:0]
        return 0.5 * float(v[: len(x)] @ x) / self.l1

    def metric(self, D: Array) -> Array:
        """A = D inv(l1 D + l2 I) of D (r, r)."""
        return spectral_map(D, lambda d: d / (self.l1 * d + self.l2))

    def metric_adjoint(self, D: Array, G: Array) -> Array:
        """Gradient (r, r) in D of a function whose gradient in A is G: l2 R G R with R = inv(l1 D + l2 I)."""
        R = spectral_map(D, lambda d: 1.0 / (self.l1 * d + self.l2))
        return self.l2 * R @ G @ R


def spectral_map(S: Array, function: Callable[[Array], Array]) -> Array:
    """Apply a function to the eigenvalues of a positive semi-definite S (r, r)."""
    values, vectors = eigh(S)
    return (vectors * function(np.maximum(values, 0.0))) @ vectors.T


def unit_root(S: Array) -> Array:
    """Return S^(1/2) / tr S^(1/2); if S is zero, the identity scaled to trace one."""
    # Divide by the largest entry to avoid underflow.
    top = float(np.abs(S).max())
    root = spectral_map(S / top if top > 0 else S, np.sqrt)
    trace = np.trace(root)
    return root / trace if trace > 0 else np.eye(len(S)) / len(S)


NORMS: dict[str, Any] = {norm.name: norm for norm in (MixedNorm, SpectralNorm)}
