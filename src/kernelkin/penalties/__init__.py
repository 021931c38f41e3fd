"""Penalties on the kernel weights B: value, gradient, bound and relation of each."""

from .base import Penalty
from .lp import LpPenalty
from .relation import RelationPenalty, effective_rank
from .shared import SharedLpPenalty

PENALTIES: dict[str, type[Penalty]] = {
    penalty.name: penalty for penalty in (RelationPenalty, LpPenalty, SharedLpPenalty)
}

__all__ = ["PENALTIES", "LpPenalty", "Penalty", "RelationPenalty", "SharedLpPenalty", "effective_rank"]
