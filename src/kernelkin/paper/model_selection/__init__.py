"""Cross-validation inside tasks that reuses Gram matrices and solutions."""

from .cv import MKMTRLClassifierCV, MKMTRLRegressorCV, MultiTaskCV

__all__ = ["MKMTRLClassifierCV", "MKMTRLRegressorCV", "MultiTaskCV"]
