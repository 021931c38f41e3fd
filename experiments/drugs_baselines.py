"""Simple predictions of drug response: means, the nearest drugs or cell lines, a matrix of low rank."""

from __future__ import annotations

from typing import Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from .drugs_data import load

_SWEEPS, _STEPS = 20, 60


class Means(RegressorMixin, BaseEstimator):
    """The mean of the drug, of the cell line, or both; what is not known of either is zero."""

    def __init__(self, drug=True, cell_line=True):
        self.drug = drug
        self.cell_line = cell_line

    def fit(self, cells: np.ndarray, y: np.ndarray) -> Self:
        known = np.isfinite(y)
        # Of drug means, so that a drug with few responses counts as much as the others.
        self.level_ = float(np.nanmean([y[of, d].mean() for d, of in enumerate(known.T) if of.any()]))
        self.drug_, self.cell_line_ = np.zeros(y.shape[1]), np.zeros(len(load().response))
        left = np.where(known, y - self.level_, 0.0)
        for _ in range(_SWEEPS):
            if self.cell_line:
                mean = left.sum(axis=1) / np.maximum(known.sum(axis=1), 1)
                self.cell_line_[cells] += mean
                left -= known * mean[:, np.newaxis]
            if self.drug:
                mean = left.sum(axis=0) / np.maximum(known.sum(axis=0), 1)
                self.drug_ += mean
                left -= known * mean
        self.left_ = left
        return self

    def predict(self, cells: np.ndarray) -> np.ndarray:
        return self.level_ + self.cell_line_[cells][:, np.newaxis] + self.drug_


class Nearest(RegressorMixin, BaseEstimator):
    """Means, and the mean of what the k nearest drugs, or cell lines, have beyond the means; weighted by likeness.

    `by` is "responses" (drugs whose responses are correlated), "structure" (drugs alike by the mean of the kernels
    between drugs; their level too) or "measurements" (cell lines alike by the mean of the kernels).
    """

    def __init__(self, by="responses", k=10):
        self.by = by
        self.k = k

    def fit(self, cells: np.ndarray, y: np.ndarray) -> Self:
        known = np.isfinite(y)
        self.means_ = Means(drug=self.by != "structure").fit(cells, y)
        left, data = self.means_.left_, load()
        if self.by == "measurements":
            likeness = data.cell_kernels.mean(axis=0)[:, cells]
            self.beyond_ = _weighted(likeness, known.astype(float), left, self.k)
            return self
        if self.by == "structure":
            likeness = data.drug_kernels.mean(axis=0)
        else:
            unit = left / np.maximum(np.sqrt((left**2).sum(axis=0)), 1e-12)
            likeness = unit.T @ unit
        likeness = likeness * known.any(axis=0)
        beyond = np.zeros((len(data.response), y.shape[1]))
        beyond[cells] = _weighted(likeness, known.T.astype(float), left.T, self.k).T
        self.beyond_ = beyond
        return self

    def predict(self, cells: np.ndarray) -> np.ndarray:
        return self.means_.predict(cells) + self.beyond_[cells]


def _weighted(likeness: np.ndarray, known: np.ndarray, left: np.ndarray, k: int) -> np.ndarray:
    """likeness (p, m), known and left (m, w) -> (p, w): means over the k most alike of m that are known, not oneself.

    Where several have nothing to say, others do: the k are counted among those that are known in each column.
    """
    likeness = np.where(likeness > 1.0 - 1e-9, 0.0, np.maximum(likeness, 0.0))
    order = np.argsort(-likeness, axis=1)
    out = np.zeros((len(likeness), left.shape[1]))
    for i, nearest in enumerate(order):
        use = known[nearest] * (np.cumsum(known[nearest], axis=0) <= k) * likeness[i, nearest][:, np.newaxis]
        out[i] = (use * left[nearest]).sum(axis=0) / np.maximum(use.sum(axis=0), 1e-12)
    return out


class LowRank(RegressorMixin, BaseEstimator):
    """Means, and a matrix of low rank: least squares on the known entries with a penalty on its singular values."""

    def __init__(self, strength=20.0):
        self.strength = strength

    def fit(self, cells: np.ndarray, y: np.ndarray) -> Self:
        self.means_ = Means().fit(cells, y)
        known, found = np.isfinite(y), np.zeros_like(y)
        for _ in range(_STEPS):
            left, sizes, right = np.linalg.svd(np.where(known, self.means_.left_, found), full_matrices=False)
            found = (left * np.maximum(sizes - self.strength, 0.0)) @ right
        self.beyond_ = np.zeros((len(load().response), y.shape[1]))
        self.beyond_[cells] = found
        return self

    def predict(self, cells: np.ndarray) -> np.ndarray:
        return self.means_.predict(cells) + self.beyond_[cells]
