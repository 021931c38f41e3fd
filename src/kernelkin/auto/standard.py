"""Columns and targets in standard units, as fitted on training rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..data import TaskData
from ..model_selection.pooled import target_moments


@dataclass(frozen=True)
class Standard:
    """Means and standard deviations of columns (d,), and for regression of the targets of each task (T,)."""

    center: np.ndarray
    scale: np.ndarray
    location: np.ndarray
    spread: np.ndarray

    @classmethod
    def fit(cls, data: TaskData, *, classification: bool) -> Standard:
        used = data.sample_weight > 0
        X, weight = np.asarray(data.X[used], dtype=np.float64), data.sample_weight[used]
        center = np.average(X, axis=0, weights=weight)
        scale = np.sqrt(np.average((X - center) ** 2, axis=0, weights=weight))
        scale = np.where(scale > 1e-12 * np.maximum(np.abs(center), 1e-300), scale, 1.0)
        T = data.n_tasks
        if classification:
            return cls(center, scale, np.zeros(T), np.ones(T))
        location, spread = target_moments(data)
        return cls(center, scale, location, spread)

    @property
    def _leaves_targets(self) -> bool:
        """Whether targets have standard units already, as classes always have."""
        return bool((self.spread == 1).all() and (self.location == 0).all())

    def apply(self, data: TaskData) -> TaskData:
        """Return the data in standard units."""
        X = (np.asarray(data.X, dtype=np.float64) - self.center) / self.scale
        y = data.y
        if not self._leaves_targets:
            pairs = zip(data.y, self.location, self.spread, strict=True)
            y = tuple((part - location) / spread for part, location, spread in pairs)
        return replace(data, X=X, y=y)

    def restore(self, data: TaskData) -> TaskData:
        """Return the data with targets in their own units; columns stay in standard units."""
        if self._leaves_targets:
            return data
        units = zip(data.y, self.location, self.spread, strict=True)
        return replace(data, y=tuple(location + spread * part for part, location, spread in units))
