"""A specification on data -> Problem -> Solution -> functions: the one way a model is fitted."""

from .base import Fitted, Plan, RunOptions, Specification
from .fit import Fit, FitPlan, Shape
from .linear import LinearFit
from .pooled import PooledFit
from .targets import Classification, Regression, Targets

__all__ = [
    "Classification",
    "Fit",
    "FitPlan",
    "Fitted",
    "LinearFit",
    "Plan",
    "PooledFit",
    "Regression",
    "RunOptions",
    "Shape",
    "Specification",
    "Targets",
]
