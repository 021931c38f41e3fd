"""Solving the problems of a line on the training rows of a fold, and their values at the held-out rows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...data import Fold, TaskData
from ...kernels import FittedKernel
from ...uncertainty import fold_values
from ..fitting import Fit, FitPlan, RunOptions
from ..fitting.targets import split_by_task
from ..grams import HeldOut, RawGrams
from ..problems import Problem
from ..solvers import UNFINISHED, Path, Solution
from .grid import Line


@dataclass(frozen=True)
class Outcome:
    """The values (q_t, m) of one problem at each task's held-out rows of a fold."""

    values: list[np.ndarray]
    converged: bool
    seconds: float


class FoldFits(Protocol):
    """The fits of a fold."""

    def outcomes(self, line: Line) -> Iterator[Outcome]:
        """Solve the problems of a line, one after the other."""
        ...


class SharedFoldFits:
    """Fits on slices of Gram matrices that exist already, for lines with the same kernels, scaling and couplings.

    Parameters
    ----------
    raw : kernel values among all rows.
    kernels : the fitted kernels; None where Gram matrices are precomputed.
    data, fold : all rows, and which of them are training rows.
    specification : that of a line.
    """

    def __init__(
        self,
        raw: RawGrams,
        kernels: Sequence[FittedKernel] | None,
        data: TaskData,
        fold: Fold,
        specification: Fit,
    ) -> None:
        self.train, self.kernels = data.take(fold.kept), kernels
        plan = self._plan(specification)
        if not plan.couplings:
            raw = replace(raw, linked=None)
        self.grams, bank = plan.scale(raw.restrict(data, fold.kept), overwrite=True)
        self.held = HeldOut(raw, bank, data, fold.kept, fold.held)

    def outcomes(self, line: Line) -> Iterator[Outcome]:
        first = self._plan(line.specification)
        problem = first.problem(self.grams)
        path = None
        if line.warm:
            assert isinstance(problem, Problem)
            fit = first.fit
            path = Path(problem, fit.solver, tol=fit.tol, max_iter=fit.max_iter, units=first.units)
        for step in line.steps:
            began = time.perf_counter()
            if path is None:
                plan = self._plan(step.specification)
                solution = plan.solve(plan.problem(self.grams))
            else:
                # Problems of a line have the same functions whatever C is, at the same mu / C^3.
                distance = step.specification.path_position - line.specification.path_position
                solution = path.solve(first.mu * np.exp(distance), first.start)
            values = self._values(first, solution)
            yield Outcome(values, solution.status not in UNFINISHED, time.perf_counter() - began)

    def _plan(self, specification: Fit) -> FitPlan:
        return specification.plan(self.train, self.kernels)

    def _values(self, plan: FitPlan, solution: Solution) -> list[np.ndarray]:
        a, intercepts = split_by_task(solution.duals, plan.machines, self.train, plan.couplings)
        return self.held.values(solution.B, a, intercepts, plan.couplings)


class SeparateFoldFits:
    """Fits of models that share nothing: each is planned and run on the training rows, and predicts the others."""

    def __init__(self, data: TaskData, fold: Fold) -> None:
        self.data, self.fold = data, fold
        self.train = data.take(fold.kept)

    def outcomes(self, line: Line) -> Iterator[Outcome]:
        for step in line.steps:
            began = time.perf_counter()
            fitted = step.specification.plan(self.train).run(RunOptions(n_jobs=1))
            converged = not any(issubclass(category, ConvergenceWarning) for _, category in fitted.warnings)
            values = fold_values(fitted.attributes, self.data, self.fold)
            yield Outcome(values, converged, time.perf_counter() - began)
