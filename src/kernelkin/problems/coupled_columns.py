"""Columns of wide data whose tasks share parts: one system over all labels, a sum of Kronecker products.

Coupling j adds `G(b_j) V M_j` to what the tasks' own parts make of V (n, T), with M_j = L_j L_j' (T, T). So for every
kernel the dual variables are mixed over tasks first, and one product with its matrix follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..grams.arrays import LARGEST_INVERSES
from .columns import Block, BlockSolution


@dataclass(frozen=True)
class CoupledBlock(Block):
    """All columns of a panel, with the parts that their tasks share.

    Attributes
    ----------
    factors : the L_j (T, r_j) of each coupling, in double precision.
    shared : (K, couplings) kernel weights of these parts.
    """

    factors: tuple[Any, ...] = ()
    shared: Any = None

    def take(self, kept: Any) -> Block:
        raise AssertionError("columns that share parts are one system")

    def in_single_precision(self) -> CoupledBlock:
        rough = super().in_single_precision()
        assert isinstance(rough, CoupledBlock)
        cast = self.arrays.cast
        factors = tuple(cast(factor, single=True) for factor in self.factors)
        return CoupledBlock(
            rough.operator,
            rough.b,
            rough.y,
            rough.cost,
            rough.mask,
            rough.has_intercept,
            factors,
            cast(self.shared, True),
        )

    def sums(self, V: Any) -> Any:
        return V.sum().reshape(1)

    def apply(self, V: Any) -> Any:
        mixed = [self._mix(j, V) for j in range(len(self.factors))]
        out = None
        for k in range(self.operator.n_kernels):
            W = V * self.b[k]
            for j, part in enumerate(mixed):
                W = W + self.shared[k, j] * part
            out = self.arrays.add_product(out, self.operator.matrix(k, self.arrays.is_single(V)), W)
        return out

    def combine(self, images: Any) -> Any:
        f = super().combine(images)
        for j in range(len(self.factors)):
            f = f + self._mix(j, (self.shared[:, j, None, None] * images).sum(0))
        return f

    def forms(self, V: Any, images: Any) -> Any:
        own = super().forms(V, images)
        linked = [0.5 * (self._mix(j, V) * images).sum(2).sum(1) for j in range(len(self.factors))]
        return self.arrays.join([own, self.arrays.stack(linked).T])

    def _mix(self, j: int, V: Any) -> Any:
        """V (n, T) -> V M_j."""
        M = self._matrices[j]
        return (V @ self.factors[j]) @ self.factors[j].T if M is None else V @ M

    @cached_property
    def _matrices(self) -> list[Any]:
        """M_j (T, T), or None where two products with the factor are fewer operations."""
        return [factor @ factor.T if 2 * factor.shape[1] > len(factor) else None for factor in self.factors]

    def precondition(self, V: Any) -> Any:
        basis, inverses = self.operator.basis, self._inverses
        if inverses is None:
            return super().precondition(V)
        turned, rest = basis.split(V)
        solved = basis.vectors @ (inverses[: len(turned)] @ turned[:, :, None])[:, :, 0]
        return self.project(solved if rest is None else solved + rest @ inverses[-1])

    @cached_property
    def _inverses(self) -> Any:
        """(r, T, T), in the basis: the inverse over tasks for each direction; None where it is too large."""
        n, T = self.spectrum.shape
        if n * T * T > LARGEST_INVERSES:
            return None
        arrays = self.arrays
        weights = self.operator.basis.spectra.T @ arrays.cast(self.shared, single=True)
        weights = arrays.where(weights > 0, weights, 0.0 * weights)
        systems = arrays.diagonals(self.spectrum)
        for j, factor in enumerate(self.factors):
            rough = arrays.cast(factor, single=True)
            # Tasks with shares p and q of the labels have sqrt(p q) in common, as if one's rows were among the other's.
            rough = rough * self.density.reshape(-1, 1) ** 0.5 if self.mask is not None else rough
            systems = systems + weights[:, j, None, None] * (rough @ rough.T)
        return arrays.inverses(systems)

    def solve_directly(self, solution: BlockSolution, tol: float) -> Any:
        # One dense system over all labels is what this is to avoid; the bounds hold as they are.
        return solution.a
