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
from ..model_selection.fold_fits import Deadline, Outcome
from ..model_selection.grid import Line
from ..model_selection.search import SharedGrams, run_search, shares_grams

# Kernels that were learned from the rows of a fold, by the key of `RememberedKernels`.
Known = Mapping[str, list[FittedKernel]]
# Of each job: outcomes of its candidates, and kernels that were learned.
Results = Iterable[tuple[dict[int, list[Outcome]], Known]]


class KnownKernels(dict[str, list[FittedKernel]]):
    """Kernels that were learned so far. A thread of joblib pickles jobs while results of others are added here."""

    def __reduce__(self) -> tuple[type, tuple[Known]]:
        return dict, (dict(self),)


@dataclass(frozen=True)
class Job:
    """Lines with the same kernels, on folds of these numbers."""

    lines: tuple[Line, ...]
    folds: tuple[int, ...]

    @property
    def n_candidates(self) -> int:
        return sum(len(step.candidates) for line in self.lines for step in line.steps)


@dataclass
class JobRunner:
    """Runs jobs on `n_jobs` processes, or on the workers of an engine. Results come in the order of the jobs."""

    data: TaskData
    folds: Sequence[Fold]
    cache: Any = None
    n_jobs: int | None = None
    engine: Engine = field(default_factory=Threads)
    _known: KnownKernels = field(default_factory=KnownKernels)

    @property
    def n_workers(self) -> int:
        return self.engine.n_workers if self.engine.splits else count_workers(self.n_jobs)

    def run(self, jobs: Sequence[Job], deadline: Deadline) -> Iterator[tuple[Job, dict[int, list[Outcome]]]]:
        """Yield each job, and the outcomes on its folds of each of its candidates that the deadline left time for."""
        results: Results
        if self.engine.splits:
            shared = self.data, tuple(self.folds), self.cache, self._known, deadline
            results = self.engine.map(_run_shared, jobs, shared)
        elif self.n_workers > 1 and len(jobs) > 1:
            results = self._in_processes(jobs, deadline)
        else:
            results = (run_job(*self._arguments(job, deadline)) for job in jobs)
        for job, (found, known) in zip(jobs, results, strict=True):
            self._known.update(known)
            yield job, found

    def _arguments(self, job: Job, deadline: Deadline) -> tuple[Any, ...]:
        return self.data, [self.folds[f] for f in job.folds], job.lines, self.cache, self._known, deadline

    def _in_processes(self, jobs: Sequence[Job], deadline: Deadline) -> Results:
        from joblib import Parallel, delayed

        pool = Parallel(self.n_workers, return_as="generator", pre_dispatch="all", batch_size=1)
        return pool(delayed(run_job)(*self._arguments(job, deadline)) for job in jobs)


def _run_shared(
    shared: tuple[TaskData, Sequence[Fold], Any, Known, Deadline], job: Job
) -> tuple[dict[int, list[Outcome]], Known]:
    """Run a job with what all jobs have in common."""
    data, folds, cache, known, deadline = shared
    return run_job(data, [folds[f] for f in job.folds], job.lines, cache, known, deadline)


def run_job(
    data: TaskData, folds: Sequence[Fold], lines: Sequence[Line], cache: Any, known: Known, deadline: Deadline
) -> tuple[dict[int, list[Outcome]], Known]:
    """Return the outcome on each fold of each candidate that there was time for, and the kernels that were learned."""
    sources = [line.params["kernels"] for line in lines]
    remembered = [source for source in sources if isinstance(source, RememberedKernels)]
    for source in remembered:
        source.remember(known)
    found: dict[int, list[Outcome]] = {}
    for part in (lines,) if shares_grams(lines) else ([line] for line in lines):
        grams = SharedGrams(data, part, len(folds), 1) if shares_grams(part) else None
        options: dict[str, Any] = {"n_jobs": 1, "verbose": 0, "callback": None, "cache": cache, "deadline": deadline}
        outcomes, _ = run_search(part, data, folds, grams, **options)
        found |= outcomes
    return found, {key: kernels for source in remembered for key, kernels in source.found.items()}
