"""Short versions of the experiments, for a look in under a minute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from .protocol import Model, Protocol, Setting, Split

_RUNS, _FOLDS, _TASKS, _ROWS = 2, 3, 12, 300


def shorten(protocol: Protocol) -> Protocol:
    """Two runs of the smallest setting of each variant, fewer tasks and test rows, one or two values a parameter."""
    smallest: dict[str, Setting] = {}
    for setting in protocol.settings:
        if setting.size >= protocol.least or setting.size == 0:
            smallest.setdefault(setting.variant, setting)
    return replace(
        protocol,
        name=f"{protocol.name}-quick",
        title=f"{protocol.title} (quick)",
        settings=tuple(smallest.values())[:1],
        split=lambda setting, run: _fewer(protocol.split(setting, run)),
        models=lambda setting: [_simpler(model) for model in protocol.models(setting)],
        runs=min(_RUNS, protocol.runs),
        task_setting=None,
        goals=(),
        remarks="A short version: two runs, at most 12 tasks of long data, few test rows, 3 folds, small grids.",
    )


def _simpler(model: Model) -> Model:
    grids = [model.grid] if isinstance(model.grid, Mapping) else list(model.grid)
    return replace(model, grid=[_thin(grid) for grid in grids] if model.grid else {}, n_splits=_FOLDS)


def _thin(grid: Mapping[str, Any]) -> dict[str, Any]:
    """The middle value of each parameter; of the costs, every second one."""
    return {
        name: list(values)[1::2] or list(values) if name == "C" else [list(values)[len(values) // 2]]
        for name, values in grid.items()
    }


def _fewer(split: Split) -> Split:
    if split.tasks is None or split.tasks_test is None:
        return replace(split, X_test=split.X_test[:_ROWS], y_test=split.y_test[:_ROWS])
    names = list(split.task_names)[:_TASKS]
    train, test = np.isin(split.tasks, names), np.isin(split.tasks_test, names)
    return Split(
        split.X[train], split.y[train], split.X_test[test], split.y_test[test],
        split.tasks[train], split.tasks_test[test], names,
    )  # fmt: skip
