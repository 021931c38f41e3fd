"""Dask (`distributed`): blocks are futures on its workers, made anew from their rows where a worker dies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from itertools import count
from typing import Any, ClassVar, NoReturn
from uuid import uuid4

from ..exceptions import ClusterError
from .base import Engine, Held
from .local import BLOCK_BYTES, with_one_thread

# How often objects that were lost with their workers are made anew before the cluster is given up.
MOST_REBUILDS = 10


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
    """

    name: ClassVar[str] = "dask"
    splits: ClassVar[bool] = True
    client: Any
    block_bytes: int = BLOCK_BYTES
    keep_grams: bool | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Dask:
        # A client is a connection: copies share it.
        return self

    def map(self, function: Callable[..., Any], items: Sequence[Any], shared: Any) -> list[Any]:
        held = _Scattered(self, [shared], broadcast=True)
        return _Results(self, held, function, [(item,) for item in items], [0] * len(items)).wait()

    def hold(self, items: Sequence[Any]) -> Held:
        return _Scattered(self, items)

    def hold_futures(self, futures: Sequence[Any]) -> Held:
        """Hold what futures stand for; the scheduler knows how to make it anew."""
        return DaskHeld(self, list(futures))

    def worker_memory(self) -> list[int]:
        workers = self._workers()
        return [int(worker["memory_limit"]) for worker in workers.values() if worker.get("memory_limit")]

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the future of a call on a worker of the same version of this library."""
        from .. import __version__

        name = f"kernelkin-{getattr(function, '__name__', 'call')}-{uuid4().hex}"
        try:
            return self.client.submit(_checked, __version__, function, *arguments, key=name, pure=False)
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
        gone = isinstance(error, CommClosedError | TimeoutError | OSError) or self.client.status != "running"
        if gone and not isinstance(error, MemoryError | ClusterError):
            raise ClusterError(
                f"the Dask scheduler at {self._address()} is gone: start a cluster, connect a new client, and fit again"
            ) from None
        raise error

    def _workers(self) -> dict[str, Any]:
        try:
            return self.client.scheduler_info(n_workers=-1)["workers"]
        except Exception as error:
            self.refuse(error)

    def _limits(self) -> list[int]:
        if self.client.status != "running":
            return []
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return [int(worker["memory_limit"]) for worker in workers.values() if worker.get("memory_limit")]

    def _address(self) -> str:
        scheduler = getattr(self.client, "scheduler", None)
        return str(getattr(scheduler, "address", "an unknown address"))


class DaskHeld(Held):
    """Objects behind futures."""

    def __init__(self, engine: Dask, futures: list[Any]) -> None:
        self.engine, self.futures = engine, futures

    def __len__(self) -> int:
        return len(self.futures)

    def renew(self, i: int) -> None:
        """Make an object anew that was lost with its worker; here the scheduler does."""

    def derive(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> DaskHeld:
        return _Derived(self, function, arguments)

    def call(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        return _Results(self.engine, self, function, arguments, list(range(len(self)))).wait()


class _Scattered(DaskHeld):
    """Items of this process, sent to workers. They are kept here: a worker that dies takes its copies with it."""

    def __init__(self, engine: Dask, items: Sequence[Any], broadcast: bool = False) -> None:
        self._items, self._broadcast = items, broadcast
        super().__init__(engine, self._send(engine, items))

    def renew(self, i: int) -> None:
        if self.futures[i].status != "finished":
            self.futures[i] = self._send(self.engine, self._items[i : i + 1])[0]

    def _send(self, engine: Dask, items: Sequence[Any]) -> list[Any]:
        try:
            return list(engine.client.scatter(list(items), broadcast=self._broadcast, hash=False))
        except Exception as error:
            engine.refuse(error)


class _Derived(DaskHeld):
    """Objects made on workers from other ones."""

    def __init__(self, parent: DaskHeld, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> None:
        self._parent, self._function, self._arguments = parent, function, arguments
        super().__init__(parent.engine, [])
        self.futures = [self._make(i) for i in range(len(parent))]

    def renew(self, i: int) -> None:
        if self.futures[i].status in ("cancelled", "lost"):
            self._parent.renew(i)
            self.futures[i] = self._make(i)

    def _make(self, i: int) -> Any:
        return self.engine.submit(self._function, self._parent.futures[i], *self._arguments[i])


class _Results:
    """Calls of a function on held objects, repeated where the objects were lost with their workers."""

    def __init__(
        self,
        engine: Dask,
        held: DaskHeld,
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
        objects: Sequence[int],
    ) -> None:
        self._engine, self._held, self._function = engine, held, function
        self._arguments, self._objects = arguments, objects
        self._futures = [self._submit(j) for j in range(len(arguments))]

    def wait(self) -> list[Any]:
        """Return the results in order."""
        for attempt in count():
            try:
                return list(self._engine.client.gather(self._futures))
            except CancelledError as error:
                if self._engine.client.status != "running" or attempt == MOST_REBUILDS:
                    self._engine.refuse(CommLost(str(error)))
            except Exception as error:
                self._engine.refuse(error)
            for j, future in enumerate(self._futures):
                if future.status in ("cancelled", "lost"):
                    self._held.renew(self._objects[j])
                    self._futures[j] = self._submit(j)
        raise AssertionError("the loop ends by a result or an error")

    def _submit(self, j: int) -> Any:
        return self._engine.submit(self._function, self._held.futures[self._objects[j]], *self._arguments[j])


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
