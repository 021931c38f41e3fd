"""How models are fitted: specification and data -> Problem -> Solution -> functions."""

from .fit import Fit, FitPlan, Fitted, RunOptions, Shape
from .pooled import PooledFit
from .targets import Classification, Regression, Targets
from .two_stage import TwoStageFit

__all__ = [
    "Classification",
    "Fit",
    "FitPlan",
    "Fitted",
    "PooledFit",
    "Regression",
    "RunOptions",
    "Shape",
    "Targets",
    "TwoStageFit",
]
