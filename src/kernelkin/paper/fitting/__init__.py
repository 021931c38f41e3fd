"""A specification on data -> Problem -> Solution -> functions: the one way a model is fitted."""

from .fit import Fit, FitPlan, Fitted, Plan, RunOptions, Shape, Specification
from .linear import LinearFit
from .pooled import PooledFit
from .targets import Classification, Regression, Targets
from .two_stage import SecondStage, TwoStageFit, TwoStagePlan, plan_stream_machines, stream_fitted

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
    "SecondStage",
    "Shape",
    "Specification",
    "Targets",
    "TwoStageFit",
    "TwoStagePlan",
    "plan_stream_machines",
    "stream_fitted",
]
