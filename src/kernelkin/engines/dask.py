"""Dask (`distributed`): blocks are futures on its workers, made anew from their rows where a worker dies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from functools import reduce
from itertools import count
from operator import add
from typing import Any, ClassVar, NoReturn
from uuid import uuid4

from ..exceptions import ClusterError
from .base import Engine, Held
from .threads import BLOCK_BYTES, with_one_thread

# How often objects that were lost with their workers are made anew before the cluster is given up.
MOST_REBUILDS = 10

# What the status of a future is whose object, or what it is made from, was lost.
_LOST = ("cancelled", "lost")
# Terms of a sum that are added up by one call.
_TERMS = 4
# Seconds that a cluster without workers may take to have some again: a worker that is restarted imports much.
WAIT = 120


@dataclass(frozen=True)
class Dask(Engine):
    """The workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client
    block_bytes : int
        Gram matrices of a block of tasks, in bytes. A block is one Dask task of an evaluation.
    keep_grams : bool, optional
        Whether workers keep Gram matrices from one evaluation to the next or build them anew; None: they keep them
        where half of their memory is enough.

    Examples
    --------
    On a cluster, in smaller blocks than by default::

        from distributed import Client

        engine = Dask(Client("tcp://scheduler:8786"), block_bytes=2**24)
        model = MKMTRLRegressor(engine=engine).fit(X, y, tasks=tasks)

    >>> from kernelkin.engines import ENGINES
    >>> sorted(ENGINES)
    ['dask', 'joblib', 'threads']
    """

    name: ClassVar[str] = "dask"
    splits: ClassVar[bool] = True
    client: Any
    block_bytes: int = BLOCK_BYTES
    keep_grams: bool | None = None
    # Known also after the scheduler is gone.
    address: str = field(init=False, default="an unknown address", compare=False)

    def __post_init__(self) -> None:
        scheduler = getattr(self.client, "scheduler", None)
        if scheduler is not None:
            object.__setattr__(self, "address", scheduler.address)

    def __deepcopy__(self, memo: dict[int, Any]) -> Dask:
        # A client is a connection: copies share it.
        return self

    @property
    def n_workers(self) -> int:
        try:
            return max(1, sum(self.client.nthreads().values()))
        except Exception as error:
            self.refuse(error)

    def map(self, function: Callable[..., Any], items: Sequence[Any], shared: Any) -> list[Any]:
        held = self.hold([shared], broadcast=True)
        return held.pick([0] * len(items)).call(function, [(item,) for item in items])

    def hold(self, items: Sequence[Any], broadcast: bool = False) -> DaskHeld:
        # Items are kept here, too: a worker that dies takes its copies with it.
        def send(some: Sequence[Any]) -> list[Any]:
            try:
                return list(self.client.scatter(list(some), broadcast=broadcast, hash=False, timeout=WAIT))
            except Exception as error:
                self.refuse(error)

        return DaskHeld(self, send(items), lambda i: send(items[i : i + 1])[0])

    def hold_futures(self, futures: Sequence[Any]) -> Held:
        """Hold what futures stand for; the scheduler knows how to make it anew."""
        return DaskHeld(self, list(futures))

    def share(self, value: Any) -> Any:
        # The result of a call, not a scattered object: the scheduler can make it anew when workers die.
        return self.submit(_same, value)

    def worker_memory(self) -> list[int]:
        try:
            return self._limits()
        except Exception as error:
            self.refuse(error)

    def submit(self, function: Callable[..., Any], *arguments: Any, priority: int = 0) -> Any:
        """Return the future of a call on a worker of the same version of this library."""
        from .. import __version__

        options = {"key": f"kernelkin-{getattr(function, '__name__', 'call')}-{uuid4().hex}", "priority": priority}
        try:
            return self.client.submit(_checked, __version__, function, *arguments, pure=False, **options)
        except Exception as error:
            self.refuse(error)

    def refuse(self, error: BaseException) -> NoReturn:
        """Raise what went wrong with the cluster as one clear error; errors of the work itself as they are."""
        from distributed import KilledWorker
        from distributed.comm import CommClosedError

        limits = ", ".join(sorted({f"{limit / 2**30:.3g} GiB" for limit in self._limits()})) or "none"
        if isinstance(error, KilledWorker):
            raise ClusterError(
                f"workers died again and again at the same piece of work, {error.task!r}: most likely for want of "
                f"memory (limit of a worker: {limits}). Give workers more memory or fewer threads, or pass "
                "engine=Dask(client, block_bytes=...) with fewer bytes a block"
            ) from None
        if isinstance(error, MemoryError) and type(error) is MemoryError:
            raise ClusterError(
                f"a worker has not enough memory (limit of a worker: {limits}): {error}. Give workers more memory or "
                "fewer threads, or pass engine=Dask(client, block_bytes=...) with fewer bytes a block"
            ) from None
        if isinstance(error, ModuleNotFoundError) and str(error.name).startswith("kernelkin"):
            raise ClusterError("the workers cannot import kernelkin: install the same version on all of them") from None
        if isinstance(error, TimeoutError) and self.client.status == "running":
            raise ClusterError(
                f"the Dask cluster at {self.address} has no workers: start some, and fit again"
            ) from None
        if isinstance(error, CommClosedError | CommLost) or self.client.status != "running":
            raise ClusterError(
                f"the Dask scheduler at {self.address} is gone: start a cluster, connect a new client, and fit again"
            ) from None
        raise error

    def _limits(self) -> list[int]:
        """The memory limits of workers in bytes; none without a connection."""
        if self.client.status != "running":
            return []
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return [int(worker["memory_limit"]) for worker in workers.values() if worker.get("memory_limit")]


class DaskHeld(Held):
    """Objects behind futures.

    Parameters
    ----------
    engine : Dask
    futures : list
    remake : callable, optional
        From a position to a new future of an object that was lost with its worker; None where the scheduler knows how
        to make objects anew.
    """

    def __init__(self, engine: Dask, futures: list[Any], remake: Callable[[int], Any] | None = None) -> None:
        self.engine, self.futures, self._remake = engine, futures, remake

    def __len__(self) -> int:
        return len(self.futures)

    def renewed(self, i: int) -> Any:
        """The future of an object, made anew where it was lost."""
        if self._remake is not None and self.futures[i].status in _LOST:
            self.futures[i] = self._remake(i)
        return self.futures[i]

    def derive(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> DaskHeld:
        def make(i: int) -> Any:
            return self.engine.submit(function, self.renewed(i), *arguments[i])

        futures = [make(i) for i in range(len(self))]
        return DaskHeld(self.engine, futures, None if self._remake is None else make)

    def pick(self, objects: Sequence[int]) -> DaskHeld:
        futures = [self.futures[i] for i in objects]
        return DaskHeld(self.engine, futures, None if self._remake is None else lambda i: self.renewed(objects[i]))

    def call(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        pairs = zip(self.futures, arguments, strict=True)
        futures = [self.engine.submit(function, future, *given) for future, given in pairs]
        for attempt in count():
            try:
                return list(self.engine.client.gather(futures))
            except CancelledError as error:
                if self.engine.client.status != "running" or attempt == MOST_REBUILDS:
                    self.engine.refuse(CommLost(str(error)))
            except Exception as error:
                self.engine.refuse(error)
            # What is lost was made from objects that only this process can send again.
            for i, future in enumerate(futures):
                if future.status in _LOST:
                    futures[i] = self.engine.submit(function, self.renewed(i), *arguments[i])
        raise AssertionError("the loop ends by a result or an error")

    def total(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Any:
        for attempt in count():
            try:
                return self._sum(function, arguments).result()
            except CancelledError as error:
                if self.engine.client.status != "running" or attempt == MOST_REBUILDS:
                    self.engine.refuse(CommLost(str(error)))
            except Exception as error:
                self.engine.refuse(error)
            for i in range(len(self)):
                self.renewed(i)
        raise AssertionError("the loop ends by a result or an error")

    def _sum(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> Any:
        """The future of a sum over all objects: first over those of each worker, so that few of its parts travel."""
        holders = self.engine.client.who_has(self.futures)
        order = sorted(range(len(self)), key=lambda i: (*holders.get(self.futures[i].key, ()), "")[0])
        parts = [self.engine.submit(function, self.futures[i], *arguments[i]) for i in order]
        while len(parts) > 1:
            runs = [parts[start : start + _TERMS] for start in range(0, len(parts), _TERMS)]
            # Before further terms are made: few of them are in memory at one time.
            parts = [run[0] if len(run) == 1 else self.engine.submit(_add, *run, priority=1) for run in runs]
        return parts[0]


class CommLost(OSError):
    """Futures were cancelled because the scheduler is gone."""


def _same(value: Any) -> Any:
    return value


def _add(*terms: Any) -> Any:
    return reduce(add, terms)


def _checked(version: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function on a worker, if it has the same version of this library."""
    from .. import __version__

    if __version__ != version:
        from distributed import get_worker

        raise ClusterError(
            f"the worker at {get_worker().address} has version {__version__} of kernelkin, and this process version "
            f"{version}: install the same version on all machines"
        )
    return with_one_thread(function, *arguments)
