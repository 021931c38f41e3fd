"""KinRegressor and KinClassifier: mixed kernel models, averaged by held-out errors."""

from .estimators import KinClassifier, KinRegressor

__all__ = ["KinClassifier", "KinRegressor"]
