"""How kernels are related: the matrix that whitens the rows of the kernel weights, given or learned."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..decompositions import svd
from .base import Array
from .water_filling import water_fill


@dataclass(frozen=True)
class KernelRelation:
    """Gamma = L L' (K, K), L = Gamma0^(1/2) Phi^(1/2), Gamma0 = (1 - evenness) I + evenness 11'.

    Parameters
    ----------
    evenness : float in [0, 1)
        How alike the weights of different kernels are expected to be.
    root, inverse_root : (K, K) arrays, optional
        Phi^(1/2) and its inverse, of trace K for Phi. The identity by default.
    """

    evenness: float = 0.0
    root: Array | None = None
    inverse_root: Array | None = None

    def whiten(self, X: Array) -> Array:
        """inv(L) X, for X (K, m)."""
        X = self._even(X, -0.5)
        return X if self.inverse_root is None else self.inverse_root @ X

    def whiten_adjoint(self, X: Array) -> Array:
        """inv(L)' X, for X (K, m)."""
        return self._even(X if self.inverse_root is None else self.inverse_root @ X, -0.5)

    def colour_adjoint(self, X: Array) -> Array:
        """L' X, for X (K, m)."""
        X = self._even(X, 0.5)
        return X if self.root is None else self.root @ X

    def learned(self, X: Array, shrinkage: float, min_rank: float = 1.0) -> KernelRelation:
        """The Gamma that minimises tr(Y' inv(Gamma) Y), given X = inv(L) Y (K, m) of any scale.

        It is chosen from shrinkage I <= Phi <= (K/min_rank) I with tr Phi = K; Phi = I where min_rank is K or more.
        """
        K = len(X)
        U, s, _ = svd(X if self.root is None else self.root @ X)
        r = int(np.count_nonzero(s > max(X.shape) * np.finfo(np.float64).eps * s[:1]))
        U, s = U[:, :r], s[:r]
        values, rest = water_fill(s / s[:1], K, shrinkage, K / min(min_rank, K))
        roots = ((U * (values**power - rest**power)) @ U.T + rest**power * np.eye(K) for power in (0.5, -0.5))
        return replace(self, root=next(roots), inverse_root=next(roots))

    def matrix(self, n_kernels: int) -> Array:
        """Gamma (K, K)."""
        half = self.colour_adjoint(np.eye(n_kernels))
        return half.T @ half

    def _even(self, X: Array, power: float) -> Array:
        """Gamma0^power X: Gamma0 has one value along the even direction and another one across it."""
        if self.evenness == 0:
            return X
        along, across = (1 + (len(X) - 1) * self.evenness) ** power, (1 - self.evenness) ** power
        return across * X + (along - across) * X.mean(axis=0)
