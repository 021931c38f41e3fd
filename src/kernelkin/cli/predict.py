"""`kernelkin predict`: add predictions to a table of any length, piece by piece."""

from __future__ import annotations

import sys
from argparse import Namespace
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from ..data.arrays import listing
from ..tables.cells import CellError
from ..tables.encoder import check_names, unseen_warning
from ..tables.files import STDOUT, check_output, display_name, input_separator, open_output, read_pieces
from .problem import in_file, load_with_schema, text_format
from .terminal import Terminal, complain
from .training import TASK, by_task, read_task_features

if TYPE_CHECKING:
    from pandas import DataFrame

# Number of rows that are read at a time.
ROWS = 20_000


def run(arguments: Namespace, terminal: Terminal) -> None:
    separator = check_output(arguments.out)
    saved = load_with_schema(arguments.model, arguments)
    if arguments.proba and not hasattr(saved.model, "predict_proba"):
        raise ValueError("--proba: this model predicts numbers; use --interval")
    if arguments.interval is not None and not hasattr(saved.model, "predict_interval"):
        raise ValueError("--interval: this model predicts classes; use --proba")
    if arguments.interval is not None and not 0 < arguments.interval < 1:
        raise ValueError(f"--interval must be between 0 and 1, not {arguments.interval:g}")
    if arguments.task_features is not None:
        saved = _with_tasks(saved, arguments)
    model = getattr(saved.model, "best_estimator_", saved.model)
    if arguments.unknown_tasks is not None and "unknown_tasks" in model.get_params(deep=False):
        model.set_params(unknown_tasks=arguments.unknown_tasks)
    elif arguments.unknown_tasks == "common":
        raise ValueError(f"--unknown-tasks common: {type(model).__name__} has no part that all tasks share")
    columns = added_columns(saved, arguments)
    check_names(columns, columns)
    with open_output(arguments.out) as file:
        count, unseen = _predict_all(saved, arguments, file, separator, columns)
    for name, values in unseen.items():
        complain(f"warning: {unseen_warning(name, values)}")
    if arguments.out != STDOUT:
        word = "column" if len(columns) == 1 else "columns"
        terminal.say(f"Wrote {count} rows with the {word} {listing(columns, 6)} to {arguments.out}.")


def added_columns(saved: Any, arguments: Namespace) -> list[str]:
    """Return the names of the added columns; for several targets, the columns of each target."""
    schema, model = saved.schema, saved.model
    starts = [""] if schema.task is not None else [f"{target} " for target in schema.target_names]
    names = [f"{start}{arguments.column}" for start in starts]
    if arguments.proba:
        classes = [model.classes_] if schema.task is not None else model.task_classes_
        each = zip(starts, classes, strict=True)
        names += [f"{start}probability_{label}" for start, labels in each for label in labels.tolist()]
    if arguments.interval is not None:
        names += [f"{start}{arguments.column}_{end}" for start in starts for end in ("low", "high")]
    return names


def _predict_all(
    saved: Any, arguments: Namespace, file: TextIO, separator: str, columns: list[str]
) -> tuple[int, dict[str, set[str]]]:
    """Write each piece with its predictions; return the number of rows and the texts that were not in training."""
    schema = saved.schema
    features = [*(column.name for column in schema.columns), *filter(None, (schema.offset, schema.exposure))]
    count, unseen = 0, dict[str, set[str]]()
    for piece in read_pieces(arguments.data, ROWS, text_format(arguments), schema.task_names):
        if found := set(columns).intersection(piece.header):
            name = display_name(arguments.data)
            raise ValueError(f"{name} already has a column {min(found)!r}: choose another with --column")
        with in_file(arguments.data):
            check_names(piece.header, [*features, *saved.schema.task_names])
        values = piece.values(features, saved.schema.task_names)
        added = dict(zip(columns, _predict(saved, values, arguments, count), strict=True))
        # The output keeps the separator of the input, such as a semicolon, unless its ending implies another.
        anew = piece.separator is None or separator != input_separator(arguments.data)
        between = separator if anew else str(piece.separator)
        out, header = piece.frame.assign(**added), [*piece.header, *added]
        form_out = {"sep": between, "decimal": schema.encoder.decimal, "lineterminator": "\n"}
        out.to_csv(file, index=False, header=False if count else header, **form_out)
        for name, texts in schema.encoder.unseen(values).items():
            unseen.setdefault(name, set()).update(texts)
        count += len(piece.frame)
        if sys.stderr is not None and sys.stderr.isatty():
            print(f"{count} rows", end="\r", file=sys.stderr, flush=True)
    if not count:
        raise ValueError(f"{display_name(arguments.data)} has no rows")
    return count, unseen


def _with_tasks(saved: Any, arguments: Namespace) -> Any:
    """Return the model extended to new tasks, whose features are in a file."""
    if not hasattr(saved.model, "with_tasks"):
        raise ValueError(f"--task-features: {type(saved.model).__name__} does not use features of tasks; fit Kin")
    frame = read_task_features(arguments.task_features, saved.schema.task or TASK, text_format(arguments))
    with in_file(arguments.task_features):
        return replace(saved, model=saved.model.with_tasks(by_task(frame, saved.schema)))


def _predict(saved: Any, values: DataFrame, arguments: Namespace, before: int) -> list[Any]:
    """Return the added columns of a piece that follows `before` rows; errors name the file and the row in it."""
    try:
        parts = [saved.predict(values)]
        if arguments.proba:
            p = saved.predict_proba(values)
            # On wide data (n, T, C), the classes of the first target, then those of the next.
            known = [np.isin(saved.model.classes_, labels) for labels in getattr(saved.model, "task_classes_", ())]
            parts.append(p if p.ndim == 2 else p[:, np.array(known)])
        if arguments.interval is not None:
            parts.append(saved.predict_interval(values, arguments.interval))
        # (n,), (n, m) or on wide data (n, T, m): a column for each task and value.
        return [column for part in parts for column in part.reshape(len(values), -1).T]
    except CellError as error:
        raise ValueError(f"{display_name(arguments.data)}: {error.after(before)}") from error
    except ValueError as error:
        advice = " (here: --unknown-tasks common)" if str(error).startswith("unknown task") else ""
        raise ValueError(f"{display_name(arguments.data)}: {error}{advice}") from error
