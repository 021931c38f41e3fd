"""The columns of a model as a person sets them, and the features that a value of each becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..storage import SavedModel
from ..tables.columns import RARE, Column

# Values of a column of numbers that effects are computed at, and the part of its range that they cover.
N_VALUES, RANGE = 11, (0.05, 0.95)


@dataclass(frozen=True)
class Input:
    """A column that can be set.

    Attributes
    ----------
    name, unit : of the column.
    positions : the features that depend on it.
    labels : of the values: numbers in the units of the column, or texts.
    features : (V, len(positions)) the features at each value.
    mean, scale : of a number, whose first feature is (value - mean) / scale; the others are zero.
    is_number : whether values between those listed make sense.
    """

    name: str
    unit: str
    positions: tuple[int, ...]
    labels: tuple[float | str, ...]
    features: np.ndarray
    mean: float
    scale: float
    is_number: bool

    def set(self, X: np.ndarray, value: int) -> np.ndarray:
        """Rows (n, d) with this column at one of its values, by position."""
        out = X.copy()
        out[:, self.positions] = self.features[value]
        return out


def feature_names(model: Any, n_features: int) -> list[str]:
    """The names of the columns of X, without the one that names tasks."""
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    column = getattr(model, "task_column", None)
    if column is not None and names:
        names = [name for k, name in enumerate(names) if column not in (k, name)]
    return names if len(names) == n_features else [f"x{k}" for k in range(n_features)]


def read_inputs(saved: SavedModel, rows: np.ndarray) -> tuple[list[Input], list[str]]:
    """Return the columns that can be set, and the names of those that cannot; rows (n, d) are encoded."""
    model = getattr(saved.model, "best_estimator_", saved.model)
    encoder = saved.schema.encoder if saved.schema is not None else getattr(model, "encoder_", None)
    if encoder is None:
        names = feature_names(model, rows.shape[1])
        found = [_plain_input(name, k, rows[:, k]) for k, name in enumerate(names)]
        return [one for one in found if len(one.labels) > 1], []
    inputs, others = [], []
    for column, positions in zip(encoder.columns_, encoder.groups_.values(), strict=True):
        made = _table_input(column, positions, rows)
        if made is None:
            others.append(column.name)
        elif len(made.labels) > 1:
            inputs.append(made)
    return inputs, others


def _plain_input(name: str, position: int, values: np.ndarray) -> Input:
    return _number_input(name, "", (position,), values, 0.0, 1.0)


def _number_input(
    name: str, unit: str, positions: Sequence[int], values: np.ndarray, mean: float, scale: float
) -> Input:
    """A column of numbers; of few distinct values, all of them, otherwise steps over most of its range."""
    distinct = np.unique(values)
    low, high = np.quantile(values, RANGE)
    steps = distinct if len(distinct) <= N_VALUES else np.linspace(low, high, N_VALUES)
    steps = distinct if len(np.unique(steps)) < 2 else steps
    features = np.zeros((len(steps), len(positions)))
    features[:, 0] = steps
    labels = tuple(float(f"{value * scale + mean:.6g}") for value in steps.tolist())
    return Input(name, unit, tuple(positions), labels, features, mean, scale, True)


def _table_input(column: Column, positions: Sequence[int], rows: np.ndarray) -> Input | None:
    """A column of an encoded table; None for dates, whose features do not change one at a time."""
    if column.kind == "date":
        return None
    if column.kind == "number":
        return _number_input(column.name, column.unit, positions, rows[:, positions[0]], column.mean, column.scale)
    if column.kind == "boolean":
        features = np.zeros((2, len(positions)))
        features[:, 0] = (np.array([0.0, 1.0]) - column.mean) / column.scale
        return Input(column.name, "", tuple(positions), ("no", "yes"), features, 0.0, 1.0, False)
    labels = [*column.categories, *([RARE] if column.n_rare else []), *(["missing"] if column.n_missing else [])]
    return Input(column.name, "", tuple(positions), tuple(labels), np.eye(len(labels)), 0.0, 1.0, False)
