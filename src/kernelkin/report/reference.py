"""Rows to explain a model at: features as the model takes them, and the task of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from ..data import Queries
from ..storage import SavedModel

MAX_ROWS = 200


@dataclass(frozen=True)
class Reference:
    """A fitted model as a function of encoded rows, and rows of its tasks.

    Attributes
    ----------
    saved : the model.
    rows : (n, d) encoded rows.
    codes : (n,) a task for each of them.
    """

    saved: SavedModel
    rows: np.ndarray
    codes: np.ndarray

    @property
    def model(self) -> Any:
        return getattr(self.saved.model, "best_estimator_", self.saved.model)

    def units(self) -> tuple[np.ndarray, np.ndarray]:
        """(T,) what is added to and multiplied with the model's values, to give those of the table."""
        T, schema = len(self.model.tasks_), self.saved.schema
        if schema is None or not schema.regression:
            return np.zeros(T), np.ones(T)
        return np.broadcast_to(schema.target_means, T), np.broadcast_to(schema.target_scales, T)

    def values(self, X: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Predictions (q,) for encoded rows; of two classes, the probability of the second."""
        if is_classifier(self.model):
            return class_probability(self.model, X, codes)
        location, scale = self.units()
        return self.model.functions_.values(X, codes)[:, 0] * scale[codes] + location[codes]

    @property
    def is_probability(self) -> bool:
        return is_classifier(self.model)

    @property
    def quantity(self) -> str | None:
        """What the values are; None where a model has more than two classes."""
        if not is_classifier(self.model):
            return (
                self.saved.schema.target if self.saved.schema is not None and self.saved.schema.task else "prediction"
            )
        classes = self.model.classes_
        return f"probability of {classes[1]}" if len(classes) == 2 else None

    def typical(self) -> np.ndarray:
        """(d,) the row that is nearest to the mean of all, in units of the spread of each feature."""
        spread = self.rows.std(axis=0)
        distance = (((self.rows - self.rows.mean(axis=0)) / np.where(spread > 0, spread, 1.0)) ** 2).sum(axis=1)
        return self.rows[distance.argmin()]


def class_probability(model: Any, X: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Probabilities (q,) of the second of two classes, for encoded rows."""
    if not hasattr(model, "uncertainty_"):
        return model.functions_.probabilities(Queries(X, codes))[:, 1]
    values, link = model.functions_.values(X, codes), model.uncertainty_.link
    out = np.empty(len(X))
    for t in np.unique(codes).tolist():
        rows = codes == t
        out[rows] = link.probabilities(values[rows, :1], t)[:, 1]
    return out


def reference_rows(saved: SavedModel) -> Reference | None:
    """Return rows of the training data, or those that the functions are over; None where there are none."""
    model = getattr(saved.model, "best_estimator_", saved.model)
    found = model.uncertainty_.held_out() if hasattr(model, "uncertainty_") else None
    T, rng = len(model.tasks_), np.random.default_rng(0)
    if found is not None:
        data = found[1]
        if data.X.ndim != 2:
            return None
        rows = np.concatenate(data.rows)
        codes = np.repeat(np.arange(T), [len(part) for part in data.rows])
        kept = _spread_over_tasks(codes, rng)
        return Reference(saved, data.X[rows[kept]], codes[kept])
    known = model.functions_.rows()
    if known is None or not len(known):
        return None
    kept = rng.permutation(max(len(known), min(T, MAX_ROWS)))[:MAX_ROWS]
    return Reference(saved, known[kept % len(known)], np.arange(len(kept)) % T)


def _spread_over_tasks(codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Positions of at most MAX_ROWS rows: one of each task, then a second, and so on."""
    order = rng.permutation(len(codes))
    turn = np.empty(len(codes), dtype=np.intp)
    for t in np.unique(codes).tolist():
        own = order[codes[order] == t]
        turn[own] = np.arange(len(own))
    return order[np.argsort(turn[order], kind="stable")][:MAX_ROWS]
