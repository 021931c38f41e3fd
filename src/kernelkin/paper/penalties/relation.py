"""The relationship penalty: the components' relation Omega, eliminated in closed form."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ...decompositions import eigh, eigvalsh, gram_svd, svd
from .base import Array, Penalty, Relation, half_square


def water_fill(s: Array, n: int, low: float, high: float) -> tuple[Array, float]:
    """Minimise sum s_i^2/tau_i over low <= tau_i <= high with sum tau_i = n, for n values of which s (r,) are not zero.

    Returns tau (r,), and the tau of each of the n - r zero values. Needs low <= 1 <= high.
    """
    r = len(s)
    if low >= 1:
        return np.ones(r), 1.0
    if r * high + (n - r) * low <= n:
        # All can be at the cap; what is left over costs nothing, and is spread evenly.
        return np.full(r, high), max(low, (n - r * high) / (n - r)) if r < n else high
    return np.minimum(np.maximum(s / _water_level(s, n, low, high), low), high), low


def _water_level(s: Array, n: int, low: float, high: float) -> float:
    """lam with sum clip(s_i/lam, low, high) + (n - r) low = n, for s (r,) > 0 and a sum above n as lam falls to 0."""
    # As lam rises, value i leaves the cap at s_i/high and meets the floor at s_i/low. Between two such events the sum
    # is `fixed + moving/lam`. A plain loop: there are few values, and array calls would take longer than all of it.
    values = s.tolist()
    events = [(value / high, value, -high) for value in values]
    events += [(value / low if low > 0 else np.inf, -value, low) for value in values]
    events.sort()
    fixed, moving, last = len(values) * high + (n - len(values)) * low, 0.0, 0.0
    for lam, moved, freed in events:
        if fixed + moving / lam <= n or lam == events[-1][0]:
            break
        fixed, moving, last = fixed + freed, moving + moved, lam
    remaining = n - fixed
    return min(max(moving / remaining, last), lam) if remaining > 0 else lam


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


# Shrinkages on the way down to none.
RUNGS = (1e-1, 1e-2, 1e-3, 1e-4)
# A fixed-Omega step needs an inverse also where Omega is singular: its eigenvalues are at least this much of the mean
# one. Rounding in the inverse costs what a smaller number would gain.
FLOOR = 1e-8
# By squared singular values R has a relative error of about eps J/shrinkage: 1e-9 at this limit of J/shrinkage.
_LARGEST_RATIO = 5e6
# Steps of the two relationships at fixed weights, and what a step must gain, as a share of the tolerance.
_STEPS, _GAIN = 100, 0.01


def _prior_roots(prior: Array, n: int) -> tuple[Array, Array]:
    """A = (n Omega0)^(1/2) and inv(A), both (n, n), for Omega0 the prior (n, n) scaled to trace 1."""
    if np.iscomplexobj(prior):
        raise ValueError("prior has complex entries, not real ones")
    prior = np.asarray(prior, dtype=np.float64)
    if prior.shape != (n, n):
        raise ValueError(f"prior has shape {prior.shape}; {n} components need ({n}, {n})")
    if not np.isfinite(prior).all():
        raise ValueError("prior has entries that are not finite")
    asymmetry = np.abs(prior - prior.T).max()
    if asymmetry > 1e-8 * np.abs(prior).max():
        raise ValueError(f"prior is not symmetric: entries differ from their mirror image by up to {asymmetry:.3g}")
    values, vectors = eigh((prior + prior.T) / 2)
    if values[0] <= n * np.finfo(np.float64).eps * values[-1]:
        raise ValueError(f"prior is not positive definite: its smallest eigenvalue is {values[0]:.3g}")
    roots = np.sqrt(values / values.mean())
    return (vectors * roots) @ vectors.T, (vectors / roots) @ vectors.T


class RelationPenalty(Penalty):
    """R(B) = min over Omega of tr(inv(Gamma) B inv(Omega) B'), Omega near a prior and spread over directions.

    With J components, A = (J Omega0)^(1/2) for the prior Omega0 of trace 1 and Omega = A Psi A, the minimum is over
    (shrinkage/J) I <= Psi <= (1/min_rank) I with tr Psi = 1. Gamma = (1 - evenness) I + evenness 11' (K, K), or one
    that was learned: `revised` makes the penalty with the best Gamma at given weights. Each of them is convex, for its
    Gamma is fixed; the minimum over Gamma is not.

    Parameters
    ----------
    n_components : int
        Number J of components.
    prior : array (J, J), optional
        What is known of the relationship; positive definite, of any scale. The identity by default.
    shrinkage : float in [0, 1]
        Shrinkage of Omega towards the prior (1: fixed at the prior).
    min_rank : float in [1, J]
        Lower bound on the effective rank of Omega, and of a learned Gamma.
    evenness : float in [0, 1)
        How alike the weights of different kernels are expected to be.
    kernel_shrinkage : float in (0, 1]
        Shrinkage of a learned Gamma towards the one that evenness sets (1: fixed at it).
    """

    name: ClassVar[str] = "relation"

    def __init__(
        self,
        n_components: int,
        prior: Array | None = None,
        shrinkage: float = 0.1,
        min_rank: float = 1.0,
        evenness: float = 0.0,
        kernel_shrinkage: float = 1.0,
    ) -> None:
        if n_components < 1:
            raise ValueError(f"n_components must be at least 1, got {n_components!r}")
        if not 0 <= shrinkage <= 1:
            raise ValueError(f"shrinkage must be in [0, 1], got {shrinkage!r}")
        if not 1 <= min_rank <= n_components:
            raise ValueError(f"min_rank must be in [1, {n_components}] (the number of components), got {min_rank!r}")
        if not 0 <= evenness < 1:
            raise ValueError(f"evenness must be in [0, 1), got {evenness!r}")
        if not 0 < kernel_shrinkage <= 1:
            raise ValueError(f"kernel_shrinkage must be in (0, 1], got {kernel_shrinkage!r}")
        self.n_components = int(n_components)
        self.evenness = float(evenness)
        self.kernel_shrinkage = float(kernel_shrinkage)
        self.kernels = KernelRelation(self.evenness)
        self.shrinkage = float(shrinkage)
        self.min_rank = float(min_rank)
        self._roots = None if prior is None else _prior_roots(prior, self.n_components)

    def value_and_gradient(self, B: Array) -> tuple[float, Array]:
        """R(B), and the gradient inv(Gamma) B inv(Omega) (K, J) of R/2 at B (K, J).

        Where Omega is singular the inverse is the pseudo-inverse, which gives a subgradient.
        """
        U, s, Vt = self._fast_spectrum(B)
        slopes = self._slopes(s)
        return float(s @ slopes), self._gradient(U, slopes, Vt)

    def bound(self, Q: Array, B: Array, mu: float) -> float:
        """Lower bound on the minimum over B' >= 0 of (mu/2) R(B') - <B', Q>; tight at a minimiser B (K, J).

        Without shrinkage, and where a weight is zero, it is tight only in the limit of the minimisers of the ladder:
        the pseudo-inverse is one subgradient of many there, and theirs tend to the right one.
        """
        # Any M >= Q gives a bound. At a minimiser mu inv(Gamma) B inv(Omega) is one, and the best.
        U, s, Vt = self._fast_spectrum(B)
        candidates = [Q, *(np.maximum(Q, mu * self._gradient(U, rung._slopes(s), Vt)) for rung in self.ladder())]
        return -min(self._half_energy(M, mu) for M in candidates)

    def relation(self, B: Array) -> Relation:
        """Minimising Omega at B (K, J); of trace 1 if the prior is the identity (tr Psi = 1 always)."""
        _, s, Vt = self._spectrum(B)
        tau, rest = self._fill(s)
        return self._assemble(tau / self.n_components, rest / self.n_components, Vt, root=0)

    def inverse_relation(self, B: Array) -> Relation:
        """inv(Omega) at B (K, J), for steps that hold Omega fixed.

        A singular Omega is first moved by about 1e-8 into the interior of the feasible set.
        """
        _, s, Vt = self._spectrum(B)
        tau, rest = self._fill(s)
        tau, rest = np.maximum(tau, FLOOR), max(rest, FLOOR)
        excess = (tau.sum() + (self.n_components - len(s)) * rest) / self.n_components
        excess *= self.n_components
        return self._assemble(excess / tau, excess / rest, Vt, root=1)

    def ladder(self) -> Sequence[RelationPenalty]:
        """Penalties of falling shrinkage, down to this one if it has none and is not smooth."""
        if self.shrinkage > 0 or self.min_rank == self.n_components:
            return (self,)
        rungs = [copy.copy(self) for _ in RUNGS]
        for penalty, shrinkage in zip(rungs, RUNGS, strict=True):
            penalty.shrinkage = shrinkage
        return (*rungs, self)

    def revised(self, B: Array, tol: float) -> RelationPenalty:
        """This penalty with the Gamma that is best at B (K, J); itself where R(B) falls by no more than a share tol.

        Alternates between Gamma and Omega at fixed B, each in closed form: R(B) falls with every step.
        """
        if self.kernel_shrinkage == 1:
            return self
        first = value = self.value(B)
        found: RelationPenalty = self
        for _ in range(_STEPS):
            trial = found._with_best_kernels(B)
            reached = trial.value(B)
            if not reached < (1 - _GAIN * tol) * value:
                break
            found, value = trial, reached
        return found if value < (1 - tol) * first else self

    def kernel_relation(self, n_kernels: int) -> Array | None:
        """Gamma/K (K, K) where it is learned, scaled to trace one; None where it is fixed."""
        if self.kernel_shrinkage == 1:
            return None
        Gamma = self.kernels.matrix(n_kernels)
        return Gamma / np.trace(Gamma)

    @property
    def relates_kernels(self) -> bool:
        """Whether Gamma is not the identity, or is to be learned."""
        return self.evenness > 0 or self.kernel_shrinkage < 1

    @property
    def collapses(self) -> bool:
        """True for the paper's own penalty: its optimum has rank one by Perron's theorem (without a prior, always)."""
        return self.shrinkage == 0 and self.min_rank == 1 and self.n_components > 1

    def _with_best_kernels(self, B: Array) -> RelationPenalty:
        """This penalty with the Gamma that is best for the Omega at B (K, J)."""
        U, s, _ = self._spectrum(B)
        best = copy.copy(self)
        # Bh Psi^(-1/2), in the coordinates of its right singular vectors.
        X = U * (s / np.sqrt(self._fill(s)[0]))
        best.kernels = self.kernels.learned(X, self.kernel_shrinkage, self.min_rank)
        return best

    def _spectrum(self, B: Array) -> tuple[Array, Array, Array]:
        """Thin singular value decomposition of Bh (K, J): r non-zero values, U (K, r), V'."""
        Bh = self._whitened(B)
        # Of the transpose: K is often much smaller than J, and tall matrices are decomposed faster than wide ones.
        V, s, Ut = svd(Bh.T)
        r = int(np.count_nonzero(s > max(B.shape) * np.finfo(np.float64).eps * s[0]))
        return Ut[:r].T, s[:r], V[:, :r].T

    def _fast_spectrum(self, B: Array) -> tuple[Array, Array, Array]:
        """The same, as accurate as value and gradient need it.

        With shrinkage, all small singular values have the same eigenvalue of Psi, and need not be told apart.
        """
        if self.n_components > _LARGEST_RATIO * self.shrinkage:
            return self._spectrum(B)
        return gram_svd(self._whitened(B))

    def _whitened(self, B: Array) -> Array:
        """Bh = inv(L) B inv(A), for B (K, J) and Gamma = L L'."""
        return self.kernels.whiten(B if self._roots is None else B @ self._roots[1])

    def _fill(self, s: Array) -> tuple[Array, float]:
        """Eigenvalues of J Psi: those of the directions of s (r,), and that of each other direction."""
        # Times J, so that both limits are exactly 1 where they leave no choice.
        J = self.n_components
        return water_fill(s / s[:1], J, self.shrinkage, J / self.min_rank)

    def _slopes(self, s: Array) -> Array:
        """Singular values (r,) of Bh inv(Psi), from those of Bh, s (r,)."""
        return self.n_components * (s / self._fill(s)[0])

    def _gradient(self, U: Array, slopes: Array, Vt: Array) -> Array:
        """inv(Gamma) B inv(Omega) (K, J), from the decomposition of Bh inv(Psi)."""
        gradient = self.kernels.whiten_adjoint((U * slopes) @ Vt)
        return gradient if self._roots is None else gradient @ self._roots[1]

    def _assemble(self, values: Array, rest: float, Vt: Array, root: int) -> Relation:
        """Relation with `values` (r,) on the rows of V' (r, J) and `rest` elsewhere, between roots of the prior."""
        # Where there is nothing elsewhere, its value may be so large that its rounding would show.
        rest = rest if len(Vt) < self.n_components else 0.0
        return Relation(Vt.T, values, rest, None if self._roots is None else self._roots[root])

    def _half_energy(self, M: Array, mu: float) -> float:
        """Maximum over Omega of tr(Gamma M Omega M') / (2 mu), for M (K, J)."""
        top = float(M.max(initial=0.0))
        if top == 0.0:
            return 0.0
        # Relative to the largest entry: the squares of small ones would underflow, and the bound be false.
        M = M / top
        Mh = self.kernels.colour_adjoint(M if self._roots is None else M @ self._roots[0])
        gram = Mh @ Mh.T if len(Mh) < self.n_components else Mh.T @ Mh
        squares = np.maximum(eigvalsh(gram)[::-1], 0.0)
        # Greedy: the floor to all, and what is left to the largest, up to the cap.
        J, low = self.n_components, self.shrinkage
        step = J / self.min_rank - low
        extra = np.clip(J * (1 - low) - step * np.arange(len(squares)), 0.0, step)
        return half_square(top, mu) * float((low + extra) @ squares) / J
