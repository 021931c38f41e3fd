"""Errors and warnings of kernelkin; all others are from scikit-learn or Python."""

import sys
import warnings

__all__ = ["ApproximationWarning", "ClusterError", "CollapseWarning", "GramMemoryError", "ModelFileError"]


class ApproximationWarning(UserWarning):
    """The shared part of coupled tasks was approximated, because there are too many rows for an exact one.

    Set `shared_rank` to a number to accept the approximation without a warning.

    Examples
    --------
    To turn the warning into an error, for fits that must be exact:

    >>> import warnings
    >>> from kernelkin.exceptions import ApproximationWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", ApproximationWarning)
    """


class ClusterError(RuntimeError):
    """A cluster cannot run a fit: its scheduler or workers are gone, lack memory, or have a different version.

    Examples
    --------
    >>> from kernelkin.exceptions import ClusterError
    >>> issubclass(ClusterError, RuntimeError)
    True
    """


class CollapseWarning(UserWarning):
    """The relationship penalty made all tasks use the same mix of kernels, so the relationship is not informative.

    Examples
    --------
    To silence the warning:

    >>> import warnings
    >>> from kernelkin import MKMTRLRegressor
    >>> from kernelkin.datasets import make_related_tasks
    >>> from kernelkin.exceptions import CollapseWarning
    >>> data = make_related_tasks(4, 2, 2, random_state=0)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", CollapseWarning)
    ...     model = MKMTRLRegressor(data.kernels, shrinkage=0.0).fit(data.data, data.target, tasks=data.tasks)
    >>> print(f"{model.effective_rank_:.1f} directions")
    1.0 directions
    """


class GramMemoryError(MemoryError):
    """A fit would need more memory than is available; the message gives both numbers and advice.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelkin import MKMTRLRegressor
    >>> from kernelkin.exceptions import GramMemoryError
    >>> try:
    ...     MKMTRLRegressor().fit(np.zeros((1_000_000, 1)), np.zeros(1_000_000))
    ... except GramMemoryError as error:
    ...     print("too large:", "memory" in str(error))
    too large: True
    """


class ModelFileError(ValueError):
    """A file is not a saved model or cannot be loaded; the message gives the reason and advice.

    Examples
    --------
    >>> import os, tempfile
    >>> from kernelkin import load_model
    >>> from kernelkin.exceptions import ModelFileError
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "table.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("shop,sales")
    ...     try:
    ...         load_model(path)
    ...     except ModelFileError as error:
    ...         print("is not a saved model" in str(error))
    True
    """


def warn_user(message: str, category: type[Warning]) -> None:
    """Issue a warning that points to the user's line that called this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("kernelkin", "sklearn"):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
