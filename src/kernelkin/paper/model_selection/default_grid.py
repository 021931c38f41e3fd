"""The one default grid: what `MKMTRL...CV()` and the command line's `--cv` try.

Parameters that a user has set are not searched.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ...data import TaskData
from ...kernels import default_kernels

COSTS = tuple(np.logspace(-2, 3, 9).tolist())
# A machine with the rows of all tasks takes long: it is tried at few values of C.
COUPLED_COSTS = tuple(np.logspace(-1, 2, 4).tolist())
# Degrees to which kernels are charged for their complexity, the most useful first.
PARSIMONY = (0.5, 1.0, 0.0)
# How cheap the parts are that tasks share; see `Fit`.
SHARING = 0.5
# Rows of all tasks above which one machine over all of them is too slow to be tried along a path.
MAX_COUPLED_ROWS = 2500
# Where the best value of C is at the end of its grid, the grid goes on by this factor, so often at most.
EXTENSION, MAX_EXTENSIONS = 10.0, 2
# Gains along C that are smaller than this part of a standard error are not followed further.
FLAT = 0.2

_ALONE: tuple[dict[str, Sequence[Any]], ...] = (
    {"parsimony": PARSIMONY, "C": COSTS},
    # Kernel weights that are not tied across tasks, and weights that are close to the average kernel.
    {"parsimony": PARSIMONY[:1], "shrinkage": (1.0,), "C": COSTS},
    {"parsimony": (0.0,), "evenness": (0.9,), "C": COSTS},
)
_COUPLED: dict[str, Sequence[Any]] = {
    "couplings": ("common",),
    "sharing": (SHARING,),
    "parsimony": PARSIMONY[:1],
    "C": COUPLED_COSTS,
}
_OTHERS: dict[str, Sequence[Any]] = {
    "C": COSTS,
    "kernel": range(len(default_kernels())),
    "alpha": tuple(np.logspace(-4, 0, 5).tolist()),
}


def default_grid(model: BaseEstimator, data: TaskData) -> list[dict[str, Sequence[Any]]]:
    """Return the grid to choose a model's parameters from, as a list of dicts for `GridSearchCV`.

    Parameters that are not at their defaults stay what they are.
    """
    params, free = model.get_params(deep=False), _free(model)
    if "shrinkage" not in params or "couplings" not in params:
        names = ("parsimony",) if "parsimony" in params and "mu" in params else ()
        grid = _OTHERS | {name: _ALONE[0][name] for name in names}
        return _without_repeats([{name: values for name, values in grid.items() if name in free}])
    entries = list(_ALONE)
    if params["couplings"] is None and params.get("unknown_tasks") == "common":
        # Only what all tasks share predicts others.
        entries = [_COUPLED]
    elif _may_share(data) and params["couplings"] is None:
        entries.append(_COUPLED)
    return _without_repeats([{name: values for name, values in entry.items() if name in free} for entry in entries])


def has_choices(model: BaseEstimator) -> bool:
    """Whether the default grid has anything to choose for a model."""
    return not _free(model).isdisjoint(_OTHERS)


def next_costs(costs: Sequence[float], errors: Sequence[float], standard_error: float) -> list[float]:
    """Return values of C beyond the end of a grid, if that end is the best by more than a trifle.

    `costs` (m,) are in ascending order; errors are infinite where a value was dropped.
    """
    best = int(np.argmin(errors))
    inner = {0: 1, len(costs) - 1: len(costs) - 2}
    if len(costs) < 2 or best not in inner or errors[inner[best]] <= errors[best] + FLAT * standard_error:
        return []
    if best:
        return [costs[best] * EXTENSION**0.5, costs[best] * EXTENSION]
    return [costs[0] / EXTENSION, costs[0] / EXTENSION**0.5]


def beyond(candidates: Sequence[dict[str, Any]], scores: np.ndarray, errors: np.ndarray) -> list[dict[str, Any]]:
    """Return candidates beyond an end of C at which the best one is; scores and standard errors (n,)."""
    best = int(np.nanargmax(scores))
    if "C" not in candidates[best]:
        return []
    others = {name: value for name, value in candidates[best].items() if name != "C"}
    own = [i for i, params in enumerate(candidates) if {**params, "C": 0} == {**others, "C": 0}]
    own.sort(key=lambda i: candidates[i]["C"])
    costs = next_costs([candidates[i]["C"] for i in own], [-scores[i] for i in own], float(errors[best]))
    return [{**others, "C": C} for C in costs]


def _may_share(data: TaskData) -> bool:
    """Whether a part that tasks share is worth trying: on rows of their own, and not too many."""
    return data.n_tasks > 1 and data.form != "wide" and sum(map(len, data.rows)) <= MAX_COUPLED_ROWS


def _free(model: BaseEstimator) -> set[str]:
    """Return the names of the parameters that are at their defaults."""
    defaults = inspect.signature(type(model)).parameters
    return {name for name, value in model.get_params(deep=False).items() if _same(value, defaults[name].default)}


def _same(value: Any, default: Any) -> bool:
    return value is default or (isinstance(value, int | float | str) and value == default)


def _without_repeats(entries: Sequence[dict[str, Sequence[Any]]]) -> list[dict[str, Sequence[Any]]]:
    """Leave out entries whose candidates all are in one before."""
    kept: list[dict[str, Sequence[Any]]] = []
    for entry in entries:
        if entry and not any(_covers(other, entry) for other in kept):
            kept.append(entry)
    return kept


def _covers(other: dict[str, Sequence[Any]], entry: dict[str, Sequence[Any]]) -> bool:
    return other.keys() == entry.keys() and all(set(values) <= set(other[name]) for name, values in entry.items())
