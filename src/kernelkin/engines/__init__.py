"""Where work runs: threads of this process, or the workers of a Dask cluster."""

from .dask import Dask
from .threads import Jobs, SingleThreadedBLAS, Threads, Workers, count_workers, read_engine, serially

__all__ = ["Dask", "Jobs", "SingleThreadedBLAS", "Threads", "Workers", "count_workers", "read_engine", "serially"]
