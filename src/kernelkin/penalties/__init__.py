"""Penalties on the kernel weights B, and norms of the functions themselves."""

from .base import Penalty
from .factors import Relation, effective_rank
from .indicators import FixedWeights, SimplexPenalty
from .lp import LpPenalty
from .norms import NORMS, FunctionNorm, MixedNorm, SpectralNorm
from .relation import RelationPenalty
from .shared import SharedLpPenalty
from .shared_only import SharedOnlyPenalty

PENALTIES: dict[str, type[Penalty]] = {
    penalty.name: penalty
    for penalty in (RelationPenalty, LpPenalty, SharedLpPenalty, SharedOnlyPenalty, FixedWeights, SimplexPenalty)
}

__all__ = [
    "NORMS",
    "PENALTIES",
    "FixedWeights",
    "FunctionNorm",
    "LpPenalty",
    "MixedNorm",
    "Penalty",
    "Relation",
    "RelationPenalty",
    "SharedLpPenalty",
    "SharedOnlyPenalty",
    "SimplexPenalty",
    "SpectralNorm",
    "effective_rank",
]
