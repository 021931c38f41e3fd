"""The other models of the paper, behind the interface of MK-MTRL."""

from .average import AverageClassifier, AverageRegressor, STLClassifier, STLRegressor
from .fes import FESRegressor
from .independent import IMKLClassifier, IMKLRegressor
from .linear import LassoRegressor, MeanRegressor, OLSRegressor
from .mklsa import MKLSAClassifier
from .mkmtfl import MKMTFLClassifier, MKMTFLRegressor
from .mrce import MRCERegressor
from .mtfl import MTFLClassifier, MTFLRegressor
from .mtrl import MTRLClassifier, MTRLRegressor
from .shared import IKLClassifier, IKLRegressor

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
    "MRCERegressor",
    "MTFLClassifier",
    "MTFLRegressor",
    "MTRLClassifier",
    "MTRLRegressor",
    "MeanRegressor",
    "OLSRegressor",
    "STLClassifier",
    "STLRegressor",
]
