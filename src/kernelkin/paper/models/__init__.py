"""The estimators."""

from .average import AverageClassifier, AverageRegressor
from .composed import MultiTaskKernelEstimator
from .fes import FESRegressor
from .ikl import IKLClassifier, IKLRegressor
from .imkl import IMKLClassifier, IMKLRegressor
from .linear import LassoRegressor, MeanRegressor, OLSRegressor
from .mklsa import MKLSAClassifier
from .mkmtfl import MKMTFLClassifier, MKMTFLRegressor
from .mkmtrl import MKMTRLClassifier, MKMTRLRegressor
from .mrce import MRCERegressor
from .mtfl import MTFLClassifier, MTFLRegressor
from .mtrl import MTRLClassifier, MTRLRegressor
from .stl import STLClassifier, STLRegressor
from .two_stage import TwoStageMKMTRLClassifier, TwoStageMKMTRLRegressor

__all__ = [
    "AverageClassifier",
    "AverageRegressor",
    "FESRegressor",
    "IKLClassifier",
    "IKLRegressor",
    "IMKLClassifier",
    "IMKLRegressor",
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
    "MultiTaskKernelEstimator",
    "OLSRegressor",
    "STLClassifier",
    "STLRegressor",
    "TwoStageMKMTRLClassifier",
    "TwoStageMKMTRLRegressor",
]
