"""Threads of this process. BLAS is limited to one thread while a fit runs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from threading import Lock
from typing import Any, ClassVar, Self, TypeVar

import numpy as np


@cache
def _controller() -> Any:
    """Return the controller of the loaded BLAS libraries; cached, because finding them is slow."""
    from threadpoolctl import ThreadpoolController

    import_module("scipy.linalg")  # loads its own BLAS
    return ThreadpoolController().select(user_api="blas")


def _take_control() -> None:
    """Allow the calling thread to set limits.

    threadpoolctl >= 3.7 silently ignores all threads except the one that set a limit first, but fits that overlap may
    start and end in different threads.
    """
    for library in _controller().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


class SingleThreadedBLAS:
    """Context manager that limits BLAS to one thread; contexts may nest and overlap in several threads.

    Underflow is ignored inside, whatever the user's `np.seterr` says.
    """

    # Shared by all contexts of the process.
    lock = Lock()
    count = 0
    limiter: Any = None
    # The threads of `Workers`.
    pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Self:
        self._errors = np.errstate(under="ignore")
        self._errors.__enter__()
        shared = SingleThreadedBLAS
        with shared.lock:
            shared.count += 1
            if shared.count == 1:
                _take_control()
                shared.limiter = _controller().limit(limits=1, user_api="blas")
        return self

    def __exit__(self, *exception: Any) -> None:
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)
        self._errors.__exit__(*exception)
        shared = SingleThreadedBLAS
        with shared.lock:
            shared.count -= 1
            if shared.count == 0 and shared.limiter is not None:
                _take_control()
                shared.limiter.restore_original_limits()
                _take_control()
                shared.limiter = None

    @classmethod
    def reset(cls) -> None:
        """Reset after a fork: the child has none of the parent's other threads."""
        cls.lock, cls.count, cls.limiter = Lock(), 0, None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SingleThreadedBLAS.reset)


Item = TypeVar("Item")
Result = TypeVar("Result")

# Runs independent jobs: `each(function, items)` returns the list of results, in order.
Each = Callable[[Callable[[Any], Any], Iterable[Any]], list[Any]]

# Number of batches of items per thread: small, to limit overhead, but large enough for threads to finish together.
_PIECES_PER_THREAD = 8


def serially(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Apply a function to every item in a plain loop."""
    return [function(item) for item in items]


def count_workers(n_jobs: int | None) -> int:
    """Return the number of threads for the parameter `n_jobs`."""
    from joblib import effective_n_jobs

    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0: use 1 for one thread, or -1 for all processors")
    return int(effective_n_jobs(n_jobs))


class Workers(SingleThreadedBLAS):
    """A pool of `n_jobs` threads: `with Workers(n_jobs) as workers: workers.map(function, items)`.

    Inside the context BLAS is limited to one thread.
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = count_workers(n_jobs)
        self.pool = ThreadPoolExecutor(self.n_jobs) if self.n_jobs > 1 else None

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Apply a function to every item; return the results in order."""
        if self.pool is None:
            return list(map(function, items))
        items = list(items)
        size = -(-len(items) // (_PIECES_PER_THREAD * self.n_jobs)) or 1
        pieces = [items[start : start + size] for start in range(0, len(items), size)]
        return [result for part in self.pool.map(lambda piece: list(map(function, piece)), pieces) for result in part]


class Jobs(Workers):
    """Threads that report steps and skip jobs after a deadline.

    Parameters
    ----------
    total : number of steps of all jobs together.
    n_jobs : number of threads. Results do not depend on it.
    report : called after each step with the number of steps done, `total`, and a text; never by two threads at once.
    deadline : jobs that have not started by this time (of `time.monotonic`) are skipped.

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
        super().__init__(n_jobs)
        self.total, self.done, self.is_complete = total, 0, True
        self.deadline, self._report, self._report_lock = deadline, report, Lock()

    def map(self, function: Callable[[Any], Any], items: Iterable[Any], deadline: float | None = None) -> list[Any]:
        """Return the result of each job, in order; None for jobs skipped at the deadline."""
        limit = self.deadline if deadline is None else deadline

        def run(item: Any) -> Any:
            if time.monotonic() <= limit:
                return function(item)
            self.is_complete = False
            return None

        return super().map(run, items)

    def step(self, text: str = "") -> None:
        """Report a finished step; may be called from any thread."""
        with self._report_lock:
            self.done += 1
            if self._report is not None:
                self._report(self.done, self.total, text)


@dataclass(frozen=True)
class Threads:
    """Engine that uses `n_jobs` threads of this process; all data are in its memory."""

    splits: ClassVar[bool] = False
    n_jobs: int | None = None

    def hold(self, items: Sequence[Any]) -> ThreadsHeld:
        """Keep objects for calls on threads."""
        return ThreadsHeld(items, self.n_jobs)


class ThreadsHeld:
    """Objects in this process, with the interface of `DaskHeld`."""

    def __init__(self, items: Sequence[Any], n_jobs: int | None) -> None:
        self.items, self.n_jobs = items, n_jobs

    def call(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return `function(object, *argument)` for each object and argument, in order."""
        pairs = list(zip(self.items, arguments, strict=True))
        if self.n_jobs == 1 or len(pairs) == 1:
            return [function(item, *given) for item, given in pairs]
        with Workers(self.n_jobs) as workers:
            return workers.map(lambda pair: function(pair[0], *pair[1]), pairs)


def read_engine(engine: Any) -> Any:
    """Convert the parameter `engine`: "threads" to None, a Dask client to `Dask`; engines are returned."""
    if engine is None or (isinstance(engine, str) and engine == "threads"):
        return None
    if hasattr(engine, "splits"):
        return engine
    if hasattr(engine, "submit") and hasattr(engine, "scatter"):
        from .dask import Dask  # it imports this module

        return Dask(engine)
    raise ValueError(f'engine must be "threads" or a Dask client, got {engine!r}')
