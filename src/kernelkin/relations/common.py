"""One function for all tasks, and what the tasks' own rows say against it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..decompositions import eigh
from .rows import PooledRows

RIDGES, WEAKER = np.logspace(-3, 3, 13), 0.1
# Directions of the features with less than this share of their variance are weighted down in the test.
FLOOR = 0.01


@dataclass(frozen=True)
class CommonFit:
    """Ridge regression on the features, for all tasks together.

    Attributes
    ----------
    data : the entries.
    offsets : whether every task has a level of its own, or all tasks have one.
    """

    data: PooledRows
    offsets: bool

    @cached_property
    def design(self) -> np.ndarray:
        """Features (n, m), centred by task or all together."""
        return self._centre(self.data.features)

    @cached_property
    def _svd(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        values, vectors = eigh(self.design.T @ self.design)
        kept = values > 1e-10 * max(values[-1], 1e-300)
        values, vectors = np.sqrt(values[kept]), vectors[:, kept]
        return self.design @ (vectors / values), values, vectors

    @cached_property
    def ridge(self) -> float:
        """Strength of the penalty, by generalised cross-validation, and weaker with offsets.

        What the common function misses would look like differences of tasks where their inputs differ.
        """
        U, s, _ = self._svd
        y = self._centre(self.data.targets)
        inside, n = U.T @ y, len(y)
        free = n - (len(self.data.sizes) if self.offsets else 1)
        shrink = s**2 / (s**2 + RIDGES[:, np.newaxis])
        error = (y**2).sum() - (((2 - shrink) * shrink)[..., np.newaxis] * inside**2).sum(axis=(1, 2))
        best = float(RIDGES[np.argmin(error / np.maximum(free - shrink.sum(axis=1), 1e-9) ** 2)])
        return WEAKER * best if self.offsets else best

    def smooth(self, y: np.ndarray) -> np.ndarray:
        """Fitted values (n, M) of centred targets (n, M)."""
        U, s, _ = self._svd
        return U @ ((s**2 / (s**2 + self.ridge))[:, np.newaxis] * (U.T @ y))

    @cached_property
    def fitted(self) -> np.ndarray:
        return self.smooth(self._centre(self.data.targets))

    @cached_property
    def residuals(self) -> np.ndarray:
        return self._centre(self.data.targets) - self.fitted

    @cached_property
    def coefficients(self) -> np.ndarray:
        """Of the features, (m, M)."""
        U, s, vectors = self._svd
        return vectors @ ((s / (s**2 + self.ridge))[:, np.newaxis] * (U.T @ self._centre(self.data.targets)))

    @cached_property
    def errors(self) -> np.ndarray:
        """Residuals (n, M) of the size that errors have: divided by the root of one less the leverage."""
        U, s, _ = self._svd
        leverage = np.square(U * (s / np.sqrt(s**2 + self.ridge))).sum(axis=1)
        leverage += 1.0 / self.data.sizes[self.data.codes] if self.offsets else 1.0 / len(U)
        return self.residuals / np.sqrt(np.maximum(1.0 - leverage, 0.1))[:, np.newaxis]

    def simulate(self, signs: np.ndarray) -> np.ndarray:
        """Residuals (n, M) of new targets: the fitted function, and errors with these signs (n,)."""
        y = self._centre(self.fitted + signs[:, np.newaxis] * self.errors)
        return y - self.smooth(y)

    def noise_of_means(self, features: np.ndarray) -> float:
        """What errors add, on average, to the squared length of the means of features (n, m) times fitted values."""
        U, s, _ = self._svd
        gain = features.T @ (U * (s**2 / (s**2 + self.ridge))) / len(features)
        return float(np.square(self.errors).sum(axis=1).mean() * np.square(gain).sum())

    def _centre(self, values: np.ndarray) -> np.ndarray:
        return values - (self.data.means(values) if self.offsets else values.mean(axis=0))


def even_features(features: np.ndarray, floor: float = FLOOR) -> np.ndarray:
    """Features (n, m) with directions above the floor brought near to one variance: more of them count."""
    variance = np.square(features).mean(axis=0)
    return features / np.sqrt(variance + floor * max(variance.sum(), 1e-300))


class ScoreProducts:
    """Products of the tasks' scores, from the residuals of the common function.

    The scores of a task are the sums over its entries of centred features times residuals, divided by the root of its
    number of rows: zero on average where the task follows the common function.

    Parameters
    ----------
    features : (n, m)
    data : the entries
    wide : whether tasks share rows
    """

    def __init__(self, features: np.ndarray, data: PooledRows, *, wide: bool) -> None:
        self.features = features - data.means(features)
        self.data, self.wide = data, wide

    @cached_property
    def _lengths(self) -> np.ndarray:
        return np.square(self.features).sum(axis=1, keepdims=True)

    def scores(self, residuals: np.ndarray) -> np.ndarray:
        """Residuals (n, M) -> (T, m, M)."""
        bounds = self.data.starts[1:]
        parts = zip(np.split(self.features, bounds), np.split(residuals, bounds), strict=True)
        return np.stack([F.T @ r for F, r in parts]) / np.sqrt(self.data.sizes)[:, np.newaxis, np.newaxis]

    def matrix(self, residuals: np.ndarray) -> np.ndarray:
        """Products (T, T) of the scores of two tasks, without terms of a row with itself.

        They are zero on average where tasks follow the common function, the diagonal too: noise does not enter, since
        errors of different rows are independent. Between the tasks of wide data, whose errors may be correlated, terms
        of one row are left out as well.
        """
        scores = self.scores(residuals)
        products = np.einsum("sjo,tjo->st", scores, scores, optimize=True)
        return products - self._same_rows(self._lengths, residuals)[..., 0]

    def directions(self, residuals: np.ndarray) -> np.ndarray:
        """The same by direction of the features, (T, T, m)."""
        scores = self.scores(residuals)
        return np.einsum("sjo,tjo->stj", scores, scores) - self._same_rows(self.features**2, residuals)

    def _same_rows(self, squares: np.ndarray, residuals: np.ndarray) -> np.ndarray:
        """Terms of a row with itself (T, T, q), from squared features (n, q) and residuals (n, M)."""
        data, T = self.data, len(self.data.sizes)
        residuals = residuals - data.means(residuals)
        found = np.zeros((T, T, squares.shape[1]))
        if not self.wide:
            own = data.sums(squares * np.square(residuals).sum(axis=1, keepdims=True))
            found[np.arange(T), np.arange(T)] = own / data.sizes[:, np.newaxis]
            return found
        rows, place = np.unique(data.rows, return_inverse=True)
        residuals = residuals / np.sqrt(data.sizes[data.codes])[:, np.newaxis]
        for column in residuals.T:
            for j, square in enumerate(squares.T):
                terms = np.zeros((len(rows), T))
                terms[place, data.codes] = np.sqrt(square) * column
                found[:, :, j] += terms.T @ terms
        return found
