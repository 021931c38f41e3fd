"""scikit-learn estimators: shells around the rooms before them."""

from .mkmtrl import MKMTRLClassifier, MKMTRLRegressor
from .two_stage import TwoStageMKMTRLClassifier, TwoStageMKMTRLRegressor

__all__ = ["MKMTRLClassifier", "MKMTRLRegressor", "TwoStageMKMTRLClassifier", "TwoStageMKMTRLRegressor"]
