"""Columns whose spreads differ so much that kernels on all of them depend on one alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..data import TaskData
from .base import FittedKernel
from .functions import Gaussian

# The ratio of the largest to the smallest standard deviation of columns above which a user is warned.
MAX_RATIO = 100.0


def spread_warnings(kernels: Sequence[FittedKernel] | None, data: TaskData) -> tuple[tuple[str, type[Warning]], ...]:
    """Return a warning where columns of very different spread enter one distance.

    Encoded tables are scaled already; what is narrow there is rare. Precomputed kernels (None) have no columns.
    """
    d = data.X.shape[1]
    if kernels is None or d < 2 or data.feature_origins is not None:
        return ()
    if not any(isinstance(kernel.function, Gaussian) and len(kernel.columns) == d for kernel in kernels):
        return ()
    text = _warning(data)
    return () if text is None else ((text, UserWarning),)


def _warning(data: TaskData) -> str | None:
    spreads = np.asarray(data.X[data.sample_weight > 0], dtype=np.float64).std(axis=0)
    varying = np.flatnonzero(spreads > 0)
    if not len(varying):
        return None
    wide, narrow = varying[spreads[varying].argmax()], varying[spreads[varying].argmin()]
    ratio = spreads[wide] / spreads[narrow]
    if not ratio > MAX_RATIO:
        return None
    names = range(data.X.shape[1]) if data.feature_names is None else data.feature_names
    return (
        f"the standard deviation of column {names[wide]!r} is {ratio:.3g} times that of column {names[narrow]!r}, so "
        "that Gaussians on all columns depend on few of them: scale the columns (StandardScaler, TableEncoder), or fit "
        "KinRegressor or KinClassifier, which do"
    )
