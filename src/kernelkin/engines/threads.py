"""Threads of this process. BLAS keeps to one thread while any fit runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

if TYPE_CHECKING:
    from .dask import Dask


@cache
def _controller() -> Any:
    """Find the BLAS libraries of this process, once: a search takes as long as a small fit."""
    from threadpoolctl import ThreadpoolController

    import_module("scipy.linalg")  # it brings a BLAS of its own
    return ThreadpoolController().select(user_api="blas")


def _take_control() -> None:
    """Let any thread set limits next.

    From release 3.7 on, threadpoolctl lets one thread at a time set the number of threads, and silently ignores all
    others: the fits that overlap may begin and end in different threads.
    """
    for library in _controller().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


class SingleThreadedBLAS:
    """`with SingleThreadedBLAS():` keeps BLAS to one thread; blocks may nest and overlap in several threads.

    Numbers that underflow are zero inside, as they are by NumPy's default, whatever a user's `np.seterr` says.
    """

    # Shared by all blocks of the process.
    lock = Lock()
    count = 0
    limiter: Any = None

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
        """Start anew, as a forked child must: it has none of the parent's other threads."""
        cls.lock, cls.count, cls.limiter = Lock(), 0, None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SingleThreadedBLAS.reset)


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


class Workers(SingleThreadedBLAS):
    """`with Workers(n_jobs) as workers: workers.map(function, items)`, in order, on `n_jobs` threads.

    Inside the block BLAS keeps to one thread.
    """

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = count_workers(n_jobs)
        self._pool = ThreadPoolExecutor(self.n_jobs) if self.n_jobs > 1 else None

    def __exit__(self, *exception: Any) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        super().__exit__(*exception)

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Apply a function to every item."""
        if self._pool is None:
            return serially(function, items)
        items = list(items)
        size = -(-len(items) // (_PIECES_PER_THREAD * self.n_jobs)) or 1
        pieces = [items[start : start + size] for start in range(0, len(items), size)]
        return [result for part in self._pool.map(lambda piece: serially(function, piece), pieces) for result in part]


@dataclass(frozen=True)
class Threads:
    """Threads of this process, `n_jobs` of them; all Gram matrices are in its memory.

    Attributes
    ----------
    name : its key in `ENGINES`.
    splits : whether a fit is split into blocks of tasks, which the engine holds.
    """

    name: ClassVar[str] = "threads"
    splits: ClassVar[bool] = False
    n_jobs: int | None = None

    @property
    def n_workers(self) -> int:
        """How many pieces of work run at one time."""
        return count_workers(self.n_jobs)

    def map(self, function: Callable[..., Any], items: Sequence[Any], shared: Any) -> list[Any]:
        """Return `function(shared, item)` of each item, in order."""
        with Workers(self.n_jobs) as workers:
            return workers.map(lambda item: function(shared, item), items)


def read_engine(engine: Any, n_jobs: int | None = None) -> Threads | Dask:
    """Return the engine that a user means: "threads", a Dask client, or an engine."""
    if engine is None or (isinstance(engine, str) and engine == Threads.name):
        return Threads(n_jobs)
    if hasattr(engine, "splits"):
        return engine
    if hasattr(engine, "submit") and hasattr(engine, "scatter"):
        from .dask import Dask  # it imports this module

        return Dask(engine)
    raise ValueError(f'engine must be "threads", a Dask client or an engine, got {engine!r}')


def with_one_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function while BLAS keeps to one thread, as it does in every fit: results are then the same."""
    with SingleThreadedBLAS():
        return function(*arguments)
