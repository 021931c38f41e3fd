"""Candidates, and the lines along which one solution leads to the next.

With C and mu the problem of a penalty that is homogeneous of degree two has one parameter, not two: with `a = C a'` and
`B = B'/C`

    F(B; C, mu) = C F(B'; 1, mu/C^3)

for the hinge, the squared and the epsilon-insensitive loss alike, and the function `sum_k b_k sum_i a_i k_k(x, x_i)` is
the same in both. Candidates of equal `mu/C^3` are one candidate, and those that differ in C and mu alone form a line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import ParameterGrid

from ...data import listing
from ..fitting import Fit, Specification
from ..solvers import Joint

Params = Mapping[str, Any]
# What says how data are read or how a fit is run is not a matter of choice by score.
_NOT_FOR_GRIDS = ("task_column", "n_jobs", "engine", "device", "verbose", "callback", "unknown_tasks")
# Difference below which two values of log(mu/C^3) are the same number.
_SAME = 1e-9


@dataclass(frozen=True)
class Step:
    """One problem to solve, and all candidates it answers."""

    specification: Any
    candidates: tuple[int, ...]


@dataclass(frozen=True)
class Line:
    """Problems in the order in which they are solved; `warm` if each starts from the one before.

    `params` are those of one of its candidates: all have the same but for C and mu.
    """

    steps: tuple[Step, ...]
    warm: bool
    params: Params

    @property
    def specification(self) -> Any:
        return self.steps[0].specification


def read_grid(estimator: BaseEstimator, grid: Params | Sequence[Params]) -> list[dict[str, Any]]:
    """Return the candidates of a grid as for `GridSearchCV`: a dict of lists, or a list of such dicts."""
    candidates = list(ParameterGrid(grid))
    if not candidates:
        raise ValueError("grid is an empty list: there is no candidate to choose")
    known = estimator.get_params(deep=False)
    for name in dict.fromkeys(name for params in candidates for name in params):
        if name not in known or name in _NOT_FOR_GRIDS:
            allowed = [name for name in known if name not in _NOT_FOR_GRIDS]
            raise ValueError(
                f"{name!r} cannot be in the grid of {type(estimator).__name__}; the parameters that can are "
                f"{listing(allowed, 20)}"
            )
    return candidates


def make_lines(estimator: BaseEstimator, candidates: Sequence[Params], tol: float, first: int = 0) -> list[Line]:
    """Sort candidates into lines. They are solved to the gap `tol` where the estimator's own is smaller.

    `first` is the number of the first candidate.
    """
    lines: dict[tuple, list[tuple[float, Step]]] = {}
    for index, params in enumerate(candidates):
        model = _candidate(estimator, params, tol)
        specification = model.specification()
        warm = _follows_path(specification)
        others = identity(params, [name for name in sorted(params) if name not in ("C", "mu")])
        position = specification.path_position if warm else 0.0
        # Values of mu and the scale of the targets are not comparable.
        line = isinstance(specification.mu, str) if warm else index
        lines.setdefault((others, warm, line), []).append((position, Step(specification, (first + index,))))
    return [_line(members, candidates, first) for members in lines.values()]


def identity(params: Params, names: Sequence[str]) -> tuple:
    """Return a key for parameters of a candidate.

    Numbers and words are compared by value, others by identity: they come from the grid's lists, so that equal ones
    are one object.
    """
    return tuple((name, _comparable(params[name])) for name in names if name in params)


def _comparable(value: Any) -> Any:
    return value if isinstance(value, int | float | str | None) else ("object", id(value))


def _candidate(estimator: BaseEstimator, params: Params, tol: float) -> Any:
    model = clone(estimator).set_params(**params)
    model._validate_params()
    quiet = {"n_jobs": 1, "verbose": 0, "callback": None, "tol": max(tol, getattr(model, "tol", tol))}
    known = model.get_params(deep=False)
    return model.set_params(**{name: value for name, value in quiet.items() if name in known})


def _follows_path(specification: Specification) -> bool:
    """Whether the end of a fit does not depend on its start, but for the tolerance, and C and mu are one parameter."""
    return (
        isinstance(specification, Fit)
        and specification.has_path
        and (specification.solver in (None, "joint") or isinstance(specification.solver, Joint))
    )


def _line(members: list[tuple[float, Step]], candidates: Sequence[Params], number: int) -> Line:
    steps: list[Step] = []
    last = np.inf
    for position, step in sorted(members, key=lambda member: (-member[0], member[1].candidates)):
        if last - position <= _SAME:
            previous = steps[-1]
            steps[-1] = Step(previous.specification, (*previous.candidates, *step.candidates))
        else:
            steps.append(step)
            last = position
    first = members[0][1]
    return Line(tuple(steps), warm=_follows_path(first.specification), params=candidates[first.candidates[0] - number])
