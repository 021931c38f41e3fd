"""Multi-task data in its three forms, read and checked: what `fit` and `predict` are given becomes a `TaskData`."""

from .arrays import as_array, check_lengths, holds_dates, listing, missing, plain
from .folds import Fold, make_folds
from .forms import Columns, Form, Grouping, Queries, TaskData, read_queries, read_training, take_tasks
from .labels import check_labels, encode_tasks
from .rows import check_precomputed_queries, check_rows, read_rows, split_task_columns
from .tables import Table, as_table, no_numbers
from .targets import LARGEST, check_targets, check_weights, task_fault
from .tiny import settle_tiny_tasks, tiny_tasks

__all__ = [
    "LARGEST",
    "Columns",
    "Fold",
    "Form",
    "Grouping",
    "Queries",
    "Table",
    "TaskData",
    "as_array",
    "as_table",
    "check_labels",
    "check_lengths",
    "check_precomputed_queries",
    "check_rows",
    "check_targets",
    "check_weights",
    "encode_tasks",
    "holds_dates",
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
    "task_fault",
    "tiny_tasks",
]
