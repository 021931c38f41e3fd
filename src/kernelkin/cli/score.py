"""`kernelkin score`: score a saved model on a labelled table."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..paper.model_selection.scoring import r2, roc_auc
from ..tables.encoder import check_names
from ..tables.files import TextFormat, display_name, read_table
from .evaluation import as_text, mean, read_entries, shorten
from .problem import DATA_HELP, add_format_arguments, in_file, text_format
from .terminal import Terminal

if TYPE_CHECKING:
    from pandas import DataFrame

    from ..storage.model_files import SavedModel

HELP = "score a saved model on a labelled table, task by task"
EXAMPLES = (
    "  kernelkin score sales.kin later.csv\n"
    "  kernelkin score sales.kin later.csv --json\n\n"
    "regression: R², root mean squared error and mean absolute error, in the units of the target\n"
    "classification: accuracy, and for two classes the area under the ROC curve (AUC)"
)
_TITLES = {"r2": "R²", "rmse": "RMSE", "mae": "MAE", "auc": "AUC"}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a file saved by `kernelkin fit`")
    parser.add_argument("data", metavar="DATA", help=DATA_HELP)
    add_format_arguments(parser)
    parser.add_argument("--all", action="store_true", help="show every task, even if there are many")
    parser.add_argument("--json", action="store_true", help="print one JSON object, for scripts")


def run(arguments: Namespace, terminal: Terminal) -> None:
    from ..storage.model_files import load_model

    if arguments.json:
        terminal.use_json()
    saved = load_model(arguments.model)
    if saved.schema is None:
        raise ValueError(f"{arguments.model} was saved without the schema of a table: score it from Python")
    frame, left_out = read_labelled(arguments.data, saved, text_format(arguments))
    with in_file(arguments.data):
        scores = table_scores(saved, frame)
    if left_out:
        terminal.say(f"Left out {left_out} rows without a task or a target.")
    terminal.say(f"{saved.schema.title}: {len(frame)} rows of {len(scores)} tasks.")
    names = list(next(iter(scores.values())))
    means = {name: mean([row[name] for row in scores.values()]) for name in names[1:]}
    rows = [[str(task), str(row["rows"]), *(as_text(row[name]) for name in names[1:])] for task, row in scores.items()]
    total = ["mean", "", *map(as_text, means.values())]
    shown = rows if arguments.all else shorten(rows)
    terminal.table(["task", *(_TITLES.get(name, name) for name in names)], [*shown, [], total])
    found = {"model": arguments.model, "data": arguments.data, "rows": len(frame)}
    terminal.emit({**found, "means": means, "tasks": scores})


def read_labelled(path: str, saved: SavedModel, form: TextFormat) -> tuple[DataFrame, int]:
    """Return the rows that have a task and a target, and the number of the others."""
    schema = saved.schema
    assert schema is not None
    form = TextFormat(form.separator, form.encoding, schema.decimal if form.decimal == "." else form.decimal)
    frame = read_table(path, schema.task, schema.target_names, form)
    with in_file(path):
        check_names(frame.columns, [*schema.target_names, *([] if schema.task is None else [schema.task])])
        # Refuses bad cells before rows are left out, while row numbers are those of the file.
        schema.targets(frame), schema.encode(frame)
    gone = frame[list(schema.target_names)].isna().all(axis=1)
    gone |= frame[schema.task].isna() if schema.task is not None else False
    if gone.all():
        raise ValueError(f"{display_name(path)}: no row has a task and a target")
    return frame[~gone], int(gone.sum())


def table_scores(saved: SavedModel, frame: DataFrame) -> dict[Any, dict[str, float]]:
    """Return the number of rows and the scores of each task, in the units of the table."""
    schema, model = saved.schema, saved.model
    assert schema is not None
    tasks = schema.tasks(frame)
    labels = model.tasks_ if tasks is None else np.unique(tasks)
    y, codes, rows = read_entries(schema, frame, labels)
    predicted = saved.predict(frame)
    values: np.ndarray | None = None
    if not schema.regression and len(model.classes_) == 2:
        values = model.decision_function(schema.encode(frame), tasks=tasks)
    if tasks is None:
        predicted, values = predicted[rows, codes], None if values is None else values[rows, codes]
    found = {}
    for t in np.unique(codes).tolist():
        own = codes == t
        ones = np.ones(own.sum())
        scores: dict[str, float] = {"rows": int(own.sum())}
        if schema.regression:
            error = y[own] - predicted[own]
            scores |= {"r2": r2(y[own], predicted[own], ones), "rmse": float(np.sqrt(np.mean(error**2)))}
            scores["mae"] = float(np.mean(np.abs(error)))
        else:
            scores["accuracy"] = float(np.mean(y[own] == predicted[own]))
            if values is not None:
                scores["auc"] = roc_auc(y[own] == model.classes_[1], values[own], ones)
        found[labels[t].item()] = scores
    return found
