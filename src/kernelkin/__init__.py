"""Multi-task multiple kernel learning with a certificate of optimality."""

from .baselines import (
    AverageClassifier,
    AverageRegressor,
    FESRegressor,
    IKLClassifier,
    IKLRegressor,
    IMKLClassifier,
    IMKLRegressor,
    LassoRegressor,
    MKLSAClassifier,
    MKMTFLClassifier,
    MKMTFLRegressor,
    MRCERegressor,
    MTFLClassifier,
    MTFLRegressor,
    MTRLClassifier,
    MTRLRegressor,
    MeanRegressor,
    OLSRegressor,
    STLClassifier,
    STLRegressor,
)
from .estimators import MKMTRLClassifier, MKMTRLRegressor
from .kernels import Kernel, gaussian_kernels, linear_kernels, polynomial_kernels, view_kernels
from .registry import models

__version__ = "0.1.0"

__all__ = [
    "AverageClassifier",
    "AverageRegressor",
    "FESRegressor",
    "IKLClassifier",
    "IKLRegressor",
    "IMKLClassifier",
    "IMKLRegressor",
    "Kernel",
    "LassoRegressor",
    "MKLSAClassifier",
    "MKMTFLClassifier",
    "MKMTFLRegressor",
    "MKMTRLClassifier",
    "MKMTRLRegressor",
    "MRCERegressor",
    "MTFLClassifier",
    "MTFLRegressor",
    "MTRLClassifier",
    "MTRLRegressor",
    "MeanRegressor",
    "OLSRegressor",
    "STLClassifier",
    "STLRegressor",
    "gaussian_kernels",
    "linear_kernels",
    "models",
    "polynomial_kernels",
    "view_kernels",
]
