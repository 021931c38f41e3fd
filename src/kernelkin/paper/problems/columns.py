"""Ridge machines of wide data, solved together by conjugate gradients: no combined Gram matrix is formed.

With G = G(b_t), D = diag(1/C), and P taking off the mean where there is an intercept, a machine's dual variables solve
`P (G + D) P a = P y`. For any feasible a, however it was found, the gap of the machine is

    primal(a) - dual(a) = 1/2 sum_i C_i r_i^2,      r = y - c - (G + D) a,

so iterations stop when this gap is small enough. They run in single precision, and values and bounds in double.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..grams.operator import LARGEST_INVERSES, Arrays, SharedOperator
from ..learners.machines import Machine, Ridge

# Rounds of conjugate gradients, each from residuals in double precision, and iterations in each.
_ROUNDS, _ITERATIONS = 6, 200
# Target gap of each column, as a share of the requested gap: this leaves room for rounding.
_AIM = 0.3
# Finished columns are removed when at most this share of columns is left.
_FEW = 0.75


@dataclass(frozen=True)
class Block:
    """Some columns of a panel, with kernel weights; all of them where tasks share parts of their functions."""

    operator: SharedOperator
    # b, y, cost: (K, o) kernel weights, (n, o) targets, (n, o) or (1, o).
    b: Any
    y: Any
    cost: Any
    mask: Any  # (n, o), one where there is a label; None where there are labels everywhere
    has_intercept: bool  # whether machines have an intercept
    # factors, shared: the L_j (T, r_j) of each coupling, and the kernel weights (K, couplings) of the shared parts.
    factors: tuple[Any, ...] = ()
    shared: Any = None

    @property
    def arrays(self) -> Arrays:
        return self.operator.arrays

    @cached_property
    def ridge(self) -> Any:
        """The diagonal D: 1/C, and zero where there is no label."""
        if self.mask is None:
            return 1.0 / self.cost
        return self.mask / self.arrays.xp.where(self.mask > 0, self.cost, self.mask + 1.0)

    def take(self, kept: Any) -> Block:
        """Return some of the columns."""
        mask = None if self.mask is None else self.mask[:, kept]
        return replace(self, b=self.b[:, kept], y=self.y[:, kept], cost=self.cost[:, kept], mask=mask)

    def in_single_precision(self) -> Block:
        parts = {name: getattr(self, name) for name in ("b", "y", "cost", "mask", "shared")}
        cast: dict[str, Any] = {
            name: None if part is None else self.arrays.cast(part, single=True) for name, part in parts.items()
        }
        return replace(self, factors=tuple(self.arrays.cast(L, single=True) for L in self.factors), **cast)

    def project(self, V: Any) -> Any:
        """V (n, o) -> the nearest with zeros where there is no label, and without a mean."""
        if self.mask is None:
            return V - V.mean(0) if self.has_intercept else V
        V = V * self.mask
        return V - self.mask * (V.sum(0) / self._count) if self.has_intercept else V

    @cached_property
    def _count(self) -> Any:
        """(o,) rows with a label; at least one."""
        return self.arrays.xp.clip(self.mask.sum(0), 1.0, None)

    def sums(self, V: Any) -> Any:
        """V (n, o) -> its sum over each of the systems that are solved: a column each, or all columns if coupled."""
        return V.sum().reshape(1) if self.factors else V.sum(0)

    def apply(self, V: Any) -> Any:
        """V (n, o) -> G V."""
        if not self.factors:
            return self.operator.apply(self.b, V)
        mixed, single, out = [self._mix(j, V) for j in range(len(self.factors))], self.arrays.is_single(V), 0.0
        for k in range(self.operator.n_kernels):
            W = V * self.b[k]
            for j, part in enumerate(mixed):
                W = W + self.shared[k, j] * part
            out = out + self.operator.matrix(k, single) @ W
        return out

    def combine(self, images: Any) -> Any:
        """Images G_k V (K, n, o) -> G V."""
        f = (self.b[:, None, :] * images).sum(0)
        for j in range(len(self.factors)):
            f = f + self._mix(j, (self.shared[:, j, None, None] * images).sum(0))
        return f

    def forms(self, V: Any, images: Any) -> Any:
        """V (n, o) and its images (K, n, o) -> half the quadratic forms (K, o + couplings) of each component."""
        own = 0.5 * (V * images).sum(1)
        if not self.factors:
            return own
        linked = [0.5 * (self._mix(j, V) * images).sum(2).sum(1) for j in range(len(self.factors))]
        return self.arrays.xp.hstack([own, self.arrays.xp.stack(linked).T])

    def _mix(self, j: int, V: Any) -> Any:
        """V (n, T) -> V M_j."""
        L, M = self.factors[j], self._matrices[j]
        return (V @ L) @ L.T if M is None else V @ M

    @cached_property
    def _matrices(self) -> list[Any]:
        """M_j (T, T), or None where two products with the factor are fewer operations."""
        return [L @ L.T if 2 * L.shape[1] > len(L) else None for L in self.factors]

    def system(self, V: Any) -> Any:
        """V (n, o), projected -> P (G + D) V."""
        return self.project(self.apply(V) + self.ridge * V)

    def precondition(self, V: Any) -> Any:
        """About inv(P (G + D) P) V: exact where kernels share a basis, costs are equal and labels complete.

        If the basis has only leading eigenvectors, all other directions share one eigenvalue.
        """
        turned, rest = self.operator.split(V)
        r, vectors, inverses = len(turned), self.operator.basis[0], self._inverses
        if inverses is None:
            solved = vectors @ (turned / self.spectrum[:r])
            return self.project(solved if rest is None else solved + rest / self.spectrum[-1])
        solved = vectors @ (inverses[:r] @ turned[:, :, None])[:, :, 0]
        return self.project(solved if rest is None else solved + rest @ inverses[-1])

    @cached_property
    def spectrum(self) -> Any:
        """The diagonal of G + D in the basis, D its mean, in single precision, (r, o) or (r + 1, o) as its spectra."""
        ridge = self.ridge.mean(0) if self.mask is None else self.ridge.sum(0) / self._count
        b, ridge = self.arrays.cast(self.b, single=True), self.arrays.cast(ridge, single=True)
        return self._density * self.arrays.xp.clip(self.operator.basis[1].T @ b, 0.0, None) + ridge

    @cached_property
    def _density(self) -> Any:
        """(1, o) the share of rows with a label, by which eigenvalues are smaller, in single precision; 1 for all."""
        return 1.0 if self.mask is None else self.arrays.cast(self._count / len(self.mask), single=True).reshape(1, -1)

    @cached_property
    def _inverses(self) -> Any:
        """(r, T, T), in the basis: the inverse over coupled tasks for each direction; None where it is too large."""
        n, T = self.spectrum.shape
        if not self.factors or n * T * T > LARGEST_INVERSES:
            return None
        arrays = self.arrays
        shared = arrays.xp.clip(self.operator.basis[1].T @ arrays.cast(self.shared, single=True), 0.0, None)
        systems = self.spectrum[:, :, None] * arrays.cast(arrays.array(np.eye(T)), single=True)
        for j, factor in enumerate(self.factors):
            rough = arrays.cast(factor, single=True)
            # Tasks with shares p and q of the labels have sqrt(p q) in common, as if one's rows were among the other's.
            rough = rough if self.mask is None else rough * self._density.reshape(-1, 1) ** 0.5
            systems = systems + shared[:, j, None, None] * (rough @ rough.T)
        return arrays.inverses(systems)

    def solve_directly(self, solution: BlockSolution, tol: float) -> Any:
        """The dual variables (n, o), by a factorisation for each column whose gap is still open."""
        if self.factors:
            # This would need one dense system over all labels; the bounds are valid without it.
            return solution.a
        arrays = self.arrays
        gaps = arrays.numpy(solution.primal - solution.lin + solution.quad)
        b, y, a = (arrays.numpy(V).copy() for V in (self.b, self.y, solution.a))
        cost = np.broadcast_to(arrays.numpy(self.cost), y.shape)
        for t in np.flatnonzero(gaps > tol * arrays.numpy(solution.primal)):
            rows = np.flatnonzero(cost[:, t] > 0)
            gram = arrays.numpy(sum(float(b[k, t]) * self.operator.matrix(k) for k in range(len(b))))
            groups = np.zeros(len(rows), dtype=np.intp)
            machine = Machine(y[rows, t : t + 1], cost[rows, t : t + 1], groups, int(self.has_intercept))
            a[rows, t] = Ridge().solve(gram[np.ix_(rows, rows)], machine).a[:, 0]
        return self.project(arrays.array(a))


class BlockSolution:
    """A block of columns at a (n, o), in double precision, with the images G_k a (K, n, o).

    `intercept`, `lin`, `quad` and `primal` are (o,), Q (K, o) half the quadratic forms; with couplings, theirs follow.
    `residual` (n, o) is that of the system that conjugate gradients solve.
    """

    def __init__(self, block: Block, a: Any) -> None:
        self.a, self.images = a, block.operator.images(a)
        f, mask = block.combine(self.images), block.mask
        self.quad = 0.5 * (a * f).sum(0)
        residual = block.y - f if mask is None else mask * (block.y - f)
        self.intercept = 0.0 * self.quad
        if block.has_intercept:
            weight = block.cost.sum(0) * (len(a) // len(block.cost))
            self.intercept = ratio(block.arrays, (block.cost * residual).sum(0), weight)
            residual = residual - (self.intercept if mask is None else self.intercept * mask)
        self.lin = (block.y * a - 0.5 * block.ridge * a * a).sum(0)
        self.primal = self.quad + 0.5 * (block.cost * residual * residual).sum(0)
        self.Q = block.arrays.xp.clip(block.forms(a, self.images), 0.0, None)
        self.residual = block.project(residual - block.ridge * a)

    def hessian(self, block: Block) -> Any:
        """Return approximate Hessians (o, K, K) in the kernel weights, from the preconditioner."""
        arrays, rough, total = block.arrays, block.in_single_precision(), 0.0
        parts = [block.operator.split(rough.project(arrays.cast(image, single=True))) for image in self.images]
        turned, rest = zip(*parts, strict=True)
        for V, spectrum in ((turned, block.spectrum[: len(turned[0])]), (rest, block.spectrum[-1:])):
            if V[0] is not None:
                # V_t' diag(1/spectrum_t) V_t for each column t; one eigenvalue for the rest.
                scaled = arrays.contiguous(arrays.xp.moveaxis(arrays.xp.stack(V) / spectrum**0.5, 2, 0))
                total = total + scaled @ arrays.xp.swapaxes(scaled, 1, 2)
        return total

    @property
    def relative_gap(self) -> float:
        """Relative gap of all columns together."""
        return float((self.primal - self.lin + self.quad).sum()) / max(float(self.primal.sum()), np.finfo(float).tiny)


def solve_block(block: Block, a: Any, tol: float) -> BlockSolution:
    """Solve to a gap of `tol` times the value of all columns, from a (n, o) or None."""
    arrays, rough = block.arrays, block.in_single_precision()
    if a is None:
        a, residual = arrays.xp.zeros_like(block.y), block.project(block.y)
    else:
        solution = BlockSolution(block, block.project(a))
        a, residual = solution.a, solution.residual
    for _ in range(_ROUNDS):
        with arrays.rough_products():
            change = _conjugate_gradients(rough, arrays.cast(residual, True), arrays.cast(a, True), tol)
        a = block.project(a + arrays.cast(change, single=False))
        solution = BlockSolution(block, a)
        residual = solution.residual
        if solution.relative_gap <= tol:
            return solution
    return BlockSolution(block, block.solve_directly(solution, tol))


def _conjugate_gradients(block: Block, residual: Any, a: Any, tol: float) -> Any:
    """Return the change (n, o) of a that closes the gap of each column to a share of its value.

    It starts from residuals (n, o). Finished columns are removed.
    """
    arrays, total = block.arrays, block.arrays.xp.zeros_like(residual)
    left, y = arrays.array(np.arange(block.y.shape[1])), block.project(block.y)
    x, z = arrays.xp.zeros_like(residual), block.precondition(residual)
    p, rho = z, block.sums(residual * z)
    for _ in range(_ITERATIONS):
        gap = 0.5 * block.sums(block.cost * residual * residual)
        value = 0.5 * block.sums((a + x) * (y + residual))
        is_open = gap > _AIM * tol * arrays.xp.clip(value, 0.0, None)
        n_open = int(is_open.sum())
        if n_open <= _FEW * len(is_open):
            total[:, left] = x
            if n_open == 0:
                return total
            kept = arrays.xp.argwhere(is_open)[:, 0]
            block, left, rho = block.take(kept), left[kept], rho[kept]
            residual, a, x, p, y = (V[:, kept] for V in (residual, a, x, p, y))
        image = block.system(p)
        step = ratio(arrays, rho, block.sums(p * image))
        x = x + step * p
        residual = residual - step * image
        z = block.precondition(residual)
        rho, old = block.sums(residual * z), rho
        p = z + ratio(arrays, rho, old) * p
    total[:, left] = x
    return total


def ratio(arrays: Arrays, above: Any, below: Any) -> Any:
    """Return above/below; zero if `below` is zero."""
    positive = below > 0
    return arrays.xp.where(positive, above / arrays.xp.where(positive, below, below * 0.0 + 1.0), 0.0 * above)
