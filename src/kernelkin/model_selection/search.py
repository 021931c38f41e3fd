"""The engine of cross-validation: all lines of a grid on all folds, scored."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..couplings import width
from ..data import TaskData
from ..grams import plan_grams
from ..grams.build import RawGrams, raw_grams, scale_grams
from ..memory import check_memory
from ..parallel import Workers, count_workers
from .cache import Cache
from .folds import Fold
from .grid import Line, Params, identity
from .path import Follow, GramFold, Inputs, Outcome, PlainFold
from .scoring import Judge

# What is told of a search: how many problems are solved, of how many.
Tell = Callable[[int, int], object]
# The parameters of the shell that decide what a Gram stack holds.
_GRAM_PARAMETERS = ("kernels", "kernel", "normalize")


@dataclass(frozen=True)
class Job:
    """A line on a fold."""

    line: Line
    fold: int


class RawStacks:
    """The raw Grams of the lines at work, evaluated once for all folds and all lines with the same kernels."""

    def __init__(self, data: TaskData, lines: Sequence[Line], n_folds: int, n_jobs: int | None) -> None:
        self.data, self.n_folds, self.n_jobs = data, n_folds, count_workers(n_jobs)
        self.linked: dict[tuple, int] = {}
        for line in lines:
            couplings = line.estimator._couplings(data)
            # What is wrong with a candidate shows before any kernel is evaluated.
            line.estimator._pose(data, couplings)
            if couplings:
                key = _gram_key(line.params)
                self.linked[key] = max(self.linked.get(key, 0), width(couplings))
        self._key: tuple | None = None
        self._raw: RawGrams | None = None

    def of(self, estimator: Any, params: Params) -> RawGrams:
        """Those of a candidate; the last ones asked for are kept."""
        key = _gram_key(params)
        if self._raw is None or key != self._key:
            self._raw = None
            self._key = key
            kernels = estimator._fit_kernels(self.data)
            plan = plan_grams(self.data, kernels, estimator.normalize, self.linked.get(key, 0))
            check_memory(plan.need(replace(estimator._use(), n_jobs=self.n_jobs, n_folds=self.n_folds)))
            self._raw = raw_grams(self.data, kernels, estimator.normalize, plan)
        return self._raw

    def refit(self, estimator: Any, params: Params) -> None:
        """Fit a candidate on all rows, as the shell does."""
        raw, couplings = self.of(estimator, params), estimator._couplings(self.data)
        pose = estimator._pose(self.data, couplings)
        grams, bank = scale_grams(raw, self.data, estimator.normalize, couplings)
        estimator._store(self.data, bank, couplings, estimator._solve(pose(grams)))


class Problems:
    """The fold problems at work: each is built when a line first needs it, and dropped after the last one has."""

    def __init__(self, build: Callable[[Line, int], Follow], jobs: Sequence[Job]) -> None:
        self._build = build
        self._lock = Lock()
        self._left: dict[tuple, int] = {}
        self._locks: dict[tuple, Lock] = {}
        self._built: dict[tuple, Follow] = {}
        for job in jobs:
            self._left[_problem_key(job)] = self._left.get(_problem_key(job), 0) + 1
            self._locks.setdefault(_problem_key(job), Lock())

    def get(self, job: Job) -> Follow:
        key = _problem_key(job)
        with self._locks[key]:
            if key not in self._built:
                self._built[key] = self._build(job.line, job.fold)
            return self._built[key]

    def done(self, job: Job) -> None:
        key = _problem_key(job)
        with self._lock:
            self._left[key] -= 1
            if not self._left[key]:
                self._built.pop(key, None)


class Progress:
    """A line for each finished piece, with the time that is left at this pace; pieces of a cache take none."""

    def __init__(self, lines: Sequence[Line], n_folds: int, verbose: int, callback: Tell | None) -> None:
        self.n_jobs, self.n_problems = len(lines) * n_folds, sum(len(line.steps) for line in lines) * n_folds
        self.verbose, self.callback = verbose, callback
        self.done = self.cached = self.solved = 0
        self._began = time.perf_counter()
        self._lock = Lock()

    def count(self, outcomes: Iterable[Outcome]) -> list[Outcome]:
        """Collect the outcomes of a line, and call back for each."""
        found = []
        for outcome in outcomes:
            found.append(outcome)
            with self._lock:
                self.solved += 1
                if self.callback is not None:
                    self.callback(self.solved, self.n_problems)
        return found

    def __call__(self, cached: bool) -> None:
        with self._lock:
            self.done += 1
            self.cached += cached
            if self.verbose:
                passed = time.perf_counter() - self._began
                left = passed * (self.n_jobs - self.done) / max(self.done - self.cached, 1)
                found = f"{self.cached} of them from the cache, " if self.cached else ""
                print(
                    f"[kernelkin] cross-validation {self.done:4d}/{self.n_jobs} lines on folds  {passed:7.1f} s, "
                    f"{found}about {left:.1f} s left",
                    flush=True,
                )


def run_search(
    lines: Sequence[Line],
    data: TaskData,
    inputs: Inputs,
    folds: Sequence[Fold],
    *,
    n_jobs: int | None,
    verbose: int,
    callback: Tell | None,
    cache: Any,
    stacks: RawStacks | None,
) -> tuple[dict[int, list[Outcome]], int]:
    """Candidate -> its outcome on each fold; and how many lines on folds were in the cache."""
    store, progress = Cache(cache, data), Progress(lines, len(folds), verbose, callback)

    def build(line: Line, fold: int) -> Follow:
        if stacks is None:
            return PlainFold(inputs, data, folds[fold])
        return GramFold(stacks.of(line.estimator, line.params), data, folds[fold], line.estimator)

    def work(job: Job) -> list[Outcome]:
        stored = store.load(job.line, folds[job.fold])
        outcomes = progress.count(problems.get(job)(job.line) if stored is None else stored)
        if stored is None:
            store.store(job.line, folds[job.fold], outcomes)
        problems.done(job)
        progress(cached=stored is not None)
        return outcomes

    found: dict[int, list[Outcome]] = {}
    with Workers(n_jobs) as workers, warnings.catch_warnings():
        # What the estimators warn of is counted, and told once.
        warnings.simplefilter("ignore", ConvergenceWarning)
        for group in _same_grams(lines):
            if stacks is not None:
                stacks.of(group[0].estimator, group[0].params)
            jobs = [Job(line, fold) for fold in range(len(folds)) for line in group]
            problems = Problems(build, jobs)
            for job, outcomes in zip(jobs, workers.map(work, jobs), strict=True):
                for step, outcome in zip(job.line.steps, outcomes, strict=True):
                    for candidate in step.candidates:
                        found.setdefault(candidate, []).append(outcome)
    return found, progress.cached


def tabulate(candidates: Sequence[Params], found: dict[int, list[Outcome]], judge: Judge) -> dict[str, Any]:
    """`cv_results_`, a table with a row for each candidate."""
    # Candidates that are one problem share their outcomes, and need scoring once.
    scored: dict[int, tuple[float, float, np.ndarray]] = {}
    rows = []
    for index in range(len(candidates)):
        key = id(found[index][0])
        if key not in scored:
            scored[key] = judge.score([outcome.values for outcome in found[index]])
        rows.append(scored[key])
    mean = np.array([row[0] for row in rows])
    table: dict[str, Any] = {"params": list(candidates)}
    for name in dict.fromkeys(name for params in candidates for name in params):
        column = np.empty(len(candidates), dtype=object)
        column[:] = [params.get(name) for params in candidates]
        table[f"param_{name}"] = column
    table["mean_test_score"] = mean
    table["standard_error"] = np.array([row[1] for row in rows])
    for fold in range(judge.n_folds):
        table[f"split{fold}_test_score"] = np.array([row[2][fold] for row in rows])
    table["rank_test_score"] = _ranks(mean)
    table["converged"] = np.array([all(outcome.converged for outcome in found[i]) for i in range(len(candidates))])
    table["seconds"] = np.array([sum(outcome.seconds for outcome in found[i]) for i in range(len(candidates))])
    return table


def _ranks(scores: np.ndarray) -> np.ndarray:
    """1 for the best; the same for equal scores; undefined ones last."""
    known = np.where(np.isnan(scores), -np.inf, scores)
    return 1 + (known[:, np.newaxis] < known).sum(axis=1)


def _gram_key(params: Params) -> tuple:
    return identity(params, _GRAM_PARAMETERS)


def _problem_key(job: Job) -> tuple:
    return job.fold, identity(job.line.params, ["couplings"])


def _same_grams(lines: Sequence[Line]) -> list[list[Line]]:
    groups: dict[tuple, list[Line]] = {}
    for line in lines:
        groups.setdefault(_gram_key(line.params), []).append(line)
    return list(groups.values())
