"""Norms of the functions themselves, for problems whose kernel weights are only a means to compute them."""

from .base import FunctionNorm
from .mixed import MixedNorm
from .spectral import SpectralNorm

NORMS: dict[str, type[FunctionNorm]] = {norm.name: norm for norm in (MixedNorm, SpectralNorm)}

__all__ = ["NORMS", "FunctionNorm", "MixedNorm", "SpectralNorm"]
