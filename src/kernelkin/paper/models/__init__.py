"""The estimators of the paper."""

from .linear import FESRegressor, LassoRegressor, MeanRegressor, MRCERegressor, OLSRegressor
from .machines import (
    AverageClassifier,
    AverageRegressor,
    IKLClassifier,
    IKLRegressor,
    IMKLClassifier,
    IMKLRegressor,
    MKLSAClassifier,
    MKMTFLClassifier,
    MKMTFLRegressor,
    MKMTRLClassifier,
    MKMTRLRegressor,
    MultiTaskKernelClassifier,
    MultiTaskKernelRegressor,
    STLClassifier,
    STLRegressor,
)
from .spectral import MTFLClassifier, MTFLRegressor, MTRLClassifier, MTRLRegressor
from .two_stage import TwoStageMKMTRLClassifier, TwoStageMKMTRLRegressor
