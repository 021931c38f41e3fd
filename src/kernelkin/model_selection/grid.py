"""Candidates, and the lines along which one solution leads to the next.

With C and mu the problem of a penalised estimator has one parameter, not two. The penalty is homogeneous of degree two,
so that with `a = C a'` and `B = B'/C`

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

from ..data import listing
from ..estimators.iterative import PenalisedEstimator
from ..solvers import Joint

Params = Mapping[str, Any]
# What says how the data are read, or how a fit is run, is not a matter of choice by score.
_NOT_FOR_GRIDS = ("task_column", "n_jobs", "verbose", "callback", "holdout_tasks")
# Relative difference below which two values of mu/C^3 are the same number.
_SAME = 1e-9


@dataclass(frozen=True)
class Step:
    """One problem to solve, and all candidates it answers."""

    estimator: BaseEstimator
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
    def estimator(self) -> BaseEstimator:
        return self.steps[0].estimator


def read_grid(estimator: BaseEstimator, grid: Params | Sequence[Params]) -> list[dict[str, Any]]:
    """The candidates of a grid as for `GridSearchCV`: a dict of lists, or a list of such dicts."""
    candidates = list(ParameterGrid(grid))
    if not candidates:
        raise ValueError("grid is an empty list: there is no candidate to choose")
    known = estimator.get_params(deep=False)
    for name in dict.fromkeys(name for params in candidates for name in params):
        if name not in known or name in _NOT_FOR_GRIDS:
            allowed = [name for name in known if name not in _NOT_FOR_GRIDS]
            raise ValueError(
                f"{name!r} cannot be in the grid of {type(estimator).__name__}, but {listing(allowed, 20)}"
            )
    return candidates


def make_lines(estimator: BaseEstimator, candidates: Sequence[Params], tol: float) -> list[Line]:
    """Sort candidates into lines. They are solved to the gap `tol` where the estimator's own is smaller."""
    lines: dict[tuple, list[tuple[float, int, BaseEstimator]]] = {}
    for index, params in enumerate(candidates):
        model = _candidate(estimator, params, tol)
        warm = _follows_path(model)
        others = identity(params, [name for name in sorted(params) if name not in ("C", "mu")])
        place = model._place if warm else 0.0
        # Values of mu and the scale of the targets are not comparable.
        line = isinstance(model.mu, str) if warm else index
        lines.setdefault((others, warm, line), []).append((place, index, model))
    return [_line(members, candidates[members[0][1]]) for members in lines.values()]


def identity(params: Params, names: Sequence[str]) -> tuple:
    """A key for these parameters of a candidate: values come from the grid's own lists, so the same is one object."""
    return tuple((name, id(params[name])) for name in names if name in params)


def _candidate(estimator: BaseEstimator, params: Params, tol: float) -> BaseEstimator:
    model = clone(estimator).set_params(**params)
    model._validate_params()
    quiet = {"n_jobs": 1, "verbose": 0, "callback": None, "tol": max(tol, getattr(model, "tol", tol))}
    known = model.get_params(deep=False)
    model.set_params(**{name: value for name, value in quiet.items() if name in known})
    return model


def _follows_path(model: BaseEstimator) -> bool:
    """Whether the end of a fit does not depend on its start, but for the tolerance."""
    return isinstance(model, PenalisedEstimator) and (model.solver == "joint" or isinstance(model.solver, Joint))


def _line(members: list[tuple[float, int, BaseEstimator]], params: Params) -> Line:
    steps: list[Step] = []
    last = np.inf
    for place, index, model in sorted(members, key=lambda member: (-member[0], member[1])):
        if last - place <= _SAME:
            steps[-1] = Step(steps[-1].estimator, (*steps[-1].candidates, index))
        else:
            steps.append(Step(model, (index,)))
            last = place
    return Line(tuple(steps), warm=_follows_path(members[0][2]), params=params)
