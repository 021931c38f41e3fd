"""`kernelkin score`: how well a saved model predicts a labelled table."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..paper.model_selection.scoring import r2, roc_auc
from ..tables.encoder import check_names
from ..tables.files import TextFormat, display_name, read_table
from .evaluation import as_text, mean, shorten
from .problem import DATA_HELP, add_format_arguments, text_format
from .terminal import Terminal

if TYPE_CHECKING:
    from pandas import DataFrame

    from ..storage import SavedModel

HELP = "score a saved model on a labelled table, task by task"
EXAMPLES = (
    "  kernelkin score sales.kin later.csv\n"
    "  kernelkin score sales.kin later.csv --json\n\n"
    "regression: R², root mean squared error and mean absolute error, in the units of the target\n"
    "classification: accuracy, and of two classes the area under the ROC curve (AUC)"
)

_TITLES = {"r2": "R²", "rmse": "RMSE", "mae": "MAE", "auc": "AUC"}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a file saved by `kernelkin fit`")
    parser.add_argument("data", metavar="DATA", help=DATA_HELP)
    add_format_arguments(parser)
    parser.add_argument("--all", action="store_true", help="show every task, even if there are many")
    parser.add_argument("--json", action="store_true", help="print one JSON object, for scripts")


def run(arguments: Namespace, terminal: Terminal) -> None:
    from ..storage import load_model

    if arguments.json:
        terminal.use_json()
    saved = load_model(arguments.model)
    if saved.schema is None:
        raise ValueError(f"{arguments.model} was saved without the schema of a table: score it from Python")
    frame, left_out = read_labelled(arguments.data, saved, text_format(arguments))
    try:
        scores = table_scores(saved, frame)
    except ValueError as error:
        raise ValueError(f"{display_name(arguments.data)}: {error}") from error
    names = list(next(iter(scores.values())))
    means = {name: mean([row[name] for row in scores.values()]) for name in names[1:]}
    if left_out:
        terminal.say(f"Left out {left_out} rows without a task or a target.")
    terminal.say(f"{saved.schema.title}: {len(frame)} rows of {len(scores)} tasks.")
    rows = [
        [str(task), str(int(row["rows"])), *(as_text(row[name]) for name in names[1:])] for task, row in scores.items()
    ]
    total = ["mean", "", *(as_text(value) for value in means.values())]
    terminal.table(
        ["task", *(_TITLES.get(name, name) for name in names)], [*(rows if arguments.all else shorten(rows)), [], total]
    )
    terminal.emit(
        {"model": arguments.model, "data": arguments.data, "rows": len(frame), "means": means, "tasks": scores}
    )


def read_labelled(path: str, saved: SavedModel, form: TextFormat) -> tuple[DataFrame, int]:
    """The rows that have a task and a target, and the number of the others."""
    schema = saved.schema
    assert schema is not None
    form = TextFormat(form.separator, form.encoding, schema.decimal if form.decimal == "." else form.decimal)
    frame = read_table(path, schema.task, schema.target_names, form)
    try:
        check_names(frame.columns, [*schema.target_names, *([] if schema.task is None else [schema.task])])
    except ValueError as error:
        raise ValueError(f"{display_name(path)}: {error}") from error
    gone = frame[list(schema.target_names)].isna().all(axis=1)
    gone |= frame[schema.task].isna() if schema.task is not None else False
    if gone.all():
        raise ValueError(f"{display_name(path)}: no row has a task and a target")
    return frame[~gone], int(gone.sum())


def table_scores(saved: SavedModel, frame: DataFrame) -> dict[Any, dict[str, float]]:
    """The number of rows and the scores of each task, in the units of the table."""
    schema = saved.schema
    assert schema is not None
    predicted, true = saved.predict(frame), schema.restore(np.asarray(schema.targets(frame)))
    values = None if schema.regression else _decision_values(saved, frame)
    found = {}
    for task, rows, column in _tasks(saved, frame):
        y, p = (np.asarray(part[rows] if part.ndim == 1 else part[rows, column]) for part in (true, predicted))
        if schema.regression:
            found[task] = _regression_scores(y, p)
        else:
            own = None if values is None else values[rows] if values.ndim == 1 else values[rows, column]
            found[task] = _class_scores(y, p, own, saved.model.classes_)
    return found


def _tasks(saved: SavedModel, frame: DataFrame) -> Iterator[tuple[Any, np.ndarray, int]]:
    """Each task, its rows, and where every target is a task the column of its target."""
    schema = saved.schema
    assert schema is not None
    tasks = schema.tasks(frame)
    if tasks is None:
        for column, name in enumerate(schema.target_names):
            yield name, np.flatnonzero(frame[name].notna()), column
        return
    for task in np.unique(tasks).tolist():
        yield task, np.flatnonzero(tasks == task), 0


def _decision_values(saved: SavedModel, frame: DataFrame) -> np.ndarray | None:
    """The values behind the classes, where all tasks have the same two."""
    schema = saved.schema
    assert schema is not None
    values = saved.model.decision_function(schema.encode(frame), tasks=schema.tasks(frame))
    return values if values.ndim == (2 if schema.task is None else 1) and len(saved.model.classes_) == 2 else None


def _regression_scores(y: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    error, ones = y - predicted, np.ones(len(y))
    return {
        "rows": len(y),
        "r2": r2(y, predicted, ones),
        "rmse": float(np.sqrt(np.mean(error**2))),
        "mae": float(np.mean(np.abs(error))),
    }


def _class_scores(
    y: np.ndarray, predicted: np.ndarray, values: np.ndarray | None, classes: np.ndarray
) -> dict[str, float]:
    found = {"rows": len(y), "accuracy": float(np.mean(y == predicted))}
    if values is not None:
        found["auc"] = roc_auc(y == classes[1], values, np.ones(len(y)))
    return found
