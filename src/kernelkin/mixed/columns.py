"""Standardise columns, clip outliers, and compute the means of columns in each group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..decompositions import svd

# Columns with outliers are those with values beyond the 2% to 98% range widened by a quarter on both sides.
TAIL, WIDENED = 0.02, 0.25
# Other columns are clipped to the range of the training rows, widened by this multiple of its width on both sides.
FAR = 1.5
# Means of groups are of use if the share of the variance of a column between groups is in this range.
BETWEEN = (0.01, 0.99)


@dataclass(frozen=True)
class Columns:
    """Means and scales (d,) of the columns of training rows, and the limits (d,) that values are clipped to.

    If all columns are of one family and there are more columns than rows, rows are rotated to the axes (d, r) that the
    training rows span, plus the norm of the remainder. This changes neither inner products nor distances to them.
    """

    low: np.ndarray
    high: np.ndarray
    center: np.ndarray
    scale: np.ndarray
    axes: np.ndarray | None = None

    @classmethod
    def fit(cls, X: np.ndarray, clip: bool, of_column: np.ndarray, weight: np.ndarray) -> Columns:
        """Fit to training rows (N, d) with weights (N,).

        Columns of one family share a scale, so that a category counts as one column. Slopes over time extrapolate
        beyond the training rows unless the column has outliers, but values far from all others do not count in full.
        """
        width = np.ptp(X, axis=0)
        reach = np.where(width > 0, FAR * width, np.inf)
        low, high = X.min(0) - reach, X.max(0) + reach
        if clip:
            first, last = weighted_quantiles(X, weight, (TAIL, 1.0 - TAIL))
            wide = np.where(last > first, WIDENED * (last - first), np.inf)
            low = np.where(X.min(0) < first - wide, first - wide, low)
            high = np.where(X.max(0) > last + wide, last + wide, high)
        X = np.clip(X, low, high)
        center = np.average(X, axis=0, weights=weight)
        spread = np.sqrt(np.bincount(of_column, np.average((X - center) ** 2, axis=0, weights=weight))[of_column])
        # Columns that vary only by rounding are treated as constant.
        rounding = 1e-12 * np.maximum(np.abs(center), 1e-300)
        scale = np.where(spread > rounding, spread, np.maximum(rounding, 1.0))
        found = cls(low, high, center, scale)
        if X.shape[1] > max(len(X), 1) and not of_column.any():
            found = replace(found, axes=svd(found(X))[2].T)
        return found

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Return rows (q, d) in standard units (q, d), or (q, r + 1) if there are axes."""
        X = (np.clip(X, self.low, self.high) - self.center) / self.scale
        if self.axes is None:
            return X
        inside = X @ self.axes
        whole = (X * X).sum(1)
        outside = whole - (inside * inside).sum(1)
        # For training rows, the remainder is only rounding error.
        return np.column_stack([inside, np.sqrt(np.where(outside > 1e-12 * whole, outside, 0.0))])

    @property
    def n_columns(self) -> int:
        """Number of columns that `__call__` returns."""
        return len(self.center) if self.axes is None else self.axes.shape[1] + 1

    def restore(self, X: np.ndarray) -> np.ndarray:
        """Return clipped training rows in their original units."""
        X = X if self.axes is None else X[:, :-1] @ self.axes.T
        return X * self.scale + self.center

    def families(self, of_column: np.ndarray) -> np.ndarray:
        """Return the family of each column that `__call__` returns."""
        return of_column if self.axes is None else np.zeros(self.n_columns, dtype=np.intp)


@dataclass(frozen=True)
class GroupMeans:
    """Means of columns over the training rows of each group, as further columns.

    A function of a column and of its mean in the group can differ within and between groups (Mundlak's model).
    """

    table: np.ndarray  # (G, d) the means of each group; NaN for groups without rows
    between: np.ndarray  # (d,) the share of the variance of each column that is between groups
    columns: Columns  # the standardisation of the means

    @classmethod
    def fit(
        cls, X: np.ndarray, codes: np.ndarray, n_groups: int, of_column: np.ndarray, weight: np.ndarray
    ) -> GroupMeans:
        """Fit to standardised rows (N, d) of groups (N,) with weights (N,)."""
        count = np.bincount(codes, weight, n_groups)
        with np.errstate(invalid="ignore"):
            table = np.stack([np.bincount(codes, weight * x, n_groups) / count for x in X.T], axis=1)
        total, of_means = (np.average(part**2, axis=0, weights=weight) for part in (X, table[codes]))
        between = of_means / np.where(total > 0, total, 1.0)
        columns = Columns.fit(table[codes], False, of_column, weight)
        return cls(table, between, replace(columns, axes=None))

    @property
    def is_useful(self) -> bool:
        """Whether a column varies both within and between groups."""
        return bool(((self.between > BETWEEN[0]) & (self.between < BETWEEN[1])).any())

    def __call__(self, X: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Return rows (q, d) with the means of their groups, (q, 2 d); those of unknown groups are expected values."""
        means = self.table[np.clip(codes, 0, len(self.table) - 1)]
        unknown = ((codes < 0) | (codes >= len(self.table)))[:, None] | np.isnan(means)
        return np.hstack([X, self.columns(np.where(unknown, self.between * X, means))])


def weighted_quantiles(X: np.ndarray, weight: np.ndarray, shares: Sequence[float]) -> list[np.ndarray]:
    """Return quantiles (d,) of the columns of X (N, d), as `np.quantile` with a row of weight w repeated w times."""
    order = np.argsort(X, axis=0, kind="stable")
    X, ends = np.take_along_axis(X, order, axis=0), np.cumsum(weight[order], axis=0)
    found = []
    for share in shares:
        place = share * np.maximum(ends[-1] - 1.0, 0.0)
        low, high = (
            np.take_along_axis(X, np.minimum((ends <= at).sum(0), len(X) - 1)[None], axis=0)[0]
            for at in (np.floor(place), np.ceil(place))
        )
        found.append(low + (place - np.floor(place)) * (high - low))
    return found
