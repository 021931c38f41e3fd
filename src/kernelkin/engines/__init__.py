"""Where work runs: threads of this process, or the workers of a Dask cluster."""

from .dask import Dask, DaskHeld
from .threads import Each, Jobs, SingleThreadedBLAS, Threads, Workers, count_workers, read_engine, serially

__all__ = [
    "Dask",
    "DaskHeld",
    "Each",
    "Jobs",
    "SingleThreadedBLAS",
    "Threads",
    "Workers",
    "count_workers",
    "read_engine",
    "serially",
]
