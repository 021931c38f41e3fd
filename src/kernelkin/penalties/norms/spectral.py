"""The spectral norm of MTFL and MTRL: squared Frobenius and trace norms of all tasks' functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...decompositions import eigh
from .base import Array, FunctionNorm


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
