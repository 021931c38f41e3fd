"""Cross-validation inside tasks that reuses Gram matrices and solutions."""

from ...data import Fold, make_folds
from .default_grid import default_grid, has_choices
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
    "default_grid",
    "has_choices",
    "jackknife_error",
    "make_folds",
    "r2",
    "read_scoring",
    "roc_auc",
]
