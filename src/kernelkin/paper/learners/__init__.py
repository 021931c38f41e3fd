"""Kernel machines on one Gram matrix: hinge, squared and epsilon-insensitive loss."""

from .machines import LEARNERS, SVM, SVR, DualSolution, HessianFunction, Learner, Machine, Ridge

__all__ = ["LEARNERS", "SVM", "SVR", "DualSolution", "HessianFunction", "Learner", "Machine", "Ridge"]
