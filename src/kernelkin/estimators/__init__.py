"""scikit-learn estimators: shells around the rooms before them."""

from .mkmtrl import MKMTRLClassifier, MKMTRLRegressor

__all__ = ["MKMTRLClassifier", "MKMTRLRegressor"]
