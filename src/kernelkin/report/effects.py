"""Effects of columns: how predictions change with one column while the others stay fixed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from ..data.forms import Queries
from ..paper.uncertainty import class_probabilities
from ..storage.model_files import SavedModel
from ..tables.columns import RARE, Column
from .evaluation import number, numbers

# Numbers of rows used to compute effects, of columns to draw, and of rows used to choose these columns.
MAX_ROWS, MAX_COLUMNS, SCREEN_ROWS = 200, 12, 30
# Number of values of a numeric column at which effects are computed, and the part of its range that they cover.
N_VALUES, RANGE = 11, (0.05, 0.95)
# Ends of the range over rows that is shown around the mean effect.
TAILS = (0.05, 0.95)


def drivers_content(saved: SavedModel) -> dict[str, Any]:
    """Return the share of each column in the explained variance, and the effects of columns or why there are none."""
    model = getattr(saved.model, "best_estimator_", saved.model)
    shares = list((getattr(saved.model, "column_shares_", None) or {}).items())[:20]
    found: dict[str, Any] = {"shares": [[name, number(share)] for name, share in shares], "effects": [], "fixed": []}
    if is_classifier(model) and len(model.classes_) > 2:
        return {**found, "quantity": None, "reason": "the model has more than two classes"}
    rows = reference_rows(model)
    if rows is None:
        return {**found, "quantity": None, "reason": "the model keeps no rows with columns"}
    inputs, found["fixed"] = read_inputs(saved, rows[0])
    found |= {
        "quantity": _quantity(saved, model),
        "rows": len(rows[0]),
        "effects": effects_content(saved, *rows, inputs),
    }
    return {**found, "reason": None if found["effects"] else "no column of numbers or texts varies"}


def _quantity(saved: SavedModel, model: Any) -> str:
    """Return the name of the predicted quantity."""
    if is_classifier(model):
        return f"probability of {model.classes_[1]}"
    return saved.schema.target if saved.schema is not None and saved.schema.task else "prediction"


def effects_content(saved: SavedModel, X: np.ndarray, codes: np.ndarray, inputs: list[Input]) -> list[dict[str, Any]]:
    """Return the largest effects of columns on predictions for rows X (n, d) of tasks (n,), in descending order."""
    if len(inputs) > MAX_COLUMNS:
        few, few_codes = X[:SCREEN_ROWS], codes[:SCREEN_ROWS]
        changes = []
        for one in inputs:
            ends = [values_of(saved, one.set(few, v), few_codes) for v in one.ends]
            changes.append(float(np.ptp(ends, axis=0).mean()))
        inputs = [inputs[k] for k in np.argsort(changes)[::-1][:MAX_COLUMNS]]
    bounds = (0.0, 1.0) if is_classifier(saved.model) else (-np.inf, np.inf)
    found = []
    for one in inputs:
        n, V = len(X), len(one.labels)
        stacked = np.concatenate([one.set(X, v) for v in range(V)])
        curves = values_of(saved, stacked, np.tile(codes, V)).reshape(V, n).T
        found.append(_effect(one, curves, bounds))
    return sorted(found, key=lambda effect: -effect["change"][0])


def _effect(one: Input, curves: np.ndarray, bounds: tuple[float, float]) -> dict[str, Any]:
    """Return the mean of curves (n, V), an interval for it, and the range of most curves around their own means."""
    mean = curves.mean(axis=0)
    level = curves.mean(axis=1, keepdims=True)
    low, high = mean.mean() + np.quantile(curves - level, TAILS, axis=0)
    error = 1.96 * (curves - level).std(axis=0) / np.sqrt(len(curves))
    change = np.ptp(curves, axis=1)
    return {
        "name": one.name,
        "unit": one.unit,
        "number": one.is_number,
        "values": list(one.labels),
        "mean": numbers(mean),
        "mean_low": numbers(np.clip(mean - error, *bounds)),
        "mean_high": numbers(np.clip(mean + error, *bounds)),
        "low": numbers(np.clip(low, *bounds)),
        "high": numbers(np.clip(high, *bounds)),
        "change": [number(change.mean()), *numbers(np.quantile(change, TAILS))],
    }


def values_of(saved: SavedModel, X: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return predictions (q,) for encoded rows in the units of the table; for two classes, P(second class)."""
    model, schema = getattr(saved.model, "best_estimator_", saved.model), saved.schema
    if is_classifier(model):
        of_kin = not hasattr(model, "uncertainty_")
        queries = Queries(X, codes)
        return (model.functions_.probabilities(queries) if of_kin else class_probabilities(model, queries))[:, 1]
    values = model.functions_.values(X, codes)[:, 0]
    if schema is None:
        return values
    T = len(model.tasks_)
    means, scales = (np.broadcast_to(part, T)[codes] for part in (schema.target_means, schema.target_scales))
    return values * scales + means


def reference_rows(model: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Return encoded rows (n, d) and their tasks (n,), from the training data or the stored functions."""
    found = model.uncertainty_.held_out() if hasattr(model, "uncertainty_") else None
    T, rng = len(model.tasks_), np.random.default_rng(0)
    if found is not None:
        data = found[1]
        if data.X.ndim != 2:
            return None
        codes = np.repeat(np.arange(T), [len(part) for part in data.rows])
        kept = _spread_over_tasks(codes, rng)
        return data.X[np.concatenate(data.rows)[kept]], codes[kept]
    known = model.functions_.rows()
    if known is None or not len(known):
        return None
    kept = rng.permutation(max(len(known), min(T, MAX_ROWS)))[:MAX_ROWS]
    return known[kept % len(known)], np.arange(len(kept)) % T


def _spread_over_tasks(codes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the positions of at most MAX_ROWS rows: one from each task, then a second, and so on."""
    order = rng.permutation(len(codes))
    turn = np.empty(len(codes), dtype=np.intp)
    for t in np.unique(codes).tolist():
        own = order[codes[order] == t]
        turn[own] = np.arange(len(own))
    return order[np.argsort(turn[order], kind="stable")][:MAX_ROWS]


@dataclass(frozen=True)
class Input:
    """A column that can be set.

    Attributes
    ----------
    name, unit : name and unit of the column.
    positions : the features that depend on the column.
    labels : labels of the values: numbers in the units of the column, or texts.
    features : (V, len(positions)) the features at each value.
    is_number : whether values between those listed make sense.
    """

    name: str
    unit: str
    positions: Sequence[int]
    labels: Sequence[float | str]
    features: np.ndarray
    is_number: bool

    @property
    def ends(self) -> tuple[int, int, int]:
        """The first, the middle and the last value, by position."""
        return 0, len(self.labels) // 2, len(self.labels) - 1

    def set(self, X: np.ndarray, value: int) -> np.ndarray:
        """Return rows (n, d) with this column set to the value at this position."""
        out = X.copy()
        out[:, self.positions] = self.features[value]
        return out


def read_inputs(saved: SavedModel, rows: np.ndarray) -> tuple[list[Input], list[str]]:
    """Return the columns that can be set, and the names of those that cannot; rows (n, d) are encoded."""
    model = getattr(saved.model, "best_estimator_", saved.model)
    encoder = saved.schema.encoder if saved.schema is not None else getattr(model, "encoder_", None)
    if encoder is None:
        names = _feature_names(model, rows.shape[1])
        made = [_number_input(name, "", [k], rows[:, k], 0.0, 1.0) for k, name in enumerate(names)]
        return [one for one in made if len(one.labels) > 1], []
    columns = list(zip(encoder.columns_, encoder.groups_.values(), strict=True))
    # The features of a date do not change one at a time.
    made = [_table_input(column, positions, rows) for column, positions in columns if column.kind != "date"]
    return [one for one in made if len(one.labels) > 1], [c.name for c, _ in columns if c.kind == "date"]


def _feature_names(model: Any, n_features: int) -> list[str]:
    """Return the names of the columns of X, without the task column."""
    names = [str(name) for name in getattr(model, "feature_names_in_", ())]
    column = getattr(model, "task_column", None)
    if column is not None and names:
        names = [name for k, name in enumerate(names) if column not in (k, name)]
    return names if len(names) == n_features else [f"x{k}" for k in range(n_features)]


def _number_input(
    name: str, unit: str, positions: Sequence[int], values: np.ndarray, mean: float, scale: float
) -> Input:
    """Return the input for a numeric column: all distinct values if few, otherwise steps over most of its range."""
    distinct = np.unique(values)
    low, high = np.quantile(values, RANGE)
    steps = distinct if len(distinct) <= N_VALUES or low == high else np.linspace(low, high, N_VALUES)
    features = np.zeros((len(steps), len(positions)))
    features[:, 0] = steps
    labels = [float(f"{value * scale + mean:.6g}") for value in steps.tolist()]
    return Input(name, unit, positions, labels, features, True)


def _table_input(column: Column, positions: Sequence[int], rows: np.ndarray) -> Input:
    """Return the input for a column of an encoded table."""
    if column.kind == "number":
        return _number_input(column.name, column.unit, positions, rows[:, positions[0]], column.mean, column.scale)
    if column.kind == "boolean":
        features = np.zeros((2, len(positions)))
        features[:, 0] = (np.array([0.0, 1.0]) - column.mean) / column.scale
        return Input(column.name, "", positions, ["no", "yes"], features, False)
    labels = [*column.categories, *([RARE] if column.n_rare else []), *(["missing"] if column.n_missing else [])]
    return Input(column.name, "", positions, labels, np.eye(len(labels)), False)
