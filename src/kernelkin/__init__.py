"""Multi-task multiple kernel learning with a certificate of optimality."""

from .auto import KinClassifier, KinRegressor
from .kernels import Kernel, gaussian_kernels, linear_kernels, nearest_psd, polynomial_kernels, view_kernels
from .model_selection import MKMTRLClassifierCV, MKMTRLRegressorCV, MultiTaskCV
from .models import (
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
    MKMTRLClassifier,
    MKMTRLRegressor,
    MRCERegressor,
    MTFLClassifier,
    MTFLRegressor,
    MTRLClassifier,
    MTRLRegressor,
    MultiTaskKernelEstimator,
    OLSRegressor,
    STLClassifier,
    STLRegressor,
)
from .persistence import SavedModel, load_model, save_model
from .registry import all_models
from .schema import TableSchema

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
    "KinClassifier",
    "KinRegressor",
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
    "MultiTaskKernelEstimator",
    "OLSRegressor",
    "STLClassifier",
    "STLRegressor",
    "SavedModel",
    "TableSchema",
    "all_models",
    "gaussian_kernels",
    "linear_kernels",
    "load_model",
    "nearest_psd",
    "polynomial_kernels",
    "save_model",
    "view_kernels",
]
