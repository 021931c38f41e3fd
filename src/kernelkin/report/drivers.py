"""The part of a report about what drives predictions: columns by name, their effects, and predictions in the page."""

from __future__ import annotations

from typing import Any

from ..storage import SavedModel
from .effects import effects_content
from .formula import Unavailable, formula_content
from .inputs import Input, read_inputs
from .reference import Reference, reference_rows
from .values import number

# Columns with a control in the page, at most: the largest effects first.
MAX_CONTROLS = 12


def drivers_content(saved: SavedModel) -> dict[str, Any]:
    """Shares of columns in the kernel weights, effects of columns, and a formula for the page, or why there is none."""
    shares = getattr(saved.model, "column_shares_", None) or {}
    found: dict[str, Any] = {"shares": [[name, number(share)] for name, share in list(shares.items())[:20]]}
    reference = reference_rows(saved)
    if reference is None or reference.quantity is None:
        reason = "the model keeps no rows with columns" if reference is None else "the model has more than two classes"
        return {**found, "quantity": None, "effects": [], "fixed": [], "reason": reason, "what_if": None}
    inputs, fixed = read_inputs(saved, reference.rows)
    effects = effects_content(reference, inputs)
    found |= {"quantity": reference.quantity, "effects": effects, "fixed": fixed, "rows": len(reference.rows)}
    try:
        return {**found, "reason": None, "what_if": _what_if(reference, inputs, [e["name"] for e in effects])}
    except Unavailable as reason:
        return {**found, "reason": str(reason), "what_if": None}


def _what_if(reference: Reference, inputs: list[Input], largest: list[str]) -> dict[str, Any]:
    named = {one.name: one for one in inputs}
    start = reference.typical()
    return {
        "start": start.tolist(),
        "controls": [_control(named[name], start) for name in largest[:MAX_CONTROLS]],
        **formula_content(reference),
    }


def _control(one: Input, start: Any) -> dict[str, Any]:
    """A slider for numbers, a choice for texts; `at` is where it starts."""
    own = start[list(one.positions)]
    found: dict[str, Any] = {"name": one.name, "unit": one.unit, "positions": list(one.positions)}
    if not one.is_number:
        nearest = int(((one.features - own) ** 2).sum(axis=1).argmin())
        return {**found, "labels": list(one.labels), "features": one.features.tolist(), "at": nearest}
    low, high = float(one.features[0, 0]), float(one.features[-1, 0])
    return {**found, "mean": one.mean, "scale": one.scale, "low": low, "high": high, "at": float(own[0])}
