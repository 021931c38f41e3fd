"""Features of tasks from a file: `--task-features` of `kernelkin fit`, `compare` and `predict`."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import TYPE_CHECKING

from ..tables import TableSchema
from ..tables.files import read_table
from ..tables.schema import check_columns
from ..tables.text import STDIN, TextFormat

if TYPE_CHECKING:
    from pandas import DataFrame

# The column that names the tasks where these are several targets.
TASK = "task"


def add_argument(parser: ArgumentParser, purpose: str) -> None:
    parser.add_argument(
        "--task-features",
        metavar="FILE",
        help=f"a table with a row for each task, which the task's column names ({TASK!r} where targets are tasks): "
        f"{purpose}",
    )


def read_file(path: str, task: str | None, form: TextFormat) -> DataFrame:
    """Read the table of the tasks; its column `task`, or "task" where that is None, names them."""
    if path == STDIN:
        raise ValueError("--task-features must be a file: standard input is for the rows")
    frame = read_table(path, task or TASK, (), form)
    try:
        check_columns(frame, [task or TASK])
    except ValueError as error:
        raise ValueError(f"--task-features {path}: {error}") from error
    return frame


def by_task(frame: DataFrame, schema: TableSchema) -> DataFrame:
    """Return the features with the tasks as index, labelled as those of a table with this schema."""
    name = schema.task or TASK
    labels = schema.tasks(frame)
    if labels is None:
        labels = frame[name].astype(str).to_numpy(dtype=str)
    return frame.drop(columns=name).set_axis(labels, axis="index")
