"""The errors and warnings that are ours; everything else is scikit-learn's or Python's own."""

import sys
import warnings


class CollapseWarning(UserWarning):
    """The relationship penalty has put all tasks on one mix of kernels, so the relationship says nothing."""


class GramMemoryError(MemoryError):
    """The Gram matrices of a fit would not fit into memory."""


class ModelFileError(ValueError):
    """A file is not a saved model, or not one that can be loaded."""


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line that called into the package, however deep the call has gone since."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("kernelkin", "sklearn"):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
