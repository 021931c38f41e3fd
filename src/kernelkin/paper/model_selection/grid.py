"""Candidates of a search: the default grid, grids of the user, and lines of candidates for warm starts.

If the penalty is homogeneous of degree two, C and mu are only one parameter: with `a = C a'` and `B = B'/C`

    F(B; C, mu) = C F(B'; 1, mu/C^3)

for the hinge, squared and epsilon-insensitive loss, and the function `sum_k b_k sum_i a_i k_k(x, x_i)` is the same in
both. So candidates with equal `mu/C^3` are equivalent. Candidates that differ only in C and mu form a line.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import ParameterGrid

from ...data.arrays import listing
from ...data.forms import TaskData
from ...kernels.families import is_precomputed, source_kernels
from ..fitting.fit import Fit
from ..solvers.joint import Joint

Params = Mapping[str, Any]
Grid = list[dict[str, Sequence[Any]]]

COSTS = tuple(np.logspace(-2, 3, 9).tolist())
# A machine over the rows of all tasks is slow, so fewer values of C are tried.
COUPLED_COSTS = tuple(np.logspace(-1, 2, 4).tolist())
# Values of parsimony, the most useful first.
PARSIMONY = (0.5, 1.0, 0.0)
# Coupled candidates are tried if all tasks together have at most this many rows.
MAX_COUPLED_ROWS = 2500
# If the best C is at an end of the grid, the grid is extended by this factor, at most this often.
EXTENSION, MAX_EXTENSIONS = 10.0, 2
# The grid is not extended if the gain is smaller than this many standard errors.
FLAT = 0.2
# Values of log(mu/C^3) that differ by less are equal.
_SAME = 1e-9
# Parameters that do not change the model, or change how data are read.
_NOT_FOR_GRIDS = ("task_column", "n_jobs", "engine", "device", "verbose", "callback", "unknown_tasks")

_ALONE: Grid = [
    {"parsimony": PARSIMONY, "C": COSTS},
    # Independent kernel weights, and weights close to the average kernel.
    {"parsimony": PARSIMONY[:1], "shrinkage": (1.0,), "C": COSTS},
    {"parsimony": (0.0,), "evenness": (0.9,), "C": COSTS},
]
_COUPLED: dict[str, Any] = {"couplings": ("common",), "sharing": (0.5,), "parsimony": PARSIMONY[:1], "C": COUPLED_COSTS}
_OTHERS: dict[str, Sequence[Any]] = {"C": COSTS, "alpha": tuple(np.logspace(-4, 0, 5).tolist())}


def default_grid(model: BaseEstimator, data: TaskData) -> Grid:
    """Return the default grid of searches and of the command line's `--cv`, as a list of dicts for `GridSearchCV`.

    Parameters that are not at their defaults are not searched.
    """
    params, free = model.get_params(deep=False), _free(model)
    if "shrinkage" not in params or "couplings" not in params:
        more = dict(_OTHERS)
        if "parsimony" in params and "mu" in params:
            more["parsimony"] = PARSIMONY
        if "kernel" in params:
            kernels = params["kernels"]
            more["kernel"] = range(data.X.shape[2] if is_precomputed(kernels) else len(source_kernels(kernels, data)))
        entries: Grid = [more]
    elif params["couplings"] is None and params.get("unknown_tasks") == "common":
        entries = [_COUPLED]  # unknown tasks need a common part
    else:
        # A shared part is tried if tasks have different rows and these are not too many.
        few = data.n_tasks > 1 and data.form != "wide" and sum(map(len, data.rows)) <= MAX_COUPLED_ROWS
        entries = [*_ALONE, _COUPLED] if few and params["couplings"] is None else _ALONE
    kept: Grid = []
    for entry in ({name: values for name, values in entry.items() if name in free} for entry in entries):
        # Without the parameters that are set, all candidates of an entry may be among those of an earlier one.
        covered = any(
            other.keys() == entry.keys() and all(set(values) <= set(other[name]) for name, values in entry.items())
            for other in kept
        )
        if entry and not covered:
            kept.append(entry)
    return kept


def has_choices(model: BaseEstimator) -> bool:
    """Return True if the default grid of a model is not empty."""
    return not _free(model).isdisjoint({*_OTHERS, "kernel"})


def _free(model: BaseEstimator) -> set[str]:
    """Return the names of the parameters that are at their defaults."""
    defaults = {name: parameter.default for name, parameter in inspect.signature(type(model)).parameters.items()}
    return {
        name
        for name, value in model.get_params(deep=False).items()
        if value is defaults[name] or (isinstance(value, int | float | str) and value == defaults[name])
    }


def beyond(candidates: Sequence[dict[str, Any]], scores: np.ndarray, errors: np.ndarray) -> list[dict[str, Any]]:
    """Return candidates beyond an end of the values of C if the best candidate is there and clearly the best.

    `scores` and standard `errors` are of shape (n,).
    """
    best = int(np.nan_to_num(scores, nan=-np.inf).argmax())
    if np.isnan(scores[best]) or "C" not in candidates[best]:
        return []
    own = [i for i, params in enumerate(candidates) if {**params, "C": 0} == {**candidates[best], "C": 0}]
    own.sort(key=lambda i: candidates[i]["C"])
    inner = {own[0]: own[1:2], own[-1]: own[-2:-1]}.get(best, [])
    if not inner or scores[inner[0]] >= scores[best] - FLAT * errors[best]:
        return []
    C = candidates[best]["C"]
    costs = (C * EXTENSION**0.5, C * EXTENSION) if best == own[-1] else (C / EXTENSION, C / EXTENSION**0.5)
    return [{**candidates[best], "C": cost} for cost in costs]


def read_grid(estimator: BaseEstimator, grid: Params | Sequence[Params]) -> list[dict[str, Any]]:
    """Return the candidates of a grid as for `GridSearchCV`: a dict of lists, or a list of such dicts."""
    candidates = list(ParameterGrid(grid))
    if not candidates:
        raise ValueError("grid is an empty list: it has no candidates")
    allowed = [name for name in estimator.get_params(deep=False) if name not in _NOT_FOR_GRIDS]
    for name in dict.fromkeys(name for params in candidates for name in params):
        if name not in allowed:
            raise ValueError(
                f"{name!r} cannot be in the grid of {type(estimator).__name__}; allowed parameters: "
                f"{listing(allowed, 20)}"
            )
    return candidates


class Line(NamedTuple):
    """Problems that are solved one after the other."""

    # The specification of each problem, and the indices of all candidates that are equivalent to it.
    steps: tuple[tuple[Any, tuple[int, ...]], ...]
    warm: bool  # whether each problem starts from the previous solution
    params: Params  # parameters of one candidate; the others differ only in C and mu

    @property
    def specification(self) -> Any:
        return self.steps[0][0]


def make_lines(estimator: BaseEstimator, candidates: Sequence[Params], tol: float, first: int = 0) -> list[Line]:
    """Sort candidates into lines. The tolerance is the larger of `tol` and the estimator's own.

    `first` is the index of the first candidate.
    """
    lines: dict[tuple, list[tuple[float, int, Any]]] = {}
    for index, params in enumerate(candidates):
        specification = _candidate(estimator, params, tol).specification()
        warm = _follows_path(specification)
        others = identity(params, [name for name in sorted(params) if name not in ("C", "mu")])
        # A number for mu and mu="scale" are not comparable.
        line = isinstance(specification.mu, str) if warm else index
        position = specification.path_position if warm else 0.0
        lines.setdefault((others, warm, line), []).append((position, index, specification))
    found = []
    for (_, warm, _), members in lines.items():
        steps: list[tuple[Any, tuple[int, ...]]] = []
        last = np.inf
        for position, index, specification in sorted(members, key=lambda member: (-member[0], member[1])):
            if last - position <= _SAME:
                steps[-1] = steps[-1][0], (*steps[-1][1], first + index)
            else:
                steps.append((specification, (first + index,)))
                last = position
        found.append(Line(tuple(steps), warm, candidates[members[0][1]]))
    return found


def identity(params: Params, names: Sequence[str]) -> tuple:
    """Return a hashable key for some parameters of a candidate.

    Numbers and strings are compared by value, other objects by identity.
    """
    given = ((name, params[name]) for name in names if name in params)
    return tuple((name, v if isinstance(v, int | float | str | None) else ("object", id(v))) for name, v in given)


def _candidate(estimator: BaseEstimator, params: Params, tol: float) -> Any:
    model = clone(estimator).set_params(**params)
    model._validate_params()
    quiet = {"n_jobs": 1, "verbose": 0, "callback": None, "tol": max(tol, getattr(model, "tol", tol))}
    known = model.get_params(deep=False)
    return model.set_params(**{name: value for name, value in quiet.items() if name in known})


def _follows_path(specification: Any) -> bool:
    """Return True if warm starts do not change the result, up to the tolerance, and C and mu are one parameter."""
    return (
        isinstance(specification, Fit)
        and specification.has_path
        and (specification.solver in (None, "joint") or isinstance(specification.solver, Joint))
    )
