"""What drives predictions: how they change with one column while the others stay as they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from .inputs import Input
from .reference import Reference
from .values import number, numbers

# Columns whose effect is drawn, and rows that are used to choose them.
MAX_COLUMNS, SCREEN_ROWS = 12, 30
# Ends of the range over rows that is shown around the mean effect.
TAILS = (0.05, 0.95)


def effects_content(reference: Reference, inputs: list[Input]) -> list[dict[str, Any]]:
    """The effect of the columns that change predictions most, the largest first."""
    chosen = _largest(reference, inputs) if len(inputs) > MAX_COLUMNS else inputs
    bounds = (0.0, 1.0) if reference.is_probability else (-np.inf, np.inf)
    found = [_effect(one, curves(reference, one), bounds) for one in chosen]
    return sorted(found, key=lambda effect: -effect["change"][0])


def _largest(reference: Reference, inputs: list[Input]) -> list[Input]:
    """The columns that change the predictions of a few rows most, between the ends of their range."""
    few = Reference(reference.saved, reference.rows[:SCREEN_ROWS], reference.codes[:SCREEN_ROWS])
    changes = []
    for one in inputs:
        ends = [few.values(one.set(few.rows, v), few.codes) for v in (0, len(one.labels) // 2, len(one.labels) - 1)]
        changes.append(float(np.ptp(ends, axis=0).mean()))
    return [inputs[k] for k in np.argsort(changes)[::-1][:MAX_COLUMNS]]


def curves(reference: Reference, one: Input) -> np.ndarray:
    """Predictions (n, V) of the rows, each in its task, with the column at each of its values."""
    n, V = len(reference.rows), len(one.labels)
    stacked = np.concatenate([one.set(reference.rows, v) for v in range(V)])
    return reference.values(stacked, np.tile(reference.codes, V)).reshape(V, n).T


def _effect(one: Input, found: np.ndarray, bounds: tuple[float, float]) -> dict[str, Any]:
    """The mean curve, an interval for it, and where the curves of most rows are around their own level."""
    mean = found.mean(axis=0)
    level = found.mean(axis=1, keepdims=True)
    low, high = mean.mean() + np.quantile(found - level, TAILS, axis=0)
    error = 1.96 * (found - level).std(axis=0) / np.sqrt(len(found))
    change = np.ptp(found, axis=1)
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
