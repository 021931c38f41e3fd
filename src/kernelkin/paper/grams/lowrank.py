"""Kernels over the rows of all tasks, for the parts that coupled tasks share.

If the columns of a kernel have few distinct rows (a binary attribute, a grade, a type of school), its Gram matrix is
`Z S Z'`, with the indicators Z of the u distinct rows and the Gram matrix S on these. All kernels on the same columns
share Z, so several bandwidths have the rank of one. The factor of a linear kernel on d columns is these columns, that
of a polynomial kernel their products. Otherwise Z maps each row to its point in a stack.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ...data.forms import TaskData
from ...decompositions import eigh
from ...engines.threads import Each, serially
from ...kernels.grams import Scaling, fit_diagonal_scaling
from ...kernels.kernel import FittedKernel
from .stack import GramStack

# Factors are used if their total number of columns is below this share of the rows.
_WORTHWHILE = 1 / 3
# Eigenvalues of a kernel's Gram below this share of the largest are rounding.
_ROUNDING = 1e-15


class KernelFamily(NamedTuple):
    """Kernels with the Grams `scale_f Phi S_f Phi'`, which share the factor Phi (N, r).

    `factor` is dense or has sparse indicators. `cores` S (F, r, r) is None for the identity, of one kernel. `kernels`
    and `scale` (F,) are the positions of the kernels among all K, and their factors.
    """

    factor: Any
    cores: GramStack | None
    kernels: np.ndarray
    scale: np.ndarray

    def core(self, b: np.ndarray, each: Each = serially) -> np.ndarray:
        """Weights b (K,) of all kernels -> S(b) (r, r), or the factor of the identity."""
        weights = b[self.kernels] * self.scale
        return weights if self.cores is None else self.cores.combine(weights[:, np.newaxis], each)[0]

    def root(self, b: np.ndarray, each: Each = serially) -> np.ndarray:
        """b (K,) -> U (N, R) with U U' the weighted sum of these Grams."""
        if not b[self.kernels].any():
            return np.zeros((self.factor.shape[0], 0))
        S = self.core(b, each)
        return self.factor * np.sqrt(S) if self.cores is None else self.factor @ _root(S)


class LinkKernels:
    """Families of kernels with common factors, over the N rows of all tasks, in order."""

    def __init__(self, families: Sequence[KernelFamily]) -> None:
        self.families = tuple(families)
        self.rank = sum(family.factor.shape[1] for family in self.families)
        self.n_kernels = sum(len(family.kernels) for family in self.families)

    @classmethod
    def at_points(cls, stack: GramStack, place: np.ndarray) -> LinkKernels:
        """Kernels of a stack over points, where row i of all tasks is the point place[i] (N,)."""
        every = np.arange(stack.n_kernels)
        indicators = csr_array((np.ones(len(place)), place, np.arange(len(place) + 1)), (len(place), stack.n_rows))
        return cls([KernelFamily(indicators, stack, every, np.ones(len(every)))])

    def take(self, rows: np.ndarray) -> LinkKernels:
        """The kernels among some of the rows."""
        return LinkKernels([family._replace(factor=family.factor[rows]) for family in self.families])

    def scaled(self, normalize: str | None, weight: np.ndarray, charges: np.ndarray) -> tuple[Scaling, LinkKernels]:
        """Scale by the mean diagonal of these rows, weighted, or not at all, and by the kernels' charges (K,)."""
        means, weight = np.empty((self.n_kernels, 1)), weight / weight.sum()
        for family in self.families:
            moments = family.factor.T @ (weight[:, np.newaxis] * family.factor)
            values = np.eye(len(moments))[np.newaxis] if family.cores is None else family.cores.values
            means[family.kernels, 0] = family.scale * np.einsum("frs,rs->f", values, moments)
        # These scalings depend only on the mean diagonal, so one row with this value is enough.
        scaling = fit_diagonal_scaling(normalize, means).charged(charges)
        families = [family._replace(scale=family.scale * scaling.factor[family.kernels]) for family in self.families]
        return scaling, LinkKernels(families)

    def quadratic_forms(self, V: np.ndarray, each: Each = serially) -> np.ndarray:
        """V (N, m) -> (K, m): half of v' G_k v."""
        forms = np.empty((self.n_kernels, V.shape[1]))
        for family in self.families:
            P = family.factor.T @ V
            own = 0.5 * np.square(P).sum(axis=0) if family.cores is None else family.cores.quadratic_forms(P, each)
            forms[family.kernels] = family.scale[:, np.newaxis] * own
        return forms

    def root(self, b: np.ndarray, each: Each = serially) -> np.ndarray:
        """b (K,) -> U (N, R) with U U' = G(b)."""
        return np.hstack([family.root(b, each) for family in self.families])

    def combine(self, b: np.ndarray, each: Each = serially) -> np.ndarray:
        """b (K,) -> G(b) (N, N)."""
        out: Any = 0.0
        for family in self.families:
            S = family.core(b, each)
            out = out + (family.factor * S if family.cores is None else family.factor @ S) @ family.factor.T
        return out

    def image(self, b: np.ndarray, V: np.ndarray, at: LinkKernels | None = None) -> np.ndarray:
        """b (K,), V (N, m) -> G(b) V at these rows, or at other rows, whose kernels are `at`."""
        out: Any = 0.0
        for left, right in zip((self if at is None else at).families, self.families, strict=True):
            S, P = right.core(b), right.factor.T @ V
            out = out + left.factor @ (S * P if right.cores is None else S @ P)
        return out


def low_rank_kernels(
    data: TaskData, kernels: Sequence[FittedKernel] | None, normalize: str | None
) -> LinkKernels | None:
    """Return exact factors over the rows of all tasks, instead of Gram matrices.

    None if kernels are precomputed or not scaled by a factor only, or if the factors are too large.
    """
    if kernels is None or normalize not in (None, "trace"):
        return None
    X = data.X[np.concatenate(data.rows)]
    limit = int(_WORTHWHILE * len(X))
    # Kernels on the same columns share a factor; those with factors of their own are alone.
    groups: dict[tuple, list[int]] = {}
    for k, kernel in enumerate(kernels):
        own = (k,) if kernel.function.n_features(len(kernel.columns)) <= limit else ()
        groups.setdefault((kernel.columns, own), []).append(k)
    families: list[KernelFamily] = []
    for positions in groups.values():
        family = _exact_family(kernels, positions, X, limit)
        if family is None or sum(f.factor.shape[1] for f in families) + family.factor.shape[1] > limit:
            return None
        families.append(family)
    return LinkKernels(families)


def _exact_family(
    kernels: Sequence[FittedKernel], positions: list[int], X: np.ndarray, limit: int
) -> KernelFamily | None:
    """Return the factor of kernels on the same columns over rows X (N, d); None if it has more than `limit` columns."""
    kernel, at = kernels[positions[0]], (np.array(positions), np.ones(len(positions)))
    columns = X[:, kernel.columns].astype(np.float64)
    if kernel.function.n_features(columns.shape[1]) <= limit:
        return KernelFamily(kernel.function.features(columns), None, *at)
    points, first, place = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    if len(points) > limit:
        return None
    cores = np.array([kernels[k](X[first].astype(np.float64)) for k in positions])
    if len(positions) == 1:
        return KernelFamily(_root(cores[0])[place.ravel()], None, *at)
    indicators = (place.ravel()[:, np.newaxis] == np.arange(len(points))).astype(np.float64)
    return KernelFamily(indicators, GramStack(cores), *at)


def _root(S: np.ndarray) -> np.ndarray:
    """S (r, r) -> its root (r, R), without directions that are rounding."""
    values, vectors = eigh(S)
    kept = values > _ROUNDING * values[-1]
    return vectors[:, kept] * np.sqrt(values[kept])
