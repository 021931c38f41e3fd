"""Dask (`distributed`): blocks are futures on its workers, made anew from their rows where a worker dies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from itertools import count
from typing import Any, ClassVar, NoReturn
from uuid import uuid4

from ..exceptions import ClusterError
from .threads import with_one_thread

# Gram matrices of a block of tasks, in bytes: blocks are few enough for a scheduler and small beside a worker's memory.
BLOCK_BYTES = 1 << 26
# How often objects that were lost with their workers are made anew before the cluster is given up.
MOST_REBUILDS = 10

# What the status of a future is whose object, or what it is made from, was lost.
_LOST = ("cancelled", "lost")
# Seconds that a cluster without workers may take to have some again: a worker that is restarted imports much.
WAIT = 120


class Dask:
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
    ['dask', 'threads']
    """

    name: ClassVar[str] = "dask"
    splits: ClassVar[bool] = True

    def __init__(self, client: Any, block_bytes: int = BLOCK_BYTES, keep_grams: bool | None = None) -> None:
        self.client, self.block_bytes, self.keep_grams = client, block_bytes, keep_grams
        # Known also after the scheduler is gone.
        self.address = getattr(getattr(client, "scheduler", None), "address", "an unknown address")

    def __deepcopy__(self, memo: dict[int, Any]) -> Dask:
        # A client is a connection: copies share it.
        return self

    @property
    def n_workers(self) -> int:
        """How many pieces of work run at one time."""
        try:
            return max(1, sum(self.client.nthreads().values()))
        except Exception as error:
            self.refuse(error)

    def map(self, function: Callable[..., Any], items: Sequence[Any], shared: Any) -> list[Any]:
        """Return `function(shared, item)` of each item, in order. Functions and items must be picklable."""
        held = DaskHeld(self, [shared], broadcast=True)
        return held.call(function, [(item,) for item in items], [0] * len(items))

    def hold(self, items: Sequence[Any]) -> DaskHeld:
        """Send objects to workers, where they are worked on."""
        return DaskHeld(self, items)

    def worker_memory(self) -> list[int]:
        """Return the memory limit of each worker in bytes."""
        try:
            return self._limits()
        except Exception as error:
            self.refuse(error)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the future of a call on a worker of the same version of this library."""
        from .. import __version__

        key = f"kernelkin-{getattr(function, '__name__', 'call')}-{uuid4().hex}"
        try:
            return self.client.submit(_checked, __version__, function, *arguments, pure=False, key=key)
        except Exception as error:
            self.refuse(error)

    def refuse(self, error: BaseException) -> NoReturn:
        """Raise what went wrong with the cluster as one clear error; errors of the work itself as they are."""
        from distributed import KilledWorker
        from distributed.comm import CommClosedError

        limits = ", ".join(sorted({f"{limit / 2**30:.3g} GiB" for limit in self._limits()})) or "none"
        memory = (
            f"(limit of a worker: {limits}). Give workers more memory or fewer threads, or pass "
            "engine=Dask(client, block_bytes=...) with fewer bytes a block"
        )
        running, message = self.client.status == "running", None
        if isinstance(error, KilledWorker):
            message = (
                f"workers died again and again at the same piece of work, {error.task!r}: most likely for want of "
                f"memory {memory}"
            )
        elif type(error) is MemoryError:
            message = f"a worker has not enough memory, {error} {memory}"
        elif isinstance(error, ModuleNotFoundError) and str(error.name).startswith("kernelkin"):
            message = "the workers cannot import kernelkin: install the same version on all of them"
        elif isinstance(error, TimeoutError) and running:
            message = f"the Dask cluster at {self.address} has no workers: start some, and fit again"
        elif isinstance(error, CommClosedError | CommLost) or not running:
            message = (
                f"the Dask scheduler at {self.address} is gone: start a cluster, connect a new client, and fit again"
            )
        if message is not None:
            raise ClusterError(message) from None
        raise error

    def _limits(self) -> list[int]:
        """The memory limits of workers in bytes; none without a connection."""
        if self.client.status != "running":
            return []
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return [int(worker["memory_limit"]) for worker in workers.values() if worker.get("memory_limit")]


class DaskHeld:
    """Objects on workers. They are kept here, too: a worker that dies takes its copies with it.

    Parameters
    ----------
    engine : Dask
    items : the objects.
    broadcast : whether every worker gets all of them.
    """

    def __init__(self, engine: Dask, items: Sequence[Any], broadcast: bool = False) -> None:
        self.engine, self.items, self.broadcast = engine, items, broadcast
        self.futures = self._send(items)

    def _send(self, items: Sequence[Any]) -> list[Any]:
        try:
            options = {"broadcast": self.broadcast, "hash": False, "timeout": WAIT}
            return list(self.engine.client.scatter(list(items), **options))
        except Exception as error:
            self.engine.refuse(error)

    def call(
        self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], objects: Sequence[int] | None = None
    ) -> list[Any]:
        """Return `function(object, *argument)` of each object, in order; `objects` are positions of other objects."""
        objects = range(len(self.items)) if objects is None else objects
        futures: list[Any] = [None] * len(arguments)
        for attempt in count():
            # What is lost was made from objects that only this process can send again.
            for i, (k, given) in enumerate(zip(objects, arguments, strict=True)):
                if futures[i] is None or futures[i].status in _LOST:
                    if self.futures[k].status in _LOST:
                        self.futures[k] = self._send(self.items[k : k + 1])[0]
                    futures[i] = self.engine.submit(function, self.futures[k], *given)
            try:
                return list(self.engine.client.gather(futures))
            except CancelledError as error:
                if self.engine.client.status != "running" or attempt == MOST_REBUILDS:
                    self.engine.refuse(CommLost(str(error)))
            except Exception as error:
                self.engine.refuse(error)
        raise AssertionError("the loop ends by a result or an error")


class CommLost(OSError):
    """Futures were cancelled because the scheduler is gone."""


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
