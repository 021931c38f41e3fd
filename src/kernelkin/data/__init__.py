"""Multi-task data in its three forms, read and checked: what `fit` and `predict` are given becomes a `TaskData`."""

from .arrays import as_array, check_lengths, holds_dates, listing, missing, plain
from .folds import Fold, make_folds
from .forms import Columns, Form, Queries, TaskData, read_piece, read_queries, read_training
from .labels import check_labels, encode_tasks
from .row_blocks import RowBlocks, take_tasks
from .rows import read_rows, split_task_column
from .tables import Table, as_table, no_numbers
from .targets import LARGEST, check_targets, check_weights, task_fault
from .tiny import tiny_tasks

__all__ = [
    "LARGEST",
    "Columns",
    "Fold",
    "Form",
    "Queries",
    "RowBlocks",
    "Table",
    "TaskData",
    "as_array",
    "as_table",
    "check_labels",
    "check_lengths",
    "check_targets",
    "check_weights",
    "encode_tasks",
    "holds_dates",
    "listing",
    "make_folds",
    "missing",
    "no_numbers",
    "plain",
    "read_piece",
    "read_queries",
    "read_rows",
    "read_training",
    "split_task_column",
    "take_tasks",
    "task_fault",
    "tiny_tasks",
]
