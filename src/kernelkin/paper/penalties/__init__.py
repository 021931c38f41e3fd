"""Penalties on the kernel weights B, and norms of the functions themselves."""

from .base import Penalty, Relation, effective_rank
from .lp import FixedWeights, LpPenalty, SharedLpPenalty, SharedOnlyPenalty, SimplexPenalty
from .norms import NORMS, FunctionNorm, MixedNorm, SpectralNorm
from .relation import RelationPenalty

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
