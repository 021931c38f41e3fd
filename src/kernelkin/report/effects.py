"""Effects of columns and groups: how predictions change with a column, and how much groups differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from ..data.arrays import Table
from ..data.forms import Queries
from ..paper.uncertainty import class_probabilities
from ..relations.sharing import COVERAGE
from ..storage.model_files import SavedModel
from ..tables.cells import CLOCKS
from ..tables.columns import RARE, Column, encode_columns
from .evaluation import number, numbers

# Maximum number of rows used to compute effects and of columns to draw; number of rows used to choose these columns.
MAX_ROWS, MAX_COLUMNS, SCREEN_ROWS = 200, 12, 30
# Number of values of a numeric column at which effects are computed, and the part of its range that they cover.
N_VALUES, RANGE = 11, (0.05, 0.95)
# Ends of the range over rows that is shown around the mean effect.
TAILS = (0.05, 0.95)
# Curves of groups: maximum numbers of groups, of columns, and of rows to average over, in all groups together.
CURVE_GROUPS, CURVE_COLUMNS, CURVE_ROWS = 30, 6, 750
# The grid of predictions: maximum numbers of columns, of groups, of values of a column, and of predictions in total.
GRID_COLUMNS, GRID_GROUPS, GRID_VALUES, GRID_SIZE = 3, 60, 7, 12_000


def drivers_content(saved: SavedModel) -> dict[str, Any]:
    """Return shares of columns in the explained variance, effects of columns (or a reason), and a prediction grid."""
    model = getattr(saved.model, "best_estimator_", saved.model)
    shares = list((getattr(saved.model, "column_shares_", None) or {}).items())[:20]
    found: dict[str, Any] = {"shares": [[name, number(share)] for name, share in shares], "effects": [], "grid": None}
    if is_classifier(model) and len(model.classes_) > 2:
        return {**found, "quantity": None, "reason": "the model has more than two classes"}
    rows = reference_rows(model)
    if rows is None:
        return {**found, "quantity": None, "reason": "the model keeps no rows with columns"}
    inputs = read_inputs(saved, rows[0])
    effects = effects_content(saved, *rows, inputs)
    quantity = _quantity(saved, model)
    if saved.schema is not None and (exposure := saved.schema.exposure or saved.schema.offset):
        # Predictions without an exposure.
        quantity += f" at {exposure} = {1 if saved.schema.exposure else 0}"
    found |= {"quantity": quantity, "rows": len(rows[0]), "effects": effects}
    by_name = {one.name: one for one in inputs}
    main = [by_name[effect["name"]] for effect in effects]
    found["grid"] = grid_content(saved, rows[0], main[:GRID_COLUMNS]) if main else None
    return {**found, "reason": None if effects else "no column varies"}


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
            last = len(one.labels) - 1
            ends = [values_of(saved, one.set(few, v), few_codes) for v in (0, (last + 1) // 2, last)]
            changes.append(float(np.ptp(ends, axis=0).mean()))
        inputs = [inputs[k] for k in np.argsort(changes)[::-1][:MAX_COLUMNS]]
    counts = getattr(saved.model, "loss", "") == "poisson"
    bounds = (0.0 if counts or is_classifier(saved.model) else -np.inf, 1.0 if is_classifier(saved.model) else np.inf)
    found = [(one, _effect(one, _curves(saved, one, X, codes), bounds)) for one in inputs]
    found.sort(key=lambda pair: -pair[1]["change"][0])
    groups = _some_groups(len(saved.model.tasks_), CURVE_GROUPS)
    if len(groups) > 1:
        few = X[: CURVE_ROWS // len(groups)]
        for one, effect in found[:CURVE_COLUMNS]:
            curves = _curves(saved, one, np.tile(few, (len(groups), 1)), np.repeat(groups, len(few)))
            # The curve of one group over all rows corrects for what the few rows differ by.
            whole = _curves(saved, one, X, np.full(len(X), groups[0]))
            shift = whole.mean(axis=0) - whole[: len(few)].mean(axis=0)
            means = np.clip(curves.reshape(len(groups), -1, len(shift)).mean(axis=1) + shift, *bounds)
            effect["groups"], effect["curves"] = groups.tolist(), [numbers(curve) for curve in means]
    return [effect for _, effect in found]


def _some_groups(n: int, most: int) -> np.ndarray:
    """Return the positions of all groups or, if there are more than `most`, of a random sample."""
    return np.arange(n) if n <= most else np.sort(np.random.default_rng(0).permutation(n)[:most])


def _curves(saved: SavedModel, one: Input, X: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return predictions (n, V) for rows of these tasks, with the column at each of its values."""
    V = len(one.labels)
    stacked = np.concatenate([one.set(X, v) for v in range(V)])
    return values_of(saved, stacked, np.tile(codes, V)).reshape(V, len(X)).T


def _effect(one: Input, curves: np.ndarray, bounds: tuple[float, float]) -> dict[str, Any]:
    """Return the mean of curves (n, V), the range of most curves around it, and the change along curves.

    The range is that of the curves minus their own means, so it shows differences in shape and not in level.
    """
    mean = curves.mean(axis=0)
    level = curves.mean(axis=1, keepdims=True)
    low, high = mean.mean() + np.quantile(curves - level, TAILS, axis=0)
    change = np.ptp(curves, axis=1)
    return {
        "name": one.name,
        "unit": one.unit,
        "kind": one.kind,
        "values": list(one.labels),
        "mean": numbers(mean),
        "low": numbers(np.clip(low, *bounds)),
        "high": numbers(np.clip(high, *bounds)),
        "change": [number(change.mean()), *numbers(np.quantile(change, TAILS))],
    }


def grid_content(saved: SavedModel, X: np.ndarray, inputs: list[Input]) -> dict[str, Any]:
    """Return predictions on a grid of values of some columns for each group, with the other columns as in one row.

    The row is the one closest to the mean of all rows. Mixed models also have intervals, and values for a new group.
    """
    model = getattr(saved.model, "best_estimator_", saved.model)
    groups = _some_groups(len(model.tasks_), GRID_GROUPS)
    has_new = getattr(model, "unknown_tasks", "error") == "common" and model.data_form_ != "wide"
    codes = np.append(groups, -1) if has_new else groups
    each = int((GRID_SIZE / len(codes)) ** (1 / len(inputs)))
    steps = [one.steps(max(min(each, GRID_VALUES if len(inputs) > 1 else 2 * N_VALUES), 2)) for one in inputs]
    row = X[np.square(X - X.mean(axis=0)).sum(axis=1).argmin()]
    rows = []
    for values in product(*steps):
        at = row[np.newaxis]
        for one, value in zip(inputs, values, strict=True):
            at = one.set(at, value)
        rows.append(at[0])
    means, ends = _with_ends(saved, np.tile(rows, (len(codes), 1)), np.repeat(codes, len(rows)))
    return {
        "columns": [
            {"name": one.name, "unit": one.unit, "kind": one.kind, "values": [one.labels[v] for v in own]}
            for one, own in zip(inputs, steps, strict=True)
        ],
        "groups": codes.tolist(),
        "mean": [numbers(part) for part in means.reshape(len(codes), -1)],
        "low": None if ends is None else [numbers(part) for part in ends[:, 0].reshape(len(codes), -1)],
        "high": None if ends is None else [numbers(part) for part in ends[:, 1].reshape(len(codes), -1)],
        "coverage": COVERAGE,
    }


def _with_ends(saved: SavedModel, X: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Return predictions (q,) and, for mixed models of numbers, their intervals (q, 2)."""
    model = getattr(saved.model, "best_estimator_", saved.model)
    if getattr(model.functions_, "scores", None) is None or model.data_form_ == "wide":
        return values_of(saved, X, codes), None
    moments = model.functions_.moments(Queries(X, codes))
    scale = 1.0 if saved.schema is None else saved.schema.target_scales[0]
    shift = 0.0 if saved.schema is None else saved.schema.target_means[0]
    return moments[0] * scale + shift, model.functions_.ends(*moments, COVERAGE) * scale + shift


def groups_content(saved: SavedModel) -> dict[str, Any] | None:
    """Return levels of groups with intervals, and levels without pooling; None for models without effects."""
    model, schema = saved.model, saved.schema
    if not hasattr(model, "task_effects") or len(model.tasks_) < 2:
        return None
    try:
        table = model.task_effects()
    except ValueError:
        # There are no effects of groups for more than two classes.
        return None
    scales = np.ones(1) if schema is None or is_classifier(model) else np.array(schema.target_scales)
    names = ("level", "low", "high", "raw_level")
    unit = f"log odds of {model.classes_[1]}" if is_classifier(model) else _quantity(saved, model)
    unit = f"log({unit})" if getattr(model, "loss", "") == "poisson" else unit
    return {"unit": unit, "coverage": COVERAGE} | {name: numbers(table[name].to_numpy() * scales) for name in names}


def values_of(saved: SavedModel, X: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return predictions (q,) for encoded rows in the units of the table, or probabilities of the second class."""
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
    """Return at most `MAX_ROWS` encoded rows (n, d) and their tasks (n,): one row of each task, then a second, ...

    They come from the training data or from the stored functions.
    """
    found = model.uncertainty_.held_out() if hasattr(model, "uncertainty_") else None
    T, rng = len(model.tasks_), np.random.default_rng(0)
    if found is None:
        known = model.functions_.rows()
        if known is None or not len(known):
            return None
        kept = rng.permutation(max(len(known), min(T, MAX_ROWS)))[:MAX_ROWS]
        return known[kept % len(known)], np.arange(len(kept)) % T
    data = found[1]
    if data.X.ndim != 2:
        return None
    codes = np.repeat(np.arange(T), [len(part) for part in data.rows])
    order, turn = rng.permutation(len(codes)), np.empty(len(codes), dtype=np.intp)
    for t in range(T):
        own = order[codes[order] == t]
        turn[own] = np.arange(len(own))
    kept = order[np.argsort(turn[order], kind="stable")][:MAX_ROWS]
    return data.X[np.concatenate(data.rows)[kept]], codes[kept]


@dataclass(frozen=True)
class Input:
    """A column whose value can be changed in rows: the V values that it takes, and its features at each.

    `positions` are those features, `features` (V, len(positions)) their values, and `labels` the values of the column:
    numbers in its unit, or texts. `kind` is "text", or "number" or "date" if there are values in between.
    """

    name: str
    unit: str
    positions: Sequence[int]
    labels: Sequence[float | str]
    features: np.ndarray
    kind: str

    def steps(self, most: int) -> list[int]:
        """Return positions of at most `most` evenly spaced numbers or dates, or of the first max(most, 4) texts."""
        n = len(self.labels)
        if self.kind == "text":
            return list(range(min(n, max(most, 4))))
        return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(int)).tolist()

    def set(self, X: np.ndarray, value: int) -> np.ndarray:
        """Return rows (n, d) with this column set to the value at this position."""
        out = X.copy()
        out[:, self.positions] = self.features[value]
        return out


def read_inputs(saved: SavedModel, rows: np.ndarray) -> list[Input]:
    """Return the columns that vary in encoded rows (n, d)."""
    model = getattr(saved.model, "best_estimator_", saved.model)
    encoder = saved.schema.encoder if saved.schema is not None else getattr(model, "encoder_", None)
    if encoder is not None:
        columns = list(zip(encoder.columns_, encoder.groups_.values(), strict=True))
    else:
        task, names = getattr(model, "task_column", None), getattr(model, "feature_names_in_", ())
        names = [str(name) for k, name in enumerate(names) if task is None or task not in (k, name)]
        if len(names) != rows.shape[1]:
            names = [f"x{k}" for k in range(rows.shape[1])]
        columns = [(Column(name, "number", "float64"), [k]) for k, name in enumerate(names)]
    made = [_input(column, positions, rows) for column, positions in columns]
    return [one for one in made if len(one.labels) > 1]


def _input(column: Column, positions: Sequence[int], rows: np.ndarray) -> Input:
    """Return a column with values to set: all of them if they are few, otherwise steps over most of their range."""
    labels: list[Any] = [
        *column.categories,
        *([RARE] if column.n_rare else []),
        *(["missing"] * (column.n_missing > 0)),
    ]
    if column.kind == "text":
        return Input(column.name, "", positions, labels, np.eye(len(labels)), "text")
    encoded = rows[:, positions[0]]
    steps, (low, high) = np.unique(encoded), np.quantile(encoded, RANGE)
    if column.kind == "boolean":
        steps = (np.array([0.0, 1.0]) - column.mean) / column.scale
    elif len(steps) > N_VALUES and low < high:
        steps = np.linspace(low, high, N_VALUES)
    features, values = np.zeros((len(steps), len(positions))), steps * column.scale + column.mean
    features[:, 0] = steps
    if column.kind == "boolean":
        return Input(column.name, "", positions, ["no", "yes"], features, "text")
    if column.kind == "number":
        labels = [float(f"{value:.6g}") for value in values.tolist()]
        return Input(column.name, column.unit, positions, labels, features, "number")
    unit = "s" if column.date_format in CLOCKS or "hour" in column.parts else "D"
    dates = np.unique(np.round(values * 86_400).astype("datetime64[s]").astype(f"datetime64[{unit}]"))
    features = encode_columns([column], Table((column.name,), (dates,), ("date",)), ".")
    return Input(column.name, "", positions, np.datetime_as_string(dates).tolist(), features, "date")
