"""Pieces of the search that processes work on: candidates with the same kernels, on some of the folds.

Threads are of little use to a search: between short calls of BLAS it runs in the interpreter, one thread at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..data import TaskData
from ..engines import Engine, Threads, count_workers
from ..kernels import FittedKernel, RememberedKernels
from ..model_selection import Fold
from ..model_selection.fold_fits import Outcome
from ..model_selection.grid import Line
from ..model_selection.search import SharedGrams, run_search, shares_grams

# Kernels that were learned from the rows of a fold, by the key of `RememberedKernels`.
Known = Mapping[str, list[FittedKernel]]


@dataclass(frozen=True)
class Job:
    """Lines with the same kernels, on folds of these numbers."""

    lines: tuple[Line, ...]
    folds: tuple[int, ...]


@dataclass
class JobRunner:
    """Runs jobs on `n_jobs` processes, or on the workers of an engine. Results come in the order of the jobs."""

    data: TaskData
    folds: Sequence[Fold]
    cache: Any = None
    n_jobs: int | None = None
    engine: Engine = field(default_factory=Threads)
    _known: dict[str, list[FittedKernel]] = field(default_factory=dict)

    @property
    def n_workers(self) -> int:
        return self.engine.n_workers if self.engine.splits else count_workers(self.n_jobs)

    def run(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, dict[int, list[Outcome]]]]:
        """Yield each job, and for each of its candidates the outcomes on the folds of the job."""
        results: Iterable[tuple[dict[int, list[Outcome]], Known]]
        if self.engine.splits:
            results = self.engine.map(_run_shared, jobs, (self.data, tuple(self.folds), self.cache, dict(self._known)))
        elif self.n_workers > 1 and len(jobs) > 1:
            results = self._in_processes(jobs)
        else:
            results = (run_job(*self._arguments(job)) for job in jobs)
        for job, (found, known) in zip(jobs, results, strict=True):
            self._known.update(known)
            yield job, found

    def _arguments(self, job: Job) -> tuple[Any, ...]:
        return self.data, [self.folds[f] for f in job.folds], job.lines, self.cache, self._known

    def _in_processes(self, jobs: Sequence[Job]) -> Iterable[tuple[dict[int, list[Outcome]], Known]]:
        from joblib import Parallel, delayed

        pool = Parallel(self.n_workers, return_as="generator", pre_dispatch="all", batch_size=1)
        return pool(delayed(run_job)(*self._arguments(job)) for job in jobs)


def _run_shared(
    shared: tuple[TaskData, Sequence[Fold], Any, Known], job: Job
) -> tuple[dict[int, list[Outcome]], Known]:
    """Run a job with what all jobs have in common."""
    data, folds, cache, known = shared
    return run_job(data, [folds[f] for f in job.folds], job.lines, cache, known)


def run_job(
    data: TaskData, folds: Sequence[Fold], lines: Sequence[Line], cache: Any, known: Known
) -> tuple[dict[int, list[Outcome]], Known]:
    """Return each candidate's outcome on each fold, and the kernels that had to be learned."""
    sources = [line.params["kernels"] for line in lines]
    remembered = [source for source in sources if isinstance(source, RememberedKernels)]
    for source in remembered:
        source.remember(known)
    found: dict[int, list[Outcome]] = {}
    for part in (lines,) if shares_grams(lines) else ([line] for line in lines):
        grams = SharedGrams(data, part, len(folds), 1) if shares_grams(part) else None
        outcomes, _ = run_search(part, data, folds, grams, n_jobs=1, verbose=0, callback=None, cache=cache)
        found |= outcomes
    return found, {key: kernels for source in remembered for key, kernels in source.found.items()}
