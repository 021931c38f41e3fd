"""Run independent jobs on threads, with progress reports and an optional deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any, TypeVar

from .threads import Workers

Job = TypeVar("Job")
Result = TypeVar("Result")


class Jobs:
    """Run jobs on threads. BLAS uses one thread per job.

    Parameters
    ----------
    total : int
        Number of steps of all jobs together.
    n_jobs : int, optional
        Number of threads. Results do not depend on it.
    report : callable, optional
        Called after each step with the number of steps done, `total`, and a text. Never called by two threads at once.
    deadline : float
        Jobs that have not started by this time (of `time.monotonic`) are skipped.

    Attributes
    ----------
    is_complete : whether no job has been skipped so far.

    Examples
    --------
    >>> with Jobs(3, n_jobs=2) as jobs:
    ...     jobs.map(lambda x: x**2, [1, 2, 3])
    [1, 4, 9]
    """

    def __init__(
        self,
        total: int,
        *,
        n_jobs: int | None = None,
        report: Callable[[int, int, str], object] | None = None,
        deadline: float = float("inf"),
    ) -> None:
        self.total, self.done, self.is_complete = total, 0, True
        self.deadline, self._report, self._lock = deadline, report, Lock()
        self._workers = Workers(n_jobs)

    def __enter__(self) -> Jobs:
        self._workers.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._workers.__exit__(*exception)

    def map(
        self, function: Callable[[Job], Result], jobs: Iterable[Job], deadline: float | None = None
    ) -> list[Result | None]:
        """Return the result of each job, in order; None for jobs skipped at the deadline."""
        limit = self.deadline if deadline is None else deadline

        def run(job: Job) -> Result | None:
            if time.monotonic() <= limit:
                return function(job)
            self.is_complete = False
            return None

        return self._workers.map(run, jobs)

    def step(self, text: str = "") -> None:
        """Report a finished step; may be called from any thread."""
        with self._lock:
            self.done += 1
            if self._report is not None:
                self._report(self.done, self.total, text)
