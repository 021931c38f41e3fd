"""The loop over machines: threads, because the work inside (BLAS, compiled loops) releases the interpreter lock.

Inside a `Workers` block BLAS keeps to one thread: many small calls suffer badly from oversubscription, and a fixed
number of threads per call makes results the same to the bit for any `n_jobs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# How a room runs its loop over independent pieces: `each(function, items) -> list of results, in order`.
Each = Callable[[Callable[[Any], Any], Iterable[Any]], list[Any]]

# Runs of items that a thread is given in turn: few, as handing one over takes as long as a small machine, but enough
# for threads to end together.
_TURNS = 8


def serially(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """The plain loop."""
    return [function(item) for item in items]


@cache
def _controller() -> Any:
    """Finds the BLAS libraries of this process, once: a search takes as long as a small fit."""
    from threadpoolctl import ThreadpoolController

    import_module("scipy.linalg")  # it brings a BLAS of its own
    return ThreadpoolController()


def count_workers(n_jobs: int | None) -> int:
    """How many threads `n_jobs` stands for."""
    from joblib import effective_n_jobs

    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0: 1 is one thread, -1 as many as there are processors")
    return int(effective_n_jobs(n_jobs))


class Workers:
    """`with Workers(n_jobs) as workers: workers.map(function, items)`, in order, by `n_jobs` threads."""

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = count_workers(n_jobs)
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Workers:
        self._limits = _controller().limit(limits=1, user_api="blas")
        self._pool = ThreadPoolExecutor(self.n_jobs) if self.n_jobs > 1 else None
        return self

    def __exit__(self, *exception: object) -> None:
        self._limits.restore_original_limits()
        if self._pool is not None:
            self._pool.shutdown()

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        if self._pool is None:
            return serially(function, items)
        items = list(items)
        size = -(-len(items) // (_TURNS * self.n_jobs)) or 1
        pieces = [items[start : start + size] for start in range(0, len(items), size)]
        return [result for part in self._pool.map(lambda piece: serially(function, piece), pieces) for result in part]
