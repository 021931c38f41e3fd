"""Where evaluations run."""

from .threads import Each, Workers, count_workers, serially

__all__ = ["Each", "Workers", "count_workers", "serially"]
