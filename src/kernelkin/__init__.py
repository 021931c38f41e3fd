"""Multi-task multiple kernel learning with a certificate of optimality."""

from .estimators import MKMTRLClassifier, MKMTRLRegressor
from .kernels import Kernel, gaussian_kernels, linear_kernels, polynomial_kernels, view_kernels

__version__ = "0.1.0"

__all__ = [
    "Kernel",
    "MKMTRLClassifier",
    "MKMTRLRegressor",
    "gaussian_kernels",
    "linear_kernels",
    "polynomial_kernels",
    "view_kernels",
]
