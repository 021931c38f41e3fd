"""The protocol of a penalty on the kernel weights, and the relationship of components, kept in factors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from ...decompositions import eigh, singular_values

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


class Penalty(Protocol):
    """A penalty R on kernel weights B (K, J) >= 0: homogeneous of degree two, or the indicator of a set of weights.

    A penalty defines its value with its gradient, its bound and its relation; the rest has defaults that suit a smooth
    penalty on all entries of B. Solvers optimise the *free* variables, which `expand` maps linearly to B.
    """

    name: ClassVar[str]
    # Whether R is 0 on a set of weights and infinite elsewhere, so that its strength does not matter.
    is_indicator: ClassVar[bool] = False

    def value_and_gradient(self, B: Array) -> tuple[float, Array]:
        """R(B), and the gradient (K, J) of R/2 at B (K, J)."""
        ...

    def bound(self, Q: Array, B: Array, mu: float) -> float:
        """Lower bound on the minimum over B' >= 0 of (mu/2) R(B') - <B', Q>.

        It holds for every Q (K, J) >= 0 and B (K, J) >= 0, and is tight when B is a minimiser.
        """
        ...

    def relation(self, B: Array) -> Relation:
        """Relationship Omega of the J components at B (K, J)."""
        ...

    def value(self, B: Array) -> float:
        """R(B), for B (K, J)."""
        return self.value_and_gradient(B)[0]

    def gradient(self, B: Array) -> Array:
        """Gradient (K, J) of R/2 at B (K, J)."""
        return self.value_and_gradient(B)[1]

    def cost(self, B: Array, mu: float) -> float:
        """(mu/2) R(B), for B (K, J), also where R(B) itself would underflow or overflow."""
        size = float(B.max(initial=0.0))
        if size == 0.0 or self.is_indicator:
            return self.value(B)
        return half_square(size, 1.0 / mu) * self.value(B / size)

    def revised(self, B: Array, tol: float) -> Penalty:
        """The penalty to solve with next, at a solution B (K, J) of this one; itself where nothing is left to learn.

        A penalty that is not convex is minimised by convex upper bounds of it that touch it at B: this is the next one.
        It is made where it lowers R(B) by more than a share `tol`.
        """
        return self

    def kernel_relation(self, n_kernels: int) -> Array | None:
        """Relationship (K, K) of the kernels, of trace one; None where it is not learned."""
        return None

    def ladder(self) -> Sequence[Penalty]:
        """Penalties to solve in turn, each from the last one's solution: the smoothest first, this one at the end."""
        return (self,)

    @property
    def collapses(self) -> bool:
        """Whether to expect an optimum of rank one, where all components have the same mix of kernels."""
        return False

    def free(self, B: Array) -> Array:
        """Free variables of B (K, J)."""
        return B

    def expand(self, V: Array) -> Array:
        """Weights B (K, J) of the free variables; a linear map."""
        return V

    def pull(self, G: Array) -> Array:
        """Gradient in the free variables of a gradient G (K, J) in B; the adjoint of `expand`."""
        return G


def half_square(x: float, mu: float) -> float:
    """x^2 / (2 mu), without overflow or underflow on the way."""
    root = x / np.sqrt(mu)
    return 0.5 * root * root
