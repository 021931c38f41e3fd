"""Engines of this machine: threads, and whatever joblib's current backend is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, ClassVar

from .base import Engine, Held
from .blas import SingleThreadedBLAS
from .threads import Workers, count_workers

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
