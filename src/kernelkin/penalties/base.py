"""The protocol of a penalty: one convex term on the kernel weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from .factors import Relation


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
