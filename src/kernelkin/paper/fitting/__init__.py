"""How models are fitted: specification and data -> Problem -> Solution -> functions."""

from .fit import Fit, FitPlan, Fitted, RunOptions, Shape
from .linear import LinearFit
from .pooled import PooledFit
from .targets import Classification, Regression, Targets
from .two_stage import SecondStage, TwoStageFit

__all__ = [
    "Classification",
    "Fit",
    "FitPlan",
    "Fitted",
    "LinearFit",
    "PooledFit",
    "Regression",
    "RunOptions",
    "SecondStage",
    "Shape",
    "Targets",
    "TwoStageFit",
]
