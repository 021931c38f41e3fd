"""Where evaluations run."""

from .blas import SingleThreadedBLAS
from .threads import Each, Workers, count_workers, serially

__all__ = ["Each", "SingleThreadedBLAS", "Workers", "count_workers", "serially"]
