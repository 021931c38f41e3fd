"""The mixed norm of MK-MTFL: the 1-norm over kernels of the p-norm over tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .base import Array, FunctionNorm

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
