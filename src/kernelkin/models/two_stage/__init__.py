"""Two stages: kernel weights and relationship online, from pairs of rows, then the machines of all tasks."""

from .models import TwoStageMKMTRLClassifier, TwoStageMKMTRLRegressor

__all__ = ["TwoStageMKMTRLClassifier", "TwoStageMKMTRLRegressor"]
