"""Penalties on the kernel weights B, and norms of the functions themselves."""

from .norms import NORMS, FixedWeights, LpPenalty, MixedNorm, SharedLpPenalty, SimplexPenalty, SpectralNorm
from .relation import Penalty, Relation, RelationPenalty, effective_rank

PENALTIES: dict[str, type[Penalty]] = {
    penalty.name: penalty for penalty in (RelationPenalty, LpPenalty, SharedLpPenalty, FixedWeights, SimplexPenalty)
}

__all__ = [
    "NORMS",
    "PENALTIES",
    "FixedWeights",
    "LpPenalty",
    "MixedNorm",
    "Penalty",
    "Relation",
    "RelationPenalty",
    "SharedLpPenalty",
    "SimplexPenalty",
    "SpectralNorm",
    "effective_rank",
]
