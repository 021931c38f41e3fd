"""Probabilities of classes, and standard deviations and intervals of predictions."""

from .estimate import Intervals, Uncertainty
from .held_out import HeldOut, HeldOutSource, LeftOutTasks, calibration_folds, gather_folds
from .link import TaskLink, fit_link, pooled_link
from .predictions import class_probabilities, prediction_deviations, prediction_intervals
from .residuals import ResidualScores, fit_residuals

__all__ = [
    "HeldOut",
    "HeldOutSource",
    "Intervals",
    "LeftOutTasks",
    "ResidualScores",
    "TaskLink",
    "Uncertainty",
    "calibration_folds",
    "class_probabilities",
    "fit_link",
    "fit_residuals",
    "gather_folds",
    "pooled_link",
    "prediction_deviations",
    "prediction_intervals",
]
