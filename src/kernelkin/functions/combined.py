"""The weighted average of the functions of several fits, on scaled columns, in the units of the targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class CombinedFunctions:
    """f_t(x) = location_t + spread_t sum_m weights_m (slopes_m f_tm(z) + offsets_m), with z the scaled columns of x.

    Attributes
    ----------
    members : functions of each fit.
    weights, slopes, offsets : (M,) how their values are averaged.
    center, scale : (d,) z = (x - center) / scale.
    location, spread : (T,) from standardised targets to those of each task; unknown tasks have the means of both.
    """

    members: tuple[Any, ...]
    weights: np.ndarray
    slopes: np.ndarray
    offsets: np.ndarray
    center: np.ndarray
    scale: np.ndarray
    location: np.ndarray
    spread: np.ndarray

    def rows(self) -> np.ndarray | None:
        """The rows (s, d) that the fits keep, in the units of X; None where they keep none."""
        kept = [rows for rows in (member.rows() for member in self.members) if rows is not None]
        return np.unique(np.concatenate(kept), axis=0) * self.scale + self.center if kept else None

    def spreads(self, X: np.ndarray, codes: np.ndarray | None) -> np.ndarray:
        """Return the standard deviation of the first value over the members (q,), or (q, T), in standard units."""
        Z = (X - self.center) / self.scale
        parts = np.array([member.values(Z, codes)[..., 0] for member in self.members])
        mean = np.tensordot(self.weights, parts, axes=1)
        return np.sqrt(np.tensordot(self.weights, (parts - mean) ** 2, axes=1))

    def values(self, X: np.ndarray, codes: np.ndarray | None) -> np.ndarray:
        """X (q, d), the task of each row (q,) -> (q, M); without codes, every task on every row -> (q, T, M)."""
        Z = (X - self.center) / self.scale
        total = 0.0
        for member, weight, slope, offset in zip(self.members, self.weights, self.slopes, self.offsets, strict=True):
            total = total + weight * (slope * member.values(Z, codes) + offset)
        location, spread = (np.append(values, values.mean()) for values in (self.location, self.spread))
        rows = np.arange(len(self.location)) if codes is None else codes
        return location[rows][..., np.newaxis] + spread[rows][..., np.newaxis] * np.asarray(total)
