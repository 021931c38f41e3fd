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
    MeanRegressor,
    MKLSAClassifier,
    MKMTFLClassifier,
    MKMTFLRegressor,
    MRCERegressor,
    MTFLClassifier,
    MTFLRegressor,
    MTRLClassifier,
    MTRLRegressor,
    OLSRegressor,
    STLClassifier,
    STLRegressor,
)
from .estimators import MKMTRLClassifier, MKMTRLRegressor, TwoStageMKMTRLClassifier, TwoStageMKMTRLRegressor
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
    "TwoStageMKMTRLClassifier",
    "TwoStageMKMTRLRegressor",
    "gaussian_kernels",
    "linear_kernels",
    "models",
    "polynomial_kernels",
    "view_kernels",
]
