"""Columns whose spreads differ so much that kernels on all of them depend on one alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..data import TaskData
from .base import FittedKernel
from .functions import Gaussian

# The ratio of the largest to the smallest standard deviation of columns above which a user is warned.
MAX_RATIO = 100.0


def spread_warning(kernels: Sequence[FittedKernel], data: TaskData) -> str | None:
    """Return a warning where columns of very different spread enter one distance; None where they do not.

    Encoded tables are scaled already; what is narrow there is rare.
    """
    d = data.X.shape[1]
    if (
        d < 2
        or data.feature_origins is not None
        or not any(isinstance(k.function, Gaussian) and len(k.columns) == d for k in kernels)
    ):
        return None
    spreads = np.asarray(data.X[data.sample_weight > 0], dtype=np.float64).std(axis=0)
    varying = np.flatnonzero(spreads > 0)
    if not len(varying):
        return None
    wide, narrow = varying[spreads[varying].argmax()], varying[spreads[varying].argmin()]
    ratio = spreads[wide] / spreads[narrow]
    if not ratio > MAX_RATIO:
        return None
    names = range(d) if data.feature_names is None else data.feature_names
    return (
        f"the standard deviation of column {names[wide]!r} is {ratio:.3g} times that of column {names[narrow]!r}, so "
        "that Gaussians on all columns depend on few of them: scale the columns (StandardScaler, TableEncoder), or fit "
        "KinRegressor or KinClassifier, which do"
    )
