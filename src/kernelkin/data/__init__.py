"""Read and check multi-task data; the arguments of `fit` and `predict` become a `TaskData`."""

from .arrays import Table, as_array, as_table, check_lengths, listing, missing, no_numbers, plain
from .checks import (
    check_labels,
    check_precomputed_queries,
    encode_tasks,
    read_rows,
    split_task_columns,
)
from .folds import Fold, TaskKFold, make_folds
from .forms import (
    Form,
    Queries,
    TaskData,
    WideTargets,
    read_queries,
    read_training,
    settle_tiny_tasks,
    take_tasks,
    tiny_tasks,
)

__all__ = [
    "Fold",
    "Form",
    "Queries",
    "Table",
    "TaskData",
    "TaskKFold",
    "WideTargets",
    "as_array",
    "as_table",
    "check_labels",
    "check_lengths",
    "check_precomputed_queries",
    "encode_tasks",
    "listing",
    "make_folds",
    "missing",
    "no_numbers",
    "plain",
    "read_queries",
    "read_rows",
    "read_training",
    "settle_tiny_tasks",
    "split_task_columns",
    "take_tasks",
    "tiny_tasks",
]
