"""One task for each class on precomputed kernels; the class of an image is that of the largest value."""

from __future__ import annotations

import time
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import ParameterGrid

_FITTED = ("duality_gap_", "objective_", "effective_rank_")


class OneVsRest(ClassifierMixin, BaseEstimator):
    """A model of this library with the parameters of the best cross-validated accuracy on training images.

    Parameters
    ----------
    model : a classifier with ``kernels="precomputed"``.
    grid : dict from parameters to their values; with a single candidate nothing is chosen.
    cv : the training images are dealt to so many parts, class by class.
    tries : how many of these are held out in turn.
    most : the search uses at most so many images of a class; None: all.
    random_state : seed of the parts.
    """

    def __init__(self, model, grid=None, cv=5, tries=3, most=None, random_state=0):
        self.model = model
        self.grid = grid
        self.cv = cv
        self.tries = tries
        self.most = most
        self.random_state = random_state

    def fit(self, X: np.ndarray, Y: np.ndarray) -> Self:
        """X (n, n, K) kernels, Y (n, T) with a single one in each row."""
        began = time.perf_counter()
        self.accuracies_, chosen = self._choose(X, Y)
        searched = time.perf_counter()
        processor = time.process_time()
        self.best_ = clone(self.model).set_params(**chosen).fit(X, Y > 0)
        self.chosen_ = {
            **chosen,
            "seconds of the search": round(searched - began, 3),
            "seconds of the fit": round(time.perf_counter() - searched, 3),
            "processor seconds of the fit": round(time.process_time() - processor, 3),
            "accuracies": self.accuracies_,
        }
        for name in _FITTED:
            if hasattr(self.best_, name):
                setattr(self, name, getattr(self.best_, name))
        return self

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        """Kernels (q, n, K) -> values (q, T)."""
        return np.asarray(self.best_.decision_function(X))

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Kernels (q, n, K) -> (q, T) with a one at the class of the largest value."""
        return largest(self.decision_function(X))

    def _choose(self, X: np.ndarray, Y: np.ndarray) -> tuple[list[float], dict[str, Any]]:
        """Accuracies of the candidates, and the best one; of equal ones the first."""
        candidates = list(ParameterGrid(self.grid or {}))
        if len(candidates) < 2:
            return [], candidates[0]
        parts = deal(Y, self.cv, self.random_state, self.most)
        found = np.zeros(len(candidates))
        for part in range(self.tries):
            kept, held = np.flatnonzero((parts != part) & (parts >= 0)), np.flatnonzero(parts == part)
            train, test = block(X, kept, kept), block(X, held, kept)
            for i, candidate in enumerate(candidates):
                fitted = clone(self.model).set_params(**candidate).fit(train, Y[kept] > 0)
                found[i] += class_accuracy(Y[held], largest(fitted.decision_function(test))) / self.tries
        return found.round(4).tolist(), candidates[int(np.argmax(found))]


def deal(Y: np.ndarray, n_parts: int, seed: int, most: int | None = None) -> np.ndarray:
    """The part (n,) of each row of Y (n, T): rows of a class in turn, in an order drawn by the seed.

    With `most`, further rows of a class have part -1.
    """
    rng = np.random.default_rng([seed, 7])
    parts = np.full(len(Y), -1)
    for column in Y.T:
        rows = rng.permutation(np.flatnonzero(column > 0))[:most]
        parts[rows] = np.arange(len(rows)) % n_parts
    return parts


def block(X: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """X (q, n, K) at these rows and columns; the values of one kernel stay side by side in memory."""
    stack = np.moveaxis(X, 2, 0)
    return np.moveaxis(np.stack([gram[np.ix_(rows, columns)] for gram in stack]), 0, 2)


def largest(values: np.ndarray) -> np.ndarray:
    """values (q, T) -> (q, T) with a one at the largest of each row."""
    return np.eye(values.shape[1])[np.argmax(values, axis=1)]


def class_accuracy(Y: np.ndarray, predicted: np.ndarray) -> float:
    """The share of images of a class (q, T) that are given it, mean over classes that have images."""
    counts = Y.sum(axis=0)
    return float(((Y * predicted).sum(axis=0)[counts > 0] / counts[counts > 0]).mean())
