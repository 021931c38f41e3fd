"""A Dask cluster of two processes for tests, and data for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pandas as pd

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


def shops(n_tasks: int = 12, seed: int = 0) -> pd.DataFrame:
    """Rows of related tasks of different sizes, in random order."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(8, 20, size=n_tasks)
    codes = np.repeat(np.arange(n_tasks), sizes)
    X = rng.normal(size=(len(codes), 3))
    y = np.sin(X[:, 0]) + 0.3 * (codes % 3) * X[:, 1] + 0.2 * rng.normal(size=len(codes))
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["shop"] = [f"shop {code:02d}" for code in codes]
    frame["sales"], frame["rising"] = y, np.where(y > 0, "yes", "no")
    frame["weight"] = rng.uniform(0.5, 2.0, size=len(codes))
    return frame.sample(frac=1.0, random_state=seed)
