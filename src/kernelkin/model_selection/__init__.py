"""Cross-validation inside tasks that reuses Gram matrices and solutions."""

from ..data import Fold, make_folds
from .mkmtrl_cv import MKMTRLClassifierCV, MKMTRLRegressorCV
from .multi_task_cv import MultiTaskCV
from .scoring import METRICS, Metric, Scorer, jackknife_error, r2, read_scoring, roc_auc

__all__ = [
    "METRICS",
    "Fold",
    "MKMTRLClassifierCV",
    "MKMTRLRegressorCV",
    "Metric",
    "MultiTaskCV",
    "Scorer",
    "jackknife_error",
    "make_folds",
    "r2",
    "read_scoring",
    "roc_auc",
]
