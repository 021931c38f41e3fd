"""The relationship of components, kept in factors: nothing of size (J, J) is made unless requested."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..decompositions import eigh, singular_values

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Relation:
    """Omega = A (rest I + V diag(values - rest) V') A', for J components.

    Parameters
    ----------
    vectors : (J, r) array
        V: orthonormal columns, or their first rows (see `block`).
    values : (r,) array
        The value of each of these directions.
    rest : float
        The value of all other directions.
    root : (n, J) array, optional
        A: the root of a prior. The identity by default.
    """

    vectors: Array
    values: Array
    rest: float
    root: Array | None = None

    @classmethod
    def unrelated(cls, n_components: int) -> Relation:
        """I/J: the components have nothing in common."""
        return cls(np.zeros((n_components, 0)), np.zeros(0), 1.0 / n_components)

    @classmethod
    def identical(cls, n_components: int) -> Relation:
        """11'/J: the components are one."""
        return cls(np.full((n_components, 1), n_components**-0.5), np.ones(1), 0.0)

    @classmethod
    def of_matrix(cls, Omega: Array) -> Relation:
        """The relation whose matrix is Omega (J, J), symmetric and positive semi-definite."""
        values, vectors = eigh(Omega)
        return cls(vectors, values, 0.0)

    @property
    def n_components(self) -> int:
        """Number of rows of Omega."""
        return len(self.vectors if self.root is None else self.root)

    def diagonal(self) -> Array:
        """Diagonal (J,) of Omega."""
        spread = 1.0 if self.root is None else np.square(self.root).sum(axis=1)
        return self.rest * spread + np.square(self._directions()) @ (self.values - self.rest)

    def row(self, j: int) -> Array:
        """Row j (J,) of Omega, in O(J r)."""
        directions = self._directions()
        row = directions @ ((self.values - self.rest) * directions[j])
        if self.root is None:
            row[j] += self.rest
            return row
        return row + self.rest * (self.root @ self.root[j])

    def trace(self) -> float:
        """Sum of the diagonal."""
        return float(self.diagonal().sum())

    def block(self, n: int) -> Relation:
        """The relation of the first n components: the leading (n, n) block of Omega, in factors."""
        if self.root is None:
            return Relation(self.vectors[:n], self.values, self.rest)
        return Relation(self.vectors, self.values, self.rest, self.root[:n])

    def matrix(self) -> Array:
        """Omega (J, J), exactly symmetric."""
        directions = self._directions()
        X = (directions * (self.values - self.rest)) @ directions.T
        if self.root is not None:
            X += self.rest * (self.root @ self.root.T)
        else:
            X[np.diag_indices_from(X)] += self.rest
        X = X + X.T
        X *= 0.5
        return X

    def _directions(self) -> Array:
        return self.vectors if self.root is None else self.root @ self.vectors


def effective_rank(B: Array) -> float:
    """Exponential of the entropy of the normalised singular values of B (K, J); 0 for B = 0."""
    s = singular_values(B)
    if s[0] == 0:
        return 0.0
    share = s / s.sum()
    share = share[share > 0]
    return float(np.exp(-(share * np.log(share)).sum()))
