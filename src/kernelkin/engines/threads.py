"""The loop over machines on threads: the work inside (BLAS, compiled loops) releases the interpreter lock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from .blas import SingleThreadedBLAS

Item = TypeVar("Item")
Result = TypeVar("Result")

# How independent pieces are run: `each(function, items) -> list of results, in order`.
Each = Callable[[Callable[[Any], Any], Iterable[Any]], list[Any]]

# Pieces per thread: few, as handing one over takes as long as a small machine, but enough for threads to end together.
_PIECES_PER_THREAD = 8


def serially(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Run a plain loop."""
    return [function(item) for item in items]


def count_workers(n_jobs: int | None) -> int:
    """Return the number of threads that `n_jobs` stands for."""
    from joblib import effective_n_jobs

    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0: 1 is one thread, -1 as many as there are processors")
    return int(effective_n_jobs(n_jobs))


class Workers:
    """`with Workers(n_jobs) as workers: workers.map(function, items)`, in order, on `n_jobs` threads.

    Inside the block BLAS keeps to one thread.
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = count_workers(n_jobs)
        self._pool: ThreadPoolExecutor | None = None
        self._blas = SingleThreadedBLAS()

    def __enter__(self) -> Workers:
        self._blas.__enter__()
        self._pool = ThreadPoolExecutor(self.n_jobs) if self.n_jobs > 1 else None
        return self

    def __exit__(self, *exception: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._blas.__exit__(*exception)

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Apply a function to every item."""
        if self._pool is None:
            return serially(function, items)
        items = list(items)
        size = -(-len(items) // (_PIECES_PER_THREAD * self.n_jobs)) or 1
        pieces = [items[start : start + size] for start in range(0, len(items), size)]
        return [result for part in self._pool.map(lambda piece: serially(function, piece), pieces) for result in part]
