"""One estimator that chooses well: candidates, their out-of-fold errors, and the average of the best."""

from .kin import KinClassifier, KinRegressor

__all__ = ["KinClassifier", "KinRegressor"]
