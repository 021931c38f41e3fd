"""Solving the problems of a line on the training rows of a fold, and what they say of the held-out rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils.metaestimators import _safe_split

from ..data import TaskData
from ..estimators.on_grams import GramEstimator
from ..estimators.targets import tasks_of_machines
from ..grams.build import RawGrams, scale_grams
from ..grams.heldout import held_out
from ..objective import Evaluation, Objective
from ..solvers import SOLVERS, Run, Solution, Status
from ..solvers.base import suitable_scale
from .folds import Fold
from .grid import Line


@dataclass(frozen=True)
class Outcome:
    """What one problem says of a fold: values (q_t, m) at each task's held-out rows."""

    values: list[np.ndarray]
    converged: bool
    seconds: float


# From a solution this far away in the logarithm of mu/C^3 (three decades) a solver does no better than from its own.
_FAR = np.log(1e3) + 1e-6

# Above this `decay` the functions of the last two solutions were the same but for rounding.
_SAME_FUNCTIONS = 0.99

# The problems of a line, solved on one fold.
Follow = Callable[[Line], Iterator[Outcome]]


def shares_grams(estimator: BaseEstimator) -> bool:
    """Whether an estimator is fitted as the shell does it, on Grams that folds can share."""
    return isinstance(estimator, GramEstimator) and type(estimator).fit is GramEstimator.fit


@dataclass(frozen=True)
class WarmObjective(Objective):
    """An objective whose machines start from given dual variables."""

    start: Sequence[np.ndarray] = ()

    @classmethod
    def of(cls, objective: Objective, start: Sequence[np.ndarray]) -> WarmObjective:
        return cls(**{part.name: getattr(objective, part.name) for part in fields(Objective)}, start=start)

    def evaluate(self, B: np.ndarray, *, warm: Sequence[np.ndarray] | None = None, **how: Any) -> Evaluation:
        return super().evaluate(B, warm=self.start if warm is None else warm, **how)


class Trail:
    """The solutions along a line, all posed with the C of its first problem: only `mu / C^3` matters.

    The next problem starts from the last solution, at the scale that suits its own mu.
    """

    def __init__(self, estimator: Any, objective: Objective) -> None:
        self.place, self.objective = estimator._place, objective
        self._past: list[tuple[float, Evaluation]] = []

    def follow(self, estimator: Any) -> Solution:
        """Solve the next problem, by the estimator's solver."""
        objective = replace(self.objective, mu=self.objective.mu * np.exp(estimator._place - self.place))
        decay = _decay(*(evaluation for _, evaluation in self._past))
        carried = self._carry(objective, estimator) if decay > _SAME_FUNCTIONS else None
        if carried is not None:
            return carried
        B, objective = self._start(estimator, objective, decay)
        solver = SOLVERS[estimator.solver]() if isinstance(estimator.solver, str) else estimator.solver
        run = Run(objective, estimator.tol)
        solution = solver.minimise(run, B, estimator.max_iter)
        assert run.best is not None
        self._past = [*self._past[-1:], (estimator._place, run.best)]
        return solution

    def _carry(self, objective: Objective, estimator: Any) -> Solution | None:
        """The last functions, where they can be certified to solve this problem as well: then no machine is solved."""
        last = self._past[-1][1]
        scale = suitable_scale(objective.mu, last)
        if not objective.learner.homogeneous or scale < 1:
            return None
        known = objective.rescale(last, scale)
        if known.primal - known.bound > estimator.tol * abs(known.primal):
            return None
        self._past = [self._past[-1], (estimator._place, known)]
        Omega = objective.penalty.relation(known.B)
        return Solution(known.B, Omega, known.duals, known.primal, known.bound, Status.CONVERGED, history={})

    def _start(self, estimator: Any, objective: Objective, decay: float) -> tuple[np.ndarray | None, Objective]:
        """Where weights and machines start; from the solver's own start where nothing is near."""
        place, last = self._past[-1] if self._past else (np.inf, None)
        if last is None or abs(estimator._place - place) > _FAR or not np.vdot(last.B, last.Q) > 0:
            return estimator._start(objective), objective
        scale = suitable_scale(objective.mu, last, decay=decay)
        fall = 1.0 + decay * (scale - 1.0)
        return last.B * scale, WarmObjective.of(objective, [dual.a / fall for dual in last.duals])


def _decay(*past: Evaluation) -> float:
    """How fast machines answer to larger weights, from two solutions on the way; see `suitable_scale`."""
    if len(past) < 2:
        return 0.0
    far, near = past
    scale = float(near.B.sum() / max(far.B.sum(), np.finfo(float).tiny))
    before, after = (float(np.vdot(one.B, one.Q)) for one in past)
    if scale <= 1 or after <= 0:
        return 0.0
    return float(np.clip((np.sqrt(before * scale / after) - 1.0) / (scale - 1.0), 0.0, 1.0))


class GramFold:
    """A fold on slices of Grams that exist already, for all lines with the same kernels, scaling and couplings."""

    def __init__(self, raw: RawGrams, data: TaskData, fold: Fold, estimator: GramEstimator) -> None:
        self.train = data.take(fold.kept)
        self.couplings = estimator._couplings(self.train)
        if not self.couplings:
            raw = replace(raw, linked=None)
        kept = raw.restrict(data, fold.kept)
        self.grams, bank = scale_grams(kept, self.train, estimator.normalize, self.couplings, overwrite=True)
        self.held = held_out(raw, bank, data, fold.kept, fold.held)

    def __call__(self, line: Line) -> Iterator[Outcome]:
        trail = Trail(line.estimator, self._pose(line.estimator)) if line.warm else None
        for step in line.steps:
            began = time.perf_counter()
            solution = self._solve_alone(step.estimator) if trail is None else trail.follow(step.estimator)
            yield Outcome(self._values(solution), _converged(solution), time.perf_counter() - began)

    def _pose(self, estimator: Any) -> Objective:
        # Posing leaves marks on an estimator, and other folds have the same one.
        return copy(estimator)._pose(self.train, self.couplings)(self.grams)

    def _solve_alone(self, estimator: Any) -> Solution:
        return copy(estimator)._solve(self._pose(estimator))

    def _values(self, solution: Solution) -> list[np.ndarray]:
        a, intercepts = tasks_of_machines(solution.duals, self.train, self.couplings)
        return self.held.values(solution.B, a, intercepts, self.couplings)


def _converged(solution: Solution) -> bool:
    return solution.status not in (Status.MAX_ITER, Status.STALLED)


@dataclass(frozen=True)
class Inputs:
    """What a user passed to `fit`."""

    X: Any
    y: Any
    tasks: Any
    sample_weight: Any


class PlainFold:
    """A fold for an estimator that is fitted in its own way: `fit` on the training rows, predict the others."""

    def __init__(self, inputs: Inputs, data: TaskData, fold: Fold) -> None:
        self.inputs, self.data, self.fold = inputs, data, fold
        self.train, self.test = fold.rows(data)

    def __call__(self, line: Line) -> Iterator[Outcome]:
        for step in line.steps:
            began = time.perf_counter()
            estimator = clone(step.estimator)
            X, y = _safe_split(estimator, self.inputs.X, self.inputs.y, self.train)
            queries, _ = _safe_split(estimator, self.inputs.X, None, self.test, self.train)
            fit_options = {name: _take(getattr(self.inputs, name), self.train) for name in ("tasks", "sample_weight")}
            estimator.fit(X, y, **{name: value for name, value in fit_options.items() if value is not None})
            tasks = {} if self.inputs.tasks is None else {"tasks": _take(self.inputs.tasks, self.test)}
            values = self._values(estimator, queries, tasks)
            yield Outcome(values, True, time.perf_counter() - began)

    def _values(self, estimator: Any, queries: Any, tasks: dict[str, Any]) -> list[np.ndarray]:
        classification = is_classifier(estimator)
        said = (estimator.decision_function if classification else estimator.predict)(queries, **tasks)
        out = []
        for t, (rows, held, kept) in enumerate(zip(self.data.rows, self.fold.held, self.fold.kept, strict=True)):
            mine = said[np.searchsorted(self.test, rows[held])]
            if self.data.form == "wide":
                mine = mine[:, t]
            if classification and mine.ndim == 2:
                classes = np.unique(self.data.y[t][kept])
                mine = mine[:, np.searchsorted(estimator.classes_, classes)]
                mine = mine[:, 1:] if len(classes) == 2 else mine
            out.append(mine.reshape(len(mine), -1))
        return out


def _take(values: Any, rows: np.ndarray) -> Any:
    return None if values is None else np.asarray(values)[rows]
