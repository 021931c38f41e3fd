"""The other models of the paper, behind the interface of MK-MTRL."""

from .average import AverageClassifier, AverageRegressor, STLClassifier, STLRegressor
from .independent import IMKLClassifier, IMKLRegressor
from .mklsa import MKLSAClassifier
from .mkmtfl import MKMTFLClassifier, MKMTFLRegressor
from .mtfl import MTFLClassifier, MTFLRegressor
from .mtrl import MTRLClassifier, MTRLRegressor
from .shared import IKLClassifier, IKLRegressor

__all__ = [
    "AverageClassifier",
    "AverageRegressor",
    "IKLClassifier",
    "IKLRegressor",
    "IMKLClassifier",
    "IMKLRegressor",
    "MKLSAClassifier",
    "MKMTFLClassifier",
    "MKMTFLRegressor",
    "MTFLClassifier",
    "MTFLRegressor",
    "MTRLClassifier",
    "MTRLRegressor",
    "STLClassifier",
    "STLRegressor",
]
