"""Read and check multi-task data; the arguments of `fit` and `predict` become a `TaskData`."""

from .folds import TaskKFold

__all__ = ["TaskKFold"]
