"""Errors and warnings of kernelkin; all others are from scikit-learn or Python."""

import sys
import warnings

__all__ = ["ApproximationWarning", "ClusterError", "CollapseWarning", "GramMemoryError", "ModelFileError"]


class ApproximationWarning(UserWarning):
    """A kernel is not exactly positive semi-definite, so the nearest matrix that is was fitted instead."""


class ClusterError(RuntimeError):
    """A cluster cannot run a fit: its scheduler or workers are gone, lack memory, or have a different version."""


class CollapseWarning(UserWarning):
    """The relationship penalty made all tasks use the same mix of kernels, so the relationship is not informative."""


class GramMemoryError(MemoryError):
    """A fit would need more memory than is available; the message gives both numbers and advice."""


class ModelFileError(ValueError):
    """A file is not a saved model or cannot be loaded; the message gives the reason and advice."""


def warn_user(message: str, category: type[Warning]) -> None:
    """Issue a warning that points to the user's line that called this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("kernelkin", "sklearn"):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
