"""Mixed kernel models: functions common to all groups plus functions of each group, with partial pooling."""

from .average import Search
from .covariance import Layout
from .likelihoods import Bernoulli, Gaussian
from .model import MixedModel, Part
from .structures import STRUCTURES, FittedStructure, MixedData, Structure
from .terms import Additive, Constant, Curves, Given, Level, Linear, Smooth, TaskKernel

__all__ = [
    "STRUCTURES",
    "Additive",
    "Bernoulli",
    "Constant",
    "Curves",
    "FittedStructure",
    "Gaussian",
    "Given",
    "Layout",
    "Level",
    "Linear",
    "MixedData",
    "MixedModel",
    "Part",
    "Search",
    "Smooth",
    "Structure",
    "TaskKernel",
]
