"""Deviations of an average of models: noise, and what its members differ by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..functions import CombinedFunctions
from .held_out import HeldOut

# The least share of the mean squared residual that is noise, not disagreement of the members.
LEAST_NOISE = 0.1


@dataclass(frozen=True)
class MemberDeviations:
    """Deviations sqrt(noise + spread^2), times the spread of each task's targets."""

    functions: CombinedFunctions
    noise: float

    def deviations(self, X: np.ndarray, codes: np.ndarray | None) -> np.ndarray:
        """X (q, d), the task of each row (q,) -> (q,); without codes, every task on every row -> (q, T)."""
        spread = np.append(self.functions.spread, self.functions.spread.mean())
        rows = np.arange(len(self.functions.spread)) if codes is None else codes
        return spread[rows] * np.sqrt(self.noise + self.functions.spreads(X, codes) ** 2)


def average_held_out(
    functions: CombinedFunctions, values: Sequence[Sequence[np.ndarray]], y: Sequence[np.ndarray] | None
) -> HeldOut:
    """Average the held-out values of the members of an average as the average does.

    Parameters
    ----------
    functions : the average
    values : for each member and task (n_t, m), in standard units
    y : for each task (n_t,), standardised targets; None for classes
    """
    linked = [
        [slope * part + offset for part in member]
        for member, slope, offset in zip(values, functions.slopes, functions.offsets, strict=True)
    ]
    stacked = [np.array(parts) for parts in zip(*linked, strict=True)]
    weights = functions.task_weights.T
    means = [np.tensordot(own, parts, axes=1) for own, parts in zip(weights, stacked, strict=True)]
    if y is None:
        return HeldOut.constant(means)
    spreads = [
        np.tensordot(own, (parts - mean) ** 2, axes=1)[:, 0]
        for own, parts, mean in zip(weights, stacked, means, strict=True)
    ]
    residuals = np.concatenate([part - mean[:, 0] for part, mean in zip(y, means, strict=True)])
    total = float(np.nanmean(residuals**2))
    noise = max(total - float(np.nanmean(np.concatenate(spreads))), LEAST_NOISE * total, np.finfo(float).tiny)
    units = list(zip(functions.location, functions.spread, strict=True))
    return HeldOut(
        [location + spread * mean for mean, (location, spread) in zip(means, units, strict=True)],
        [spread * np.sqrt(noise + part) for part, (_, spread) in zip(spreads, units, strict=True)],
        MemberDeviations(functions, noise),
    )
