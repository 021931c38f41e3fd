"""`kernelkin predict`: predictions for a table of any length, a piece at a time."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any, TextIO

from ...data import listing
from ...tables.files import Piece, read_pieces
from ...tables.parquet import is_parquet
from ...tables.text import STDOUT, check_output, input_separator, open_output
from ..terminal import Terminal, complain

if TYPE_CHECKING:
    from pandas import DataFrame

HELP = "add a column of predictions to a table of any length"
EXAMPLES = (
    "  kernelkin predict sales.skops new.csv -o predictions.csv\n"
    "  cat new.csv | kernelkin predict sales.skops - -o - | head\n"
    "  kernelkin predict sales.skops new_shops.csv --unknown-tasks common -o predictions.csv\n"
    "  kernelkin predict sales.skops new.csv --interval 0.9 -o predictions.csv\n"
    "  kernelkin predict churn.skops new.csv --proba -o predictions.csv\n\n"
    "the text of a CSV or TSV file is repeated as it is, quotes and ends of lines included, and a cell with the\n"
    "prediction is added to each row; with --safe-csv, or from CSV to TSV, the cells are written anew"
)
# What a spreadsheet takes for the beginning of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a file saved by `kernelkin fit`")
    parser.add_argument("data", metavar="DATA", help="a CSV, TSV or Parquet file, or - for CSV on stdin")
    parser.add_argument(
        "-o", "--out", required=True, metavar="OUT", help="a CSV or TSV file, also packed as .gz, or - for stdout"
    )
    parser.add_argument("--column", default="prediction", metavar="NAME", help="its name (default: prediction)")
    parser.add_argument(
        "--proba",
        action="store_true",
        help="also add the probability of each class, in columns probability_CLASS",
    )
    parser.add_argument(
        "--interval",
        type=float,
        metavar="COVERAGE",
        help="also add the ends of intervals that contain this share of the targets, such as 0.9, in columns NAME_low "
        "and NAME_high",
    )
    parser.add_argument(
        "--unknown-tasks",
        choices=["error", "common"],
        default="error",
        help="common: predict tasks that training did not have by what all tasks share (default: error)",
    )
    parser.add_argument(
        "--safe-csv",
        action="store_true",
        help="put ' before texts that a spreadsheet would run as a formula (those that begin with = + - @)",
    )
    parser.add_argument("--rows", type=int, default=20_000, metavar="N", help="rows at a time (default: 20000)")


def run(arguments: Namespace, terminal: Terminal) -> None:
    from ...io import load_model

    if arguments.rows < 1:
        raise ValueError(f"--rows must be at least 1, not {arguments.rows}")
    separator = check_output(arguments.out)
    saved = load_model(arguments.model)
    if saved.schema is None:
        raise ValueError(f"{arguments.model} was saved without the schema of a table: predict with it from Python")
    _check_columns(saved.model, arguments)
    if arguments.unknown_tasks == "common":
        _allow_unknown_tasks(saved.model)
    with open_output(arguments.out) as file:
        count, unseen = _predict_all(saved, arguments, file, separator)
    for name, values in unseen.items():
        complain(
            f"warning: column {name!r} has values that training did not have: {listing(sorted(values), 5)}; they are "
            "taken as none of the known ones"
        )
    if arguments.out != STDOUT:
        names = added_columns(saved.model, arguments)
        word = "column" if len(names) == 1 else "columns"
        terminal.say(f"Wrote {count} rows with the {word} {listing(names, 6)} to {arguments.out}.")


def _check_columns(model: Any, arguments: Namespace) -> None:
    """Refuse probabilities of numbers, and intervals of classes."""
    if arguments.proba and not hasattr(model, "predict_proba"):
        raise ValueError("--proba: this model predicts numbers; use --interval")
    if arguments.interval is not None and not hasattr(model, "predict_interval"):
        raise ValueError("--interval: this model predicts classes; use --proba")
    if arguments.interval is not None and not 0 < arguments.interval < 1:
        raise ValueError(f"--interval must be between 0 and 1, not {arguments.interval:g}")


def added_columns(model: Any, arguments: Namespace) -> list[str]:
    """Return the names of the columns that are added."""
    names = [arguments.column]
    if arguments.proba:
        names += [f"probability_{label}" for label in model.classes_.tolist()]
    if arguments.interval is not None:
        names += [f"{arguments.column}_low", f"{arguments.column}_high"]
    return names


def _predict_all(saved: Any, arguments: Namespace, file: TextIO, separator: str) -> tuple[int, dict[str, set[str]]]:
    """Write every piece with its predictions -> the number of rows, and texts that training did not have."""
    columns = [column.name for column in saved.schema.columns]
    names = added_columns(saved.model, arguments)
    count, unseen = 0, dict[str, set[str]]()
    separator_in = None if is_parquet(arguments.data) else input_separator(arguments.data)
    for piece in read_pieces(arguments.data, arguments.rows):
        for name in names:
            if name in piece.header:
                raise ValueError(f"the data already has a column {name!r}: choose another with --column")
        values = piece.values(columns, saved.schema.task)
        added = dict(zip(names, _predict(saved, values, arguments, count), strict=True))
        if piece.records is None or arguments.safe_csv or separator != separator_in:
            _write_cells(file, piece, added, arguments.safe_csv, separator, first=not count)
        else:
            _write_records(file, piece, added, separator, first=not count)
        for name, texts in saved.schema.unseen(values).items():
            unseen.setdefault(name, set()).update(texts)
        count += len(piece.frame)
        if sys.stderr is not None and sys.stderr.isatty():
            print(f"{count} rows", end="\r", file=sys.stderr, flush=True)
    if not count:
        raise ValueError("the data has no rows")
    return count, unseen


def _write_records(file: TextIO, piece: Piece, added: dict[str, Any], separator: str, first: bool) -> None:
    """Repeat the text of each row, with the cells of the added columns; ends of lines are as in the input."""
    assert piece.records is not None and piece.header_record is not None
    n = len(piece.header)
    if first:
        file.write(piece.header_record.with_cells(list(added), n, separator))
    cells = zip(*(map(str, column.tolist()) for column in added.values()), strict=True)
    file.writelines(record.with_cells(row, n, separator) for record, row in zip(piece.records, cells, strict=True))


def _write_cells(
    file: TextIO, piece: Piece, added: dict[str, Any], safe_csv: bool, separator: str, first: bool
) -> None:
    """Write the values in a form of our own, where the input has no text or another is asked for."""
    out, header = piece.frame.assign(**added), [*piece.header, *added]
    if safe_csv:
        out, header = neutralise(out), [_neutral(name) for name in header]
    out.to_csv(file, index=False, header=header if first else False, sep=separator, lineterminator="\n")


def _allow_unknown_tasks(model: Any) -> None:
    model = getattr(model, "best_estimator_", model)
    if "unknown_tasks" not in model.get_params(deep=False):
        raise ValueError(f"--unknown-tasks common: {type(model).__name__} has no part that all tasks share")
    model.set_params(unknown_tasks="common")


def _predict(saved: Any, values: DataFrame, arguments: Namespace, before: int) -> list[Any]:
    """The columns that are added to a piece; errors give its position in the file."""
    try:
        columns = [saved.predict(values)]
        if arguments.proba:
            columns += list(saved.predict_proba(values).T)
        if arguments.interval is not None:
            columns += list(saved.predict_interval(values, arguments.interval).T)
        return columns
    except ValueError as error:
        if not before:
            raise
        raise ValueError(f"in the rows after {before}: {error}") from error


def neutralise(frame: DataFrame) -> DataFrame:
    """A table whose texts no spreadsheet takes for formulas."""
    texts = [str(name) for name, dtype in frame.dtypes.items() if dtype.kind not in "biufc"]
    return frame.assign(**{name: [_neutral(cell) for cell in frame[name]] for name in texts})


def _neutral(cell: Any) -> Any:
    """
    >>> [_neutral(cell) for cell in ("=1+1", "-1.5", "@x", "a=b", None)]
    ["'=1+1", '-1.5', "'@x", 'a=b', None]
    """
    if not isinstance(cell, str) or not cell.startswith(_FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
