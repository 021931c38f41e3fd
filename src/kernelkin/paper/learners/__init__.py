"""Kernel machines on one Gram matrix: hinge, squared and epsilon-insensitive loss."""

from .base import DualSolution, HessianFunction, Learner, Machine
from .ridge import Ridge
from .svm import SVM, SVR

LEARNERS: dict[str, type] = {learner.name: learner for learner in (SVM, Ridge, SVR)}

__all__ = ["LEARNERS", "SVM", "SVR", "DualSolution", "HessianFunction", "Learner", "Machine", "Ridge"]
