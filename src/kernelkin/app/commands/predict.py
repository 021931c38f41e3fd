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
    "  kernelkin predict sales.skops new_shops.csv --unknown-tasks common -o predictions.csv\n\n"
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
        terminal.say(f"Wrote {count} rows with the column {arguments.column!r} to {arguments.out}.")


def _predict_all(saved: Any, arguments: Namespace, file: TextIO, separator: str) -> tuple[int, dict[str, set[str]]]:
    """Write every piece with its predictions -> the number of rows, and texts that training did not have."""
    columns = [column.name for column in saved.schema.columns]
    count, unseen = 0, dict[str, set[str]]()
    separator_in = None if is_parquet(arguments.data) else input_separator(arguments.data)
    for piece in read_pieces(arguments.data, arguments.rows):
        if arguments.column in piece.header:
            raise ValueError(f"the data already has a column {arguments.column!r}: choose another with --column")
        values = piece.values(columns, saved.schema.task)
        predicted = _predict(saved, values, count)
        if piece.records is None or arguments.safe_csv or separator != separator_in:
            _write_cells(file, piece, predicted, arguments, separator, first=not count)
        else:
            _write_records(file, piece, predicted, arguments.column, separator, first=not count)
        for name, texts in saved.schema.unseen(values).items():
            unseen.setdefault(name, set()).update(texts)
        count += len(piece.frame)
        if sys.stderr is not None and sys.stderr.isatty():
            print(f"{count} rows", end="\r", file=sys.stderr, flush=True)
    if not count:
        raise ValueError("the data has no rows")
    return count, unseen


def _write_records(file: TextIO, piece: Piece, predicted: Any, name: str, separator: str, first: bool) -> None:
    """Repeat the text of each row, with one cell more; the end of the last line is as in the input."""
    assert piece.records is not None and piece.header_record is not None
    n = len(piece.header)
    if first:
        file.write(piece.header_record.with_cell(name, n, separator))
    cells = map(str, predicted.tolist())
    file.writelines(record.with_cell(cell, n, separator) for record, cell in zip(piece.records, cells, strict=True))


def _write_cells(file: TextIO, piece: Piece, predicted: Any, arguments: Namespace, separator: str, first: bool) -> None:
    """Write the values in a form of our own, where the input has no text or another is asked for."""
    out, header = piece.frame.assign(**{arguments.column: predicted}), [*piece.header, arguments.column]
    if arguments.safe_csv:
        out, header = neutralise(out), [_neutral(name) for name in header]
    out.to_csv(file, index=False, header=header if first else False, sep=separator, lineterminator="\n")


def _allow_unknown_tasks(model: Any) -> None:
    model = getattr(model, "best_estimator_", model)
    if "unknown_tasks" not in model.get_params(deep=False):
        raise ValueError(f"--unknown-tasks common: {type(model).__name__} has no part that all tasks share")
    model.set_params(unknown_tasks="common")


def _predict(saved: Any, values: DataFrame, before: int) -> Any:
    """The predictions of a piece; errors give its position in the file."""
    try:
        return saved.predict(values)
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
