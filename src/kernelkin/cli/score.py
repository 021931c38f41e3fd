"""`kernelkin score`: score a saved model on a labelled table."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..relations.scores import LEAST_ROWS, WITHIN, WITHIN_MEANS, as_text
from ..relations.sharing import COVERAGE, NEW_ROWS
from ..report.held_out import HeldOutRows, rows_of_table
from ..storage.model_files import SavedModel, load_model
from ..tables.encoder import check_names
from ..tables.files import TextFormat, display_name, read_table
from .problem import in_file, text_format
from .terminal import Terminal, shorten

if TYPE_CHECKING:
    from pandas import DataFrame


def run(arguments: Namespace, terminal: Terminal) -> None:
    if arguments.json:
        terminal.use_json()
    saved = load_model(arguments.model)
    if saved.schema is None:
        raise ValueError(f"{arguments.model} was saved without the schema of a table: score it from Python")
    frame, left_out = read_labelled(arguments.data, saved, text_format(arguments))
    with in_file(arguments.data):
        parts = rows_of_table(saved, frame, "")
    if left_out:
        terminal.say(f"Left out {left_out} rows without a group or a target.")
    terminal.say(f"{saved.schema.title}: {len(frame)} rows.")
    scores = {question: _scores(question, rows) for question, rows in parts.items()}
    names = list(dict.fromkeys(name for part in scores.values() for name in part))
    body = [[question, *(as_text(part.get(name)) for name in names)] for question, part in scores.items()]
    terminal.table(["", *names], body)
    if WITHIN in names:
        terminal.say(f"{WITHIN_MEANS}.")
    groups = [group for rows in parts.values() for group in _groups(rows)]
    name = next(iter(parts.values())).group_score
    scored = [group for group in groups if group[name] is not None]
    if len(scored) > 1:
        body = [[str(group["group"]), str(group["rows"]), as_text(group[name])] for group in scored]
        terminal.say("", f"Groups with at least {LEAST_ROWS} rows:")
        terminal.table(["group", "rows", name], body if arguments.all else list(shorten(body)))
    terminal.emit({"model": arguments.model, "data": arguments.data, "scores": scores, "groups": groups})


def _scores(question: str, rows: HeldOutRows) -> dict[str, float]:
    """Return the number of rows and groups, the scores over all rows, and the coverage of intervals."""
    found: dict[str, float] = {"rows": len(rows.y), "groups": len(np.unique(rows.codes))}
    found |= rows.scores(within=question == NEW_ROWS)
    return found if rows.covered is None else {**found, f"in {COVERAGE:.0%} interval": rows.covered}


def _groups(rows: HeldOutRows) -> list[dict[str, Any]]:
    """Return the number of rows and the score of each group with rows."""
    counts, scores = np.bincount(rows.codes, minlength=len(rows.tasks)), rows.group_scores()
    return [
        {"group": group, "rows": count, rows.group_score: score if np.isfinite(score) else None}
        for group, count, score in zip(rows.tasks.tolist(), counts.tolist(), scores.tolist(), strict=True)
        if count
    ]


def read_labelled(path: str, saved: SavedModel, form: TextFormat) -> tuple[DataFrame, int]:
    """Return the rows that have all groups and a target, and the number of other rows."""
    schema = saved.schema
    assert schema is not None
    form = TextFormat(form.separator, form.encoding, schema.decimal if form.decimal == "." else form.decimal)
    frame = read_table(path, schema.task_names, schema.target_names, form)
    with in_file(path):
        check_names(frame.columns, [*schema.target_names, *schema.task_names])
        # Raises for invalid cells before rows are left out, while row numbers are those of the file.
        schema.targets(frame), schema.encode(frame)
    gone = frame[list(schema.target_names)].isna().all(axis=1) | frame[schema.task_names].isna().any(axis=1)
    if gone.all():
        raise ValueError(f"{display_name(path)}: no row has a group and a target")
    return frame[~gone], int(gone.sum())
