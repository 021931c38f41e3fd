"""Paths and cross-validation that reuse Grams."""

from .estimators import MultiTaskCV
from .ready import MKMTRLClassifierCV, MKMTRLRegressorCV

__all__ = ["MKMTRLClassifierCV", "MKMTRLRegressorCV", "MultiTaskCV"]
