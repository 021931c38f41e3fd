"""A Dask cluster of two processes for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

# Worker processes import much, and a busy machine may take longer than Dask expects.
PATIENCE = {
    "distributed.comm.timeouts.connect": "300s",
    "distributed.deploy.lost-worker-timeout": "300s",
    "distributed.worker.multiprocessing-method": "forkserver",
}


@contextmanager
def two_processes(memory_limit: str = "2GiB") -> Iterator:
    """A client of a cluster of two processes."""
    import dask
    from distributed import Client, LocalCluster

    with dask.config.set(PATIENCE):
        options = {"dashboard_address": ":0", "silence_logs": 50, "memory_limit": memory_limit}
        with LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster, Client(cluster) as client:
            yield client
