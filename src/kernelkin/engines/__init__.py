"""Where work runs: threads of this process, or the workers of a Dask cluster."""

from .dask import Dask, DaskHeld, read_engine
from .threads import Each, Jobs, SingleThreadedBLAS, Threads, Workers, count_workers, serially

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
