"""Cross-validation inside tasks that reuses Gram matrices and solutions."""

from .cv import MKMTRLClassifierCV, MKMTRLRegressorCV, MultiTaskCV
from .grid import default_grid, has_choices
from .scoring import Scorer, r2, read_scoring, roc_auc

__all__ = [
    "MKMTRLClassifierCV",
    "MKMTRLRegressorCV",
    "MultiTaskCV",
    "Scorer",
    "default_grid",
    "has_choices",
    "r2",
    "read_scoring",
    "roc_auc",
]
