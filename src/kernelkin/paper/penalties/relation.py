"""The interface of penalties on the kernel weights, and the relationship penalty of the paper."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...decompositions import eigh, eigvalsh, gram_svd, singular_values, svd

Array = NDArray[np.float64]
_EPS = np.finfo(np.float64).eps


@dataclass(frozen=True)
class Relation:
    """Relationship Omega = rest A A' + V diag(values - rest) V' of J components, stored as factors.

    `vectors` V (J, r) are A U for orthonormal directions U, `values` (r,) their eigenvalues, and `rest` is the
    eigenvalue of all other directions. `root` A (J, J) is the square root of a prior, by default the identity.
    """

    vectors: Array
    values: Array
    rest: float
    root: Array | None = None

    @classmethod
    def unrelated(cls, n_components: int) -> Relation:
        """Return I/J: the components are unrelated."""
        return cls(np.zeros((n_components, 0)), np.zeros(0), 1.0 / n_components)

    @classmethod
    def identical(cls, n_components: int) -> Relation:
        """Return 11'/J: the components are identical."""
        return cls(np.full((n_components, 1), n_components**-0.5), np.ones(1), 0.0)

    @classmethod
    def of_matrix(cls, Omega: Array) -> Relation:
        """Return the relation of a symmetric positive semi-definite Omega (J, J)."""
        values, vectors = eigh(Omega)
        return cls(vectors, values, 0.0)

    def diagonal(self) -> Array:
        """Diagonal (J,) of Omega."""
        spread = 1.0 if self.root is None else np.square(self.root).sum(axis=1)
        return self.rest * spread + np.square(self.vectors) @ (self.values - self.rest)

    def trace(self) -> float:
        """Sum of the diagonal."""
        return float(self.diagonal().sum())

    def block(self, n: int) -> Relation:
        """Return the relation of the first n components: the leading (n, n) block of Omega."""
        return Relation(self.vectors[:n], self.values, self.rest, None if self.root is None else self.root[:n])

    def matrix(self) -> Array:
        """Omega (J, J), exactly symmetric."""
        X = (self.vectors * (self.values - self.rest)) @ self.vectors.T
        if self.root is not None:
            X += self.rest * (self.root @ self.root.T)
        else:
            X[np.diag_indices_from(X)] += self.rest
        X = X + X.T
        X *= 0.5
        return X


def effective_rank(B: Array) -> float:
    """Exponential of the entropy of the normalised singular values of B (K, J); 0 for B = 0."""
    s = singular_values(B)
    if s[0] == 0:
        return 0.0
    share = s / s.sum()
    share = share[share > 0]
    return float(np.exp(-(share * np.log(share)).sum()))


class Penalty:
    """A penalty R on kernel weights B (K, J) >= 0: homogeneous of degree two, or the indicator of a set of weights.

    Subclasses define `value_and_gradient`, `bound` and `relation`; the rest has defaults for smooth penalties.

    Attributes
    ----------
    is_indicator : whether R is 0 on a set of weights and infinite elsewhere, so that its strength does not matter.
    shared : whether all components have the same kernel weights: B has equal columns.
    collapses : whether the optimum is expected to have rank one: the same weights for all components, up to scale.
    """

    name: ClassVar[str]
    is_indicator: ClassVar[bool] = False
    shared: ClassVar[bool] = False
    collapses: bool = False

    def value_and_gradient(self, B: Array) -> tuple[float, Array]:
        """R(B), and the gradient (K, J) of R/2 at B (K, J)."""
        raise NotImplementedError

    def bound(self, Q: Array, B: Array, mu: float) -> float:
        """Lower bound on the minimum over B' >= 0 of (mu/2) R(B') - <B', Q>.

        It holds for every Q (K, J) >= 0 and B (K, J) >= 0, and is tight when B is a minimiser.
        """
        raise NotImplementedError

    def relation(self, B: Array) -> Relation:
        """Relationship Omega of the J components at B (K, J)."""
        raise NotImplementedError

    def value(self, B: Array) -> float:
        """R(B), for B (K, J)."""
        return self.value_and_gradient(B)[0]

    def cost(self, B: Array, mu: float) -> float:
        """(mu/2) R(B) for B (K, J), computed without underflow or overflow of R(B)."""
        size = float(B.max(initial=0.0))
        if size == 0.0 or self.is_indicator:
            return self.value(B)
        return 0.5 * (size * np.sqrt(mu)) ** 2 * self.value(B / size)

    def ladder(self) -> Sequence[Penalty]:
        """Penalties to solve in turn with warm starts: the smoothest first, this one last."""
        return (self,)


# Values of shrinkage in the ladder of a penalty without shrinkage.
RUNGS = (1e-1, 1e-2, 1e-3, 1e-4)
# Smallest eigenvalue of Omega, relative to the mean, in steps that hold Omega fixed and need its inverse. With smaller
# values, rounding in the inverse would be worse than the bias.
FLOOR = 1e-8
# With `gram_svd`, R has a relative error of about eps J/shrinkage: 1e-9 at this limit of J/shrinkage.
_LARGEST_RATIO = 5e6


class RelationPenalty(Penalty):
    """R(B) = min over Omega of tr(inv(Gamma) B inv(Omega) B'), with Omega close to a prior and not of low rank.

    With J components, A = (J Omega0)^(1/2) for the prior Omega0 of trace 1 and Omega = A Psi A, the minimum is over
    (shrinkage/J) I <= Psi <= (1/min_rank) I with tr Psi = 1. Gamma = (1 - evenness) I + evenness 11' (K, K) is fixed.

    Parameters
    ----------
    n_components : int
        Number J of components.
    prior : array (J, J), optional
        Prior relationship: positive definite, of any scale. The identity by default.
    shrinkage : float in [0, 1]
        Shrinkage of Omega towards the prior (1: fixed at the prior).
    min_rank : float in [1, J]
        Lower bound on the effective rank of Omega.
    evenness : float in [0, 1)
        Interpolates between the paper's penalty (0) and the average kernel (towards 1).
    """

    name: ClassVar[str] = "relation"

    def __init__(
        self,
        n_components: int,
        prior: Array | None = None,
        shrinkage: float = 0.1,
        min_rank: float = 1.0,
        evenness: float = 0.0,
    ) -> None:
        if n_components < 1:
            raise ValueError(f"n_components must be at least 1, got {n_components!r}")
        if not 0 <= shrinkage <= 1:
            raise ValueError(f"shrinkage must be in [0, 1], got {shrinkage!r}")
        if not 1 <= min_rank <= n_components:
            raise ValueError(f"min_rank must be in [1, {n_components}] (the number of components), got {min_rank!r}")
        if not 0 <= evenness < 1:
            raise ValueError(f"evenness must be in [0, 1), got {evenness!r}")
        self.n_components = int(n_components)
        self.shrinkage, self.min_rank, self.evenness = float(shrinkage), float(min_rank), float(evenness)
        # A and inv(A), both (J, J).
        self._roots = None if prior is None else _prior_roots(prior, self.n_components)
        # The paper's penalty: without a prior, its optimum has rank one by Perron's theorem.
        self.collapses = shrinkage == 0 and min_rank == 1 and n_components > 1

    def value_and_gradient(self, B: Array) -> tuple[float, Array]:
        """R(B), and the gradient inv(Gamma) B inv(Omega) (K, J) of R/2 at B (K, J).

        If Omega is singular, the pseudo-inverse gives a subgradient.
        """
        J, (U, s, Vt) = self.n_components, self._spectrum(B)
        # Eigenvalues are those of J Psi, so that both limits are exactly 1 where they leave no choice.
        slopes = J * (s / water_fill(s, J, self.shrinkage, J / self.min_rank)[0])
        return float(s @ slopes), self._gradient(U, slopes, Vt)

    def bound(self, Q: Array, B: Array, mu: float) -> float:
        """Lower bound on the minimum over B' >= 0 of (mu/2) R(B') - <B', Q>; tight at a minimiser B (K, J).

        Without shrinkage, if a weight is zero, it is tight only in the limit of the minimisers of the ladder: the
        pseudo-inverse gives one of many subgradients, and the ladder converges to the right one.
        """
        # Any M >= Q gives a bound. At a minimiser mu inv(Gamma) B inv(Omega) is one, and the best.
        J, (U, s, Vt) = self.n_components, self._spectrum(B)
        slopes = (J * (s / water_fill(s, J, rung.shrinkage, J / rung.min_rank)[0]) for rung in self.ladder())
        candidates = [Q, *(np.maximum(Q, mu * self._gradient(U, slope, Vt)) for slope in slopes)]
        least = np.inf
        for M in candidates:
            # The maximum over Omega of tr(Gamma M Omega M') / (2 mu).
            top = float(M.max(initial=0.0))
            if top == 0.0:
                return 0.0
            # Divide by the largest entry: underflow of squares would make the bound invalid.
            Mh = M / top if self._roots is None else M / top @ self._roots[0]
            Mh = self._even(Mh, 0.5) if self.evenness else Mh
            squares = np.maximum(eigvalsh(Mh @ Mh.T if len(Mh) < J else Mh.T @ Mh)[::-1], 0.0)
            # Greedy: every eigenvalue gets the lower limit, and the largest get the rest, up to the upper limit.
            step = J / self.min_rank - self.shrinkage
            extra = np.clip(J * (1 - self.shrinkage) - step * np.arange(len(squares)), 0.0, step)
            energy = 0.5 * (top / np.sqrt(mu)) ** 2 * float((self.shrinkage + extra) @ squares) / J
            least = min(least, energy)
        return -least

    def relation(self, B: Array) -> Relation:
        """Minimising Omega at B (K, J); of trace 1 if the prior is the identity (tr Psi = 1 always)."""
        J, A, (_, s, Vt) = self.n_components, self._roots and self._roots[0], self._spectrum(B, exact=True)
        tau, rest = water_fill(s, J, self.shrinkage, J / self.min_rank)
        # If there are no other directions, `rest` may be so large that its rounding matters.
        return Relation(Vt.T if A is None else A @ Vt.T, tau / J, rest / J if len(s) < J else 0.0, A)

    def relation_factors(self, B: Array) -> tuple[Array, float]:
        """P (K, K) and rest with Omega = rest I + B'PB at B (K, J), for a penalty without prior and evenness."""
        J, (U, s, _) = self.n_components, self._spectrum(B, exact=True)
        tau, rest = water_fill(s, J, self.shrinkage, J / self.min_rank)
        return (U * ((tau - rest) / (J * s * s))) @ U.T, rest / J

    def inverse_relation(self, B: Array) -> Relation:
        """inv(Omega) at B (K, J), for steps that hold Omega fixed.

        A singular Omega is first moved into the interior of the feasible set, by about 1e-8.
        """
        J, A, (_, s, Vt) = self.n_components, self._roots and self._roots[1], self._spectrum(B, exact=True)
        tau, rest = water_fill(s, J, self.shrinkage, J / self.min_rank)
        tau, rest = np.maximum(tau, FLOOR), max(rest, FLOOR)
        total = tau.sum() + (J - len(s)) * rest
        return Relation(Vt.T if A is None else A @ Vt.T, total / tau, total / rest if len(s) < J else 0.0, A)

    def ladder(self) -> Sequence[RelationPenalty]:
        """Return penalties of decreasing shrinkage that end with this one; only itself if it is smooth."""
        if self.shrinkage > 0 or self.min_rank == self.n_components:
            return (self,)
        rungs = [copy.copy(self) for _ in RUNGS]
        for penalty, shrinkage in zip(rungs, RUNGS, strict=True):
            penalty.shrinkage = shrinkage
        return (*rungs, self)

    def _spectrum(self, B: Array, exact: bool = False) -> tuple[Array, Array, Array]:
        """Thin singular value decomposition of Bh = Gamma^(-1/2) B inv(A) (K, J): U (K, r), r non-zero values, V'.

        With shrinkage, all small singular values have the same eigenvalue of Psi, so value and gradient can use a
        faster decomposition, which is accurate to about 1e-8 of the largest value.
        """
        if B.shape[1] != self.n_components:
            raise ValueError(f"the penalty has {self.n_components} components, but the problem has {B.shape[1]}")
        Bh = B if self._roots is None else B @ self._roots[1]
        Bh = self._even(Bh, -0.5) if self.evenness else Bh
        if not exact and self.n_components <= _LARGEST_RATIO * self.shrinkage:
            return gram_svd(Bh)
        # K is often much smaller than J, and the SVD of tall matrices is faster.
        V, s, Ut = svd(Bh.T)
        r = int(np.count_nonzero(s > max(B.shape) * _EPS * s[0]))
        return Ut[:r].T, s[:r], V[:, :r].T

    def _gradient(self, U: Array, slopes: Array, Vt: Array) -> Array:
        """inv(Gamma) B inv(Omega) (K, J), from the decomposition of Bh inv(Psi)."""
        gradient = (U * slopes) @ Vt
        gradient = self._even(gradient, -0.5) if self.evenness else gradient
        return gradient if self._roots is None else gradient @ self._roots[1]

    def _even(self, X: Array, power: float) -> Array:
        """Return Gamma^power X; Gamma has one eigenvalue for the constant vector and one for all others."""
        along, across = (1 + (len(X) - 1) * self.evenness) ** power, (1 - self.evenness) ** power
        return across * X + (along - across) * X.mean(axis=0)


def water_fill(s: Array, n: int, low: float, high: float) -> tuple[Array, float]:
    """Minimise sum s_i^2/tau_i over low <= tau_i <= high with sum tau_i = n, for n values of which s (r,) are not zero.

    Returns tau (r,), and the tau of each of the n - r zero values. Needs low <= 1 <= high.
    """
    r, s = len(s), s / s[:1]
    if low >= 1:
        return np.ones(r), 1.0
    if r * high + (n - r) * low <= n:
        # All can be at the upper limit; the rest costs nothing and is divided evenly.
        return np.full(r, high), max(low, (n - r * high) / (n - r)) if r < n else high
    # Find lam with sum clip(s_i/lam, low, high) + (n - r) low = n. As lam increases, value i leaves the upper limit at
    # s_i/high and reaches the lower limit at s_i/low. Between two such events the sum is `fixed + moving/lam`. With so
    # few values, a plain loop is faster than array operations.
    values = s.tolist()
    events = [(value / high, value, -high) for value in values]
    events += [(value / low if low > 0 else np.inf, -value, low) for value in values]
    events.sort()
    fixed, moving, last = r * high + (n - r) * low, 0.0, 0.0
    for lam, moved, freed in events:
        if fixed + moving / lam <= n or lam == events[-1][0]:
            break
        fixed, moving, last = fixed + freed, moving + moved, lam
    remaining = n - fixed
    level = min(max(moving / remaining, last), lam) if remaining > 0 else lam
    return np.minimum(np.maximum(s / level, low), high), low


def _prior_roots(prior: Array, n: int) -> tuple[Array, Array]:
    """A = (n Omega0)^(1/2) and inv(A), both (n, n), for Omega0 the prior (n, n) scaled to trace 1."""
    if np.iscomplexobj(prior):
        raise ValueError("prior must be real, but has complex entries")
    prior = np.asarray(prior, dtype=np.float64)
    if prior.shape != (n, n):
        raise ValueError(f"prior has shape {prior.shape}, not ({n}, {n})")
    if not np.isfinite(prior).all():
        raise ValueError("prior has entries that are not finite")
    asymmetry = np.abs(prior - prior.T).max()
    if asymmetry > 1e-8 * np.abs(prior).max():
        raise ValueError(f"prior is not symmetric: it differs from its transpose by up to {asymmetry:.3g}")
    values, vectors = eigh((prior + prior.T) / 2)
    if values[0] <= n * _EPS * values[-1]:
        raise ValueError(f"prior is not positive definite: its smallest eigenvalue is {values[0]:.3g}")
    roots = np.sqrt(values / values.mean())
    return (vectors * roots) @ vectors.T, (vectors / roots) @ vectors.T
