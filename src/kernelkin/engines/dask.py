"""Dask (`distributed`): store objects on the workers of a cluster, and send them again if a worker dies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from itertools import count
from typing import Any, ClassVar, NoReturn
from uuid import uuid4

from ..exceptions import ClusterError
from .threads import SingleThreadedBLAS

# How often lost objects are sent again before an error is raised.
MOST_REBUILDS = 10

# Status of a future if its object, or an object it depends on, was lost.
_LOST = ("cancelled", "lost")
# Seconds to wait for workers; a restarted worker needs time for its imports.
WAIT = 120


class Dask:
    """The workers of a Dask cluster, for a `distributed.Client`."""

    splits: ClassVar[bool] = True

    def __init__(self, client: Any) -> None:
        self.client = client
        # Stored here because a closed client has no address.
        self.address = getattr(getattr(client, "scheduler", None), "address", "an unknown address")

    @property
    def n_workers(self) -> int:
        """Number of jobs that run in parallel."""
        with self._explained():
            return max(1, sum(self.client.nthreads().values()))

    def hold(self, items: Sequence[Any]) -> DaskHeld:
        """Send objects to the workers."""
        return DaskHeld(self, items)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Submit a call and return its future; the worker must have the same version of kernelkin."""
        from .. import __version__

        key = f"kernelkin-{getattr(function, '__name__', 'call')}-{uuid4().hex}"
        with self._explained():
            return self.client.submit(_checked, __version__, function, *arguments, pure=False, key=key)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.refuse(error)

    def refuse(self, error: BaseException) -> NoReturn:
        """Raise a ClusterError for problems of the cluster; raise other errors unchanged."""
        from distributed import KilledWorker
        from distributed.comm import CommClosedError

        running, message = self.client.status == "running", None
        workers = self.client.scheduler_info(n_workers=-1)["workers"].values() if running else ()
        sizes = [int(worker["memory_limit"]) for worker in workers if worker.get("memory_limit")]
        limits = ", ".join(sorted({f"{size / 2**30:.3g} GiB" for size in sizes})) or "none"
        memory = f"(limit per worker: {limits}). Give workers more memory or fewer threads"
        if isinstance(error, KilledWorker):
            message = (
                f"workers died repeatedly while running the same task, {error.task!r}, most likely because they ran "
                f"out of memory {memory}"
            )
        elif type(error) is MemoryError:
            message = f"a worker ran out of memory: {error} {memory}"
        elif isinstance(error, ModuleNotFoundError) and str(error.name).startswith("kernelkin"):
            message = "the workers cannot import kernelkin: install the same version on every worker"
        elif isinstance(error, TimeoutError) and running:
            message = f"the Dask cluster at {self.address} has no workers: start workers and fit again"
        elif isinstance(error, CommClosedError | CommLost) or not running:
            message = f"lost the Dask scheduler at {self.address}: start a cluster, connect a new client and fit again"
        if message is not None:
            raise ClusterError(message) from None
        raise error


class DaskHeld:
    """Objects on workers. This process keeps a copy, so that objects lost with a worker can be sent again."""

    def __init__(self, engine: Dask, items: Sequence[Any]) -> None:
        self.engine, self.items = engine, items
        self.futures = self._send(items)

    def _send(self, items: Sequence[Any]) -> list[Any]:
        from distributed.comm import CommClosedError

        client = self.engine.client
        for attempt in count():
            try:
                return list(client.scatter(list(items), hash=False, timeout=WAIT))
            except CommClosedError as error:
                # A worker died while it received objects. The scheduler may need seconds to notice.
                if client.status != "running" or attempt == MOST_REBUILDS:
                    self.engine.refuse(error)
                time.sleep(0.1 * 2 ** min(attempt, 6))
            except Exception as error:
                self.engine.refuse(error)
        raise AssertionError("the loop ends with a result or an error")

    def call(self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return `function(object, *argument)` for each object and argument, in order."""
        futures: list[Any] = [None] * len(arguments)
        for attempt in count():
            # Submit lost calls again; only this process can send lost objects again.
            for i, given in enumerate(arguments):
                if futures[i] is None or futures[i].status in _LOST:
                    if self.futures[i].status in _LOST:
                        self.futures[i] = self._send(self.items[i : i + 1])[0]
                    futures[i] = self.engine.submit(function, self.futures[i], *given)
            try:
                return list(self.engine.client.gather(futures))
            except CancelledError as error:
                if self.engine.client.status != "running" or attempt == MOST_REBUILDS:
                    self.engine.refuse(CommLost(str(error)))
            except Exception as error:
                self.engine.refuse(error)
        raise AssertionError("the loop ends with a result or an error")


class CommLost(OSError):
    """Futures were cancelled because the scheduler was lost."""


def _checked(version: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function on a worker; raise if the worker has another version of kernelkin."""
    from .. import __version__

    if __version__ != version:
        from distributed import get_worker

        raise ClusterError(
            f"the worker at {get_worker().address} has kernelkin {__version__}, but this process has kernelkin "
            f"{version}: install the same version on all machines"
        )
    # Results are the same as on threads.
    with SingleThreadedBLAS():
        return function(*arguments)
