"""Multi-task multiple kernel learning with a certificate of optimality."""

from .baselines import (
    AverageClassifier,
    AverageRegressor,
    IKLClassifier,
    IKLRegressor,
    IMKLClassifier,
    IMKLRegressor,
    STLClassifier,
    STLRegressor,
)
from .estimators import MKMTRLClassifier, MKMTRLRegressor
from .kernels import Kernel, gaussian_kernels, linear_kernels, polynomial_kernels, view_kernels

__version__ = "0.1.0"

__all__ = [
    "AverageClassifier",
    "AverageRegressor",
    "IKLClassifier",
    "IKLRegressor",
    "IMKLClassifier",
    "IMKLRegressor",
    "Kernel",
    "MKMTRLClassifier",
    "MKMTRLRegressor",
    "STLClassifier",
    "STLRegressor",
    "gaussian_kernels",
    "linear_kernels",
    "polynomial_kernels",
    "view_kernels",
]
