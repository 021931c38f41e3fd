"""The engine of cross-validation: all lines of a grid on all folds, scored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from ...data import Fold, TaskData
from ...engines import Engine, Workers, count_workers
from ...files import Folder, fingerprint
from ...kernels import FittedKernel
from ...memory import Need, check_memory, fit_need, search_need
from ...progress import Progress
from ..couplings import width
from ..fitting import Fit, Fitted, RunOptions
from ..grams import RawGrams
from .fold_fits import FoldFits, Outcome, SeparateFoldFits, SharedFoldFits
from .grid import Line, Params, identity
from .pooled import PooledScorer
from .scoring import Scorer


class Cache:
    """The outcomes of each finished line on each fold. Without a folder, nothing is kept."""

    def __init__(self, folder: Any, data: TaskData) -> None:
        self._results = None if folder is None else Folder(folder).prepare()
        self._data = "" if folder is None else fingerprint(data)

    def load(self, line: Line, fold: Fold) -> list[Outcome] | None:
        """Return what was stored of this line on this fold."""
        stored = None if self._results is None else self._results.read_arrays(self._key(line, fold))
        if stored is None:
            return None
        widths, sizes = stored["widths"], [len(held) for held in fold.held]
        ends = np.cumsum(widths * sizes)[:-1]
        facts = zip(stored["converged"].tolist(), stored["seconds"].tolist(), strict=True)
        return [
            Outcome([part.reshape(-1, m) for part, m in zip(np.split(flat, ends), widths, strict=True)], *fact)
            for flat, fact in zip(stored["values"], facts, strict=True)
        ]

    def store(self, line: Line, fold: Fold, outcomes: Sequence[Outcome]) -> None:
        """Keep the outcomes of a line on a fold."""
        if self._results is None:
            return
        self._results.write_arrays(
            self._key(line, fold),
            widths=np.array([part.shape[1] for part in outcomes[0].values]),
            values=np.array([np.concatenate([part.ravel() for part in outcome.values]) for outcome in outcomes]),
            converged=np.array([outcome.converged for outcome in outcomes]),
            seconds=np.array([outcome.seconds for outcome in outcomes]),
        )

    def _key(self, line: Line, fold: Fold) -> str:
        specifications = [step.specification for step in line.steps]
        return f"{fingerprint(self._data, fold.kept, fold.held, specifications)}.npz"


# Called with how many problems are solved, of how many.
Report = Callable[[int, int], object]
# The parameters that decide what a Gram stack holds.
_GRAM_PARAMETERS = ("kernels", "kernel", "normalize")


@dataclass(frozen=True)
class Job:
    """A line on a fold."""

    line: Line
    fold: int


class SharedGrams:
    """Kernel values among all rows, evaluated once for all folds and all lines with the same kernels."""

    def __init__(self, data: TaskData, lines: Sequence[Line], n_folds: int, n_jobs: int | None) -> None:
        self.data, self.n_folds, self.n_jobs = data, n_folds, count_workers(n_jobs)
        # The width of the widest couplings among the lines that share Gram matrices.
        self._widths: dict[tuple, int] = {}
        for line in lines:
            key = _gram_key(line.params)
            self._widths[key] = max(self._widths.get(key, 0), width(line.specification.fit_couplings(data)))
        self._key: tuple | None = None
        self._held: tuple[RawGrams, Sequence[FittedKernel] | None] | None = None

    def need(self, specification: Fit, params: Params) -> Need:
        """Bound the memory of a search over the lines with these kernels."""
        plan = specification.plan(self.data)
        sizes = plan.gram_plan(self._widths[_gram_key(params)])
        return fit_need(sizes, plan.solved_by, self.n_jobs, self.n_folds)

    def of(self, specification: Fit, params: Params) -> tuple[RawGrams, Sequence[FittedKernel] | None]:
        """Return the kernel values of a candidate, and its fitted kernels; those requested last are kept."""
        key = _gram_key(params)
        if self._held is None or key != self._key:
            self._held, self._key = None, key
            plan = specification.plan(self.data)
            sizes = plan.gram_plan(self._widths[key])
            check_memory(fit_need(sizes, plan.solved_by, self.n_jobs, self.n_folds))
            self._held = plan.raw_grams(sizes), plan.kernels
        return self._held

    def refit(self, specification: Fit, params: Params, options: RunOptions) -> Fitted:
        """Fit a candidate on all rows."""
        raw, kernels = self.of(specification, params)
        return specification.plan(self.data, kernels).run(options, raw)


class FoldCache:
    """The folds at work: each is prepared when a line first needs it, and dropped after the last one has."""

    def __init__(self, build: Callable[[Line, int], FoldFits], jobs: Sequence[Job]) -> None:
        self._build = build
        self._lock = Lock()
        self._left: dict[tuple, int] = {}
        self._locks: dict[tuple, Lock] = {}
        self._built: dict[tuple, FoldFits] = {}
        for job in jobs:
            self._left[_fold_key(job)] = self._left.get(_fold_key(job), 0) + 1
            self._locks.setdefault(_fold_key(job), Lock())

    def get(self, job: Job) -> FoldFits:
        key = _fold_key(job)
        with self._locks[key]:
            if key not in self._built:
                self._built[key] = self._build(job.line, job.fold)
            return self._built[key]

    def done(self, job: Job) -> None:
        key = _fold_key(job)
        with self._lock:
            self._left[key] -= 1
            if not self._left[key]:
                self._built.pop(key, None)


class Tally:
    """Counts the problems that are solved and the lines that are finished, from any thread, and shows progress."""

    def __init__(self, lines: Sequence[Line], n_folds: int, verbose: int, callback: Report | None) -> None:
        self.n_problems = sum(len(line.steps) for line in lines) * n_folds
        self.solved = self.cached = 0
        self._callback, self._lock = callback, Lock()
        self.display = Progress(len(lines) * n_folds) if verbose else None

    def count(self, outcomes: Iterable[Outcome]) -> list[Outcome]:
        """Collect the outcomes of a line, and call back for each."""
        found = []
        for outcome in outcomes:
            found.append(outcome)
            with self._lock:
                self.solved += 1
                if self._callback is not None:
                    self._callback(self.solved, self.n_problems)
        return found

    def finish(self, cached: bool) -> None:
        """A line on a fold is finished, or was in the cache."""
        with self._lock:
            self.cached += cached
        if self.display is not None:
            self.display.finish(f"cross-validation{', from the cache' if cached else ''}", cached=cached)


def shares_grams(lines: Sequence[Line]) -> bool:
    """Whether the fits of all lines are on Gram matrices that folds can share."""
    return all(isinstance(line.specification, Fit) for line in lines)


def separate_need(lines: Sequence[Line], data: TaskData, folds: Sequence[Fold], n_jobs: int | None) -> Need:
    """Bound the memory of a search over models whose folds share nothing."""
    specification, workers = lines[0].specification, count_workers(n_jobs)
    fold = specification.plan(data.take(folds[0].kept)).memory()
    return search_need(fold, specification.plan(data).memory(workers), data.X.nbytes, workers)


def run_search(
    lines: Sequence[Line],
    data: TaskData,
    folds: Sequence[Fold],
    grams: SharedGrams | None,
    *,
    n_jobs: int | None,
    verbose: int,
    callback: Report | None,
    cache: Any,
    engine: Engine | None = None,
) -> tuple[dict[int, list[Outcome]], int]:
    """Return each candidate's outcome on each fold, and how many lines on folds were in the cache.

    Where the engine has workers of its own, each of them evaluates the kernels that it needs.
    """
    store, tally = Cache(cache, data), Tally(lines, len(folds), verbose, callback)
    if engine is not None and engine.splits:
        return _run_pieces(lines, data, folds, cache, engine, tally), tally.cached

    def build(line: Line, fold: int) -> FoldFits:
        if grams is None:
            return SeparateFoldFits(data, folds[fold])
        raw, kernels = grams.of(line.specification, line.params)
        return SharedFoldFits(raw, kernels, data, folds[fold], line.specification)

    def work(job: Job) -> list[Outcome]:
        stored = store.load(job.line, folds[job.fold])
        outcomes = tally.count(prepared.get(job).outcomes(job.line) if stored is None else stored)
        if stored is None:
            store.store(job.line, folds[job.fold], outcomes)
        prepared.done(job)
        tally.finish(cached=stored is not None)
        return outcomes

    found: dict[int, list[Outcome]] = {}
    with Workers(n_jobs) as workers, tally.display or nullcontext():
        for group in _same_grams(lines):
            if grams is not None:
                grams.of(group[0].specification, group[0].params)
            jobs = [Job(line, fold) for fold in range(len(folds)) for line in group]
            prepared = FoldCache(build, jobs)
            for job, outcomes in zip(jobs, workers.map(work, jobs), strict=True):
                for step, outcome in zip(job.line.steps, outcomes, strict=True):
                    for candidate in step.candidates:
                        found.setdefault(candidate, []).append(outcome)
    return found, tally.cached


@dataclass(frozen=True)
class Piece:
    """Lines with the same kernels, on a fold."""

    lines: tuple[Line, ...]
    fold: int


def _run_pieces(
    lines: Sequence[Line], data: TaskData, folds: Sequence[Fold], cache: Any, engine: Engine, tally: Tally
) -> dict[int, list[Outcome]]:
    """Run a search on the workers of an engine, which all have the data."""
    groups = _same_grams(lines) if shares_grams(lines) else [[line] for line in lines]
    pieces = [Piece(tuple(group), fold) for group in groups for fold in range(len(folds))]
    found: dict[int, list[Outcome]] = {}
    with tally.display or nullcontext():
        # The pieces of a group come in the order of the folds.
        for piece, (outcomes, n_cached) in zip(
            pieces, engine.map(run_piece, pieces, (data, tuple(folds), cache)), strict=True
        ):
            for line in piece.lines:
                for step in line.steps:
                    tally.count([outcomes[candidate][0] for candidate in step.candidates[:1]])
                    for candidate in step.candidates:
                        found.setdefault(candidate, []).append(outcomes[step.candidates[0]][0])
                tally.finish(cached=n_cached == len(piece.lines))
    return found


def run_piece(shared: tuple[TaskData, Sequence[Fold], Any], piece: Piece) -> tuple[dict[int, list[Outcome]], int]:
    """Run the lines of a piece on its fold."""
    data, folds, cache = shared
    grams = SharedGrams(data, piece.lines, 1, 1) if shares_grams(piece.lines) else None
    options: dict[str, Any] = {"n_jobs": 1, "verbose": 0, "callback": None, "cache": cache}
    return run_search(piece.lines, data, [folds[piece.fold]], grams, **options)


def tabulate(
    candidates: Sequence[Params], found: dict[int, list[Outcome]], scorer: Scorer | PooledScorer
) -> dict[str, Any]:
    """Return `cv_results_`, a table with a row for each candidate."""
    # Candidates that are one problem share their outcomes, and need scoring once.
    scored: dict[int, tuple[float, float, np.ndarray]] = {}
    rows = []
    for index in range(len(candidates)):
        key = id(found[index][0])
        if key not in scored:
            scored[key] = scorer.score([outcome.values for outcome in found[index]])
        rows.append(scored[key])
    mean = np.array([row[0] for row in rows])
    table: dict[str, Any] = {"params": list(candidates)}
    for name in dict.fromkeys(name for params in candidates for name in params):
        column = np.empty(len(candidates), dtype=object)
        column[:] = [params.get(name) for params in candidates]
        table[f"param_{name}"] = column
    table["mean_test_score"] = mean
    table["standard_error"] = np.array([row[1] for row in rows])
    for fold in range(scorer.n_folds):
        table[f"split{fold}_test_score"] = np.array([row[2][fold] for row in rows])
    table["rank_test_score"] = _ranks(mean)
    table["converged"] = np.array([all(outcome.converged for outcome in found[i]) for i in range(len(candidates))])
    table["seconds"] = np.array([sum(outcome.seconds for outcome in found[i]) for i in range(len(candidates))])
    return table


def _ranks(scores: np.ndarray) -> np.ndarray:
    """Return 1 for the best; the same for equal scores; undefined ones last."""
    known = np.where(np.isnan(scores), -np.inf, scores)
    return 1 + (known[:, np.newaxis] < known).sum(axis=1)


def _gram_key(params: Params) -> tuple:
    return identity(params, _GRAM_PARAMETERS)


def _fold_key(job: Job) -> tuple:
    return job.fold, identity(job.line.params, ["couplings", "task_features", "parsimony", "sharing"])


def _same_grams(lines: Sequence[Line]) -> list[list[Line]]:
    groups: dict[tuple, list[Line]] = {}
    for line in lines:
        groups.setdefault(_gram_key(line.params), []).append(line)
    return list(groups.values())
