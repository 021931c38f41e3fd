"""Norms of the functions themselves, for problems whose kernel weights are only a means to compute them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from ...decompositions import eigh

Array = NDArray[np.float64]


class FunctionNorm(Protocol):
    """A convex function of the sizes x >= 0 of functions, homogeneous of degree two.

    The sizes are an array whose meaning each norm defines. Fenchel-Young: `value(x) + conjugate(v) >= <x, v>`, with
    equality for some x at every v.
    """

    name: ClassVar[str]

    def value(self, x: Array) -> float:
        """The term at sizes x >= 0."""
        ...

    def conjugate(self, v: Array) -> float:
        """Maximum over x >= 0 of <x, v> - value(x), for v >= 0."""
        ...


# A task that does not use a kernel would have a share of zero, and could never use it again.
_LEAST_SHARE = 1e-12


@dataclass(frozen=True)
class MixedNorm(FunctionNorm):
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

    def kernel_norms(self, x: Array) -> Array:
        """p-norms over tasks (K,) of x (K, T)."""
        return _row_norms(x, self.p)

    def dual_terms(self, Q: Array) -> Array:
        """N_k = (sum_t Q_kt^(s/2))^(2/s), 1/s + 1/p = 1, (K,), of Q = v^2/2 (K, T)."""
        return _row_norms(np.sqrt(Q), 1.0 if np.isinf(self.p) else self.p / (self.p - 1.0)) ** 2

    def shares(self, Q: Array) -> Array:
        """The lambda (K, T) that is best for Q: proportional to Q^(1/(pt+1)) = Q^((p-2)/(2p-2)), of pt-norm one."""
        if self.p == 2:
            return np.ones_like(Q)
        power, pt = (0.5, 1.0) if np.isinf(self.p) else ((self.p - 2) / (2 * self.p - 2), self.p / (self.p - 2))
        top = np.maximum(Q.max(axis=1, keepdims=True), np.finfo(float).tiny)
        share = np.maximum(Q / top, _LEAST_SHARE) ** power
        return share / _row_norms(share, pt)[:, np.newaxis]


def _row_norms(X: Array, p: float) -> Array:
    """p-norms (K,) of the rows of X (K, T) >= 0."""
    top = np.maximum(X.max(axis=1), np.finfo(float).tiny)
    if np.isinf(p):
        return top
    return top * ((X / top[:, np.newaxis]) ** p).sum(axis=1) ** (1.0 / p)


@dataclass(frozen=True)
class SpectralNorm(FunctionNorm):
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
    """Apply a function to the eigenvalues of S (r, r), which are not negative but for rounding."""
    values, vectors = eigh(S)
    return (vectors * function(np.maximum(values, 0.0))) @ vectors.T


def unit_root(S: Array) -> Array:
    """S^(1/2) / tr S^(1/2); where S is zero, the identity of trace one."""
    # Relative to the largest entry, whose square may underflow.
    top = float(np.abs(S).max())
    root = spectral_map(S / top if top > 0 else S, np.sqrt)
    trace = np.trace(root)
    return root / trace if trace > 0 else np.eye(len(S)) / len(S)


NORMS: dict[str, type[FunctionNorm]] = {norm.name: norm for norm in (MixedNorm, SpectralNorm)}
