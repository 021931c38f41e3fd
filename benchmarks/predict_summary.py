"""Tables of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .predict_sets import DataSet


def show(records: Sequence[dict[str, Any]], sets: Mapping[str, DataSet], models: Sequence[str]) -> None:
    for r in records:
        if r["set"] in sets and r["model"] in models:
            print(r)
