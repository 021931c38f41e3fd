"""Class probabilities, and standard deviations and intervals of predictions."""

from .calibration import Residuals, TaskLink, fit_link, fit_residuals, pooled_link
from .estimate import Uncertainty, class_probabilities, fold_values, prediction_deviations, prediction_intervals

__all__ = [
    "Residuals",
    "TaskLink",
    "Uncertainty",
    "class_probabilities",
    "fit_link",
    "fit_residuals",
    "fold_values",
    "pooled_link",
    "prediction_deviations",
    "prediction_intervals",
]
