"""Weights in the average from pooled out-of-fold errors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..model_selection.pooled import PooledError

# Weights fall by a factor e for each half of a standard error of the best candidate.
UNIT = 0.5
# Members of the average with less weight than this are left out. So far behind the best, in its standard errors, a
# candidate has no weight however few others there are.
NEGLIGIBLE = 0.02
REACH = UNIT * float(np.log(1.0 / NEGLIGIBLE))
MAX_MEMBERS = 8


def average_weights(errors: Sequence[PooledError]) -> np.ndarray:
    """Return weights (candidates,) that fall exponentially with the error: by half a standard error of the best.

    The less the folds can distinguish candidates, the more are averaged. A few with the largest weights are kept.
    """
    values = np.array([error.error for error in errors])
    best = int(values.argmin())
    unit = max(UNIT * errors[best].standard_error, 1e-9 * max(values[best], 1e-300))
    weights = np.exp(-(values - values[best]) / unit)
    weights /= weights.sum()
    kept = np.argsort(-weights, kind="stable")[:MAX_MEMBERS]
    kept = kept[weights[kept] >= min(NEGLIGIBLE, weights[best])]
    out = np.zeros(len(weights))
    out[kept] = weights[kept] / weights[kept].sum()
    return out
