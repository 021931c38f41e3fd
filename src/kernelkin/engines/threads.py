"""Engines of this machine: threads, and joblib's current backend. BLAS keeps to one thread while any fit runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, reduce
from importlib import import_module
from operator import add
from threading import Lock
from typing import Any, ClassVar, TypeVar

import numpy as np

from .base import Engine, Held


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

    def __init__(self) -> None:
        self._errors = np.errstate(under="ignore")

    def __enter__(self) -> SingleThreadedBLAS:
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


# A function and its arguments after the first, for each of some objects.
Step = tuple[Callable[..., Any], Sequence[tuple[Any, ...]]]

# Gram matrices of a block of tasks, in bytes: blocks are few enough for a scheduler and small beside a worker's memory.
BLOCK_BYTES = 1 << 26


@dataclass(frozen=True)
class Threads(Engine):
    """Threads of this process, `n_jobs` of them; all Gram matrices are in its memory."""

    name: ClassVar[str] = "threads"
    splits: ClassVar[bool] = False
    n_jobs: int | None = None
    block_bytes: int = BLOCK_BYTES
    keep_grams: bool | None = None

    @property
    def n_workers(self) -> int:
        return count_workers(self.n_jobs)

    def map(self, function: Callable[..., Any], items: Sequence[Any], shared: Any) -> list[Any]:
        with Workers(self.n_jobs) as workers:
            return workers.map(lambda item: function(shared, item), items)

    def hold(self, items: Sequence[Any]) -> Held:
        return Recipes(self, items)

    def share(self, value: Any) -> Any:
        return value

    def worker_memory(self) -> list[int]:
        return []


@dataclass(frozen=True)
class Joblib(Engine):
    """joblib's current backend: processes, or what `joblib.parallel_config` says.

    Its workers keep nothing from one call to the next: blocks are sent, and their Gram matrices built, for every
    evaluation.

    Parameters
    ----------
    n_jobs : int, optional
        Number of workers.
    block_bytes : int
        Gram matrices of a block of tasks, in bytes.
    keep_grams : bool, optional
        Has no effect: nothing is kept.

    Examples
    --------
    >>> import joblib
    >>> from kernelkin import MKMTRLRegressor
    >>> from kernelkin.datasets import make_related_tasks
    >>> from kernelkin.engines import Joblib
    >>> data = make_related_tasks(4, 2, 2, random_state=0)
    >>> with joblib.parallel_config("threading"):
    ...     model = MKMTRLRegressor(data.kernels, engine=Joblib(n_jobs=2))
    ...     model = model.fit(data.data, data.target, tasks=data.tasks)
    >>> model.kernel_weights_.shape
    (4, 2)
    """

    name: ClassVar[str] = "joblib"
    splits: ClassVar[bool] = True
    n_jobs: int | None = None
    block_bytes: int = BLOCK_BYTES
    keep_grams: bool | None = False

    @property
    def n_workers(self) -> int:
        return count_workers(self.n_jobs)

    def map(self, function: Callable[..., Any], items: Sequence[Any], shared: Any) -> list[Any]:
        from joblib import Parallel, delayed

        return Parallel(self.n_jobs)(delayed(with_one_thread)(function, shared, item) for item in items)

    def hold(self, items: Sequence[Any]) -> Held:
        return Recipes(self, items)

    def share(self, value: Any) -> Any:
        return value

    def worker_memory(self) -> list[int]:
        return []


@dataclass(frozen=True)
class Recipes(Held):
    """Objects that are made when they are needed, from items and steps."""

    engine: Threads | Joblib
    items: Sequence[Any]
    steps: tuple[Step, ...] = ()

    def __len__(self) -> int:
        return len(self.items)

    def derive(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Recipes:
        return Recipes(self.engine, self.items, (*self.steps, (function, arguments)))

    def pick(self, objects: Sequence[int]) -> Recipes:
        steps = [(function, [arguments[i] for i in objects]) for function, arguments in self.steps]
        return Recipes(self.engine, [self.items[i] for i in objects], tuple(steps))

    def call(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        steps = (*self.steps, (function, arguments))
        jobs = [(item, [(each, given[i]) for each, given in steps]) for i, item in enumerate(self.items)]
        return self.engine.map(_follow, jobs, None)

    def total(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Any:
        return reduce(add, self.call(function, arguments))


def with_one_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function while BLAS keeps to one thread, as it does in every fit: results are then the same."""
    with SingleThreadedBLAS():
        return function(*arguments)


def _follow(shared: None, job: tuple[Any, Sequence[tuple[Callable[..., Any], tuple[Any, ...]]]]) -> Any:
    """Apply steps to an item, one after the other."""
    item, steps = job
    return reduce(lambda made, step: step[0](made, *step[1]), steps, item)
