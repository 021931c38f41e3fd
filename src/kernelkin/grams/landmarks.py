"""The factors of kernels at rows that are in several places: made from landmarks that all places have.

For every kernel some rows of a sample are chosen as in `nystroem_kernels`, so that a sample of all rows leads to the
same approximation. A linear kernel on few columns has the unit vectors for landmarks, and is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..kernels import FittedKernel, Linear
from .links import LinkFactor
from .lowrank import Landmarks, families_by_columns
from .nystroem import PartialCholesky, extend_all


@dataclass(frozen=True)
class LandmarkKernels:
    """Kernels with their landmarks.

    Attributes
    ----------
    kernels : the K kernels.
    landmarks : of each kernel.
    """

    kernels: tuple[FittedKernel, ...]
    landmarks: tuple[Landmarks, ...]

    @cached_property
    def ranks(self) -> list[int]:
        """Columns of the factor of each kernel."""
        return [len(each.points) for each in self.landmarks]

    @property
    def rank(self) -> int:
        """Columns of all factors together."""
        return sum(self.ranks)

    @cached_property
    def places(self) -> list[slice]:
        """The columns of each kernel among those of all."""
        ends = np.cumsum(self.ranks).tolist()
        return [slice(end - rank, end) for end, rank in zip(ends, self.ranks, strict=True)]

    def factors(self, X: np.ndarray) -> tuple[np.ndarray, ...]:
        """X (n, d) -> Phi_k (n, r_k) of each kernel."""
        pairs = zip(self.kernels, self.landmarks, strict=True)
        return tuple(landmarks.factor(kernel, X) for kernel, landmarks in pairs)

    def width(self, b: np.ndarray) -> int:
        """Columns of the factor of a sum with weights b (K,): kernels without weight have none."""
        return sum(rank for rank, weight in zip(self.ranks, b.tolist(), strict=True) if weight > 0)

    def forms(self, projections: np.ndarray) -> np.ndarray:
        """Phi'V (R, m) of all kernels -> (K,): half of v' Phi_k Phi_k' v, summed over the columns of V."""
        return np.array([0.5 * float(np.sum(np.square(projections[place]))) for place in self.places])


def weighted_factor(factors: Sequence[np.ndarray], b: np.ndarray) -> LinkFactor:
    """Phi_k (n, r_k) of each kernel, weights b (K,) -> U with U U' = sum_k b_k Phi_k Phi_k'."""
    pairs = zip(factors, b.tolist(), strict=True)
    roots = [(Phi, np.full(Phi.shape[1] if weight > 0 else 0, np.sqrt(weight))) for Phi, weight in pairs]
    return LinkFactor(roots)


def choose_landmarks(kernels: Sequence[FittedKernel], X: np.ndarray, rank: int) -> LandmarkKernels:
    """Choose landmarks among rows X (n, d), `rank` of all kernels together."""
    found: dict[int, Landmarks] = {}
    partial: list[PartialCholesky] = []
    rng = np.random.default_rng(0)
    few = rank // len(kernels)
    # The order in which `nystroem_kernels` draws.
    for k in (k for positions in families_by_columns(kernels, few) for k in positions):
        if isinstance(kernels[k].function, Linear) and len(kernels[k].columns) <= few:
            found[k] = _unit_vectors(kernels[k], X)
        else:
            partial.append(PartialCholesky(kernels[k], k, X, rng))
    extend_all(partial, rank - sum(len(each.points) for each in found.values()))
    for factor in partial:
        landmarks = factor.family(np.arange(len(X))).landmarks
        assert landmarks is not None
        found[factor.position] = Landmarks(landmarks.points, landmarks.triangle)
    return LandmarkKernels(tuple(kernels), tuple(found[k] for k in range(len(kernels))))


def is_exact(kernels: Sequence[FittedKernel]) -> bool:
    """Whether landmarks, if there are enough of them, lack nothing of any kernel at any row."""
    return all(isinstance(kernel.function, Linear) for kernel in kernels)


def _unit_vectors(kernel: FittedKernel, X: np.ndarray) -> Landmarks:
    """The landmarks of a linear kernel on rows such as X (n, d): a unit vector for each of its columns."""
    points = np.zeros((len(kernel.columns), X.shape[1]), dtype=X.dtype)
    points[np.arange(len(points)), list(kernel.columns)] = 1.0
    return Landmarks(points, np.eye(len(points)))
