"""Columns in standard units, with outliers drawn in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# Columns with outliers are those with values beyond the 2% to 98% range widened by a quarter on both sides.
TAIL, WIDENED = 0.02, 0.25


@dataclass(frozen=True)
class Columns:
    """Means and standard deviations (d,) of the training rows, and the limits (d,) that values are clipped to."""

    low: np.ndarray
    high: np.ndarray
    center: np.ndarray
    scale: np.ndarray

    @classmethod
    def fit(cls, X: np.ndarray, clip: bool, of_column: np.ndarray) -> Columns:
        """Read off training rows (N, d). Columns of one family have one scale, so that a category counts as one column.

        A column without outliers is not clipped: slopes over time go on beyond the training rows.
        """
        d = X.shape[1]
        low, high = np.full(d, -np.inf), np.full(d, np.inf)
        if clip and len(X):
            first, last = np.quantile(X, [TAIL, 1.0 - TAIL], axis=0)
            wide = np.where(last > first, WIDENED * (last - first), np.inf)
            low = np.where(X.min(0) < first - wide, first - wide, low)
            high = np.where(X.max(0) > last + wide, last + wide, high)
        X = np.clip(X, low, high)
        center = X.mean(0)
        spread = np.sqrt(np.bincount(of_column, X.var(0))[of_column])
        # Columns that differ by rounding alone are constant, and stay so in standard units.
        rounding = 1e-12 * np.maximum(np.abs(center), 1e-300)
        scale = np.where(spread > rounding, spread, np.maximum(rounding, 1.0))
        return cls(low, high, center, scale)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return (np.clip(X, self.low, self.high) - self.center) / self.scale
