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
from .model_selection import MKMTRLClassifierCV, MKMTRLRegressorCV, MultiTaskCV
from .persistence import SavedModel, load_model, save_model
from .registry import models
from .tables import TableSchema

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
    "MKMTRLClassifierCV",
    "MKMTRLRegressor",
    "MKMTRLRegressorCV",
    "MRCERegressor",
    "MTFLClassifier",
    "MTFLRegressor",
    "MTRLClassifier",
    "MTRLRegressor",
    "MeanRegressor",
    "MultiTaskCV",
    "OLSRegressor",
    "STLClassifier",
    "STLRegressor",
    "SavedModel",
    "TableSchema",
    "TwoStageMKMTRLClassifier",
    "TwoStageMKMTRLRegressor",
    "gaussian_kernels",
    "linear_kernels",
    "load_model",
    "models",
    "polynomial_kernels",
    "save_model",
    "view_kernels",
]
