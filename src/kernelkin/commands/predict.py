"""`kernelkin predict`: predictions for a table of any length, a piece at a time."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import Any

from ..data import listing
from .tables import STDOUT, check_output, open_output, read_pieces, separator

HELP = "add a column of predictions to a table, however long it is"
EXAMPLES = (
    "  kernelkin predict sales.skops new.csv -o predictions.csv\n"
    "  cat new.csv | kernelkin predict sales.skops - -o - | head\n"
    "  kernelkin predict sales.skops new_shops.csv --unknown-tasks common -o predictions.csv"
)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a file that `kernelkin fit` saved")
    parser.add_argument("data", metavar="DATA", help="a CSV, TSV or Parquet file, or - for CSV on stdin")
    parser.add_argument("-o", "--out", required=True, metavar="OUT", help="a CSV or TSV file, or - for stdout")
    parser.add_argument("--column", default="prediction", metavar="NAME", help="its name (default: prediction)")
    parser.add_argument(
        "--unknown-tasks",
        choices=["error", "common"],
        default="error",
        help="common: predict tasks that training did not have by what all tasks share (default: error)",
    )
    parser.add_argument("--rows", type=int, default=20_000, metavar="N", help="rows at a time (default: 20000)")


def run(arguments: Namespace, terminal: Any) -> None:
    from ..io import load_model

    if arguments.rows < 1:
        raise ValueError(f"--rows must be 1 at least, not {arguments.rows}")
    check_output(arguments.out)
    saved, ending = load_model(arguments.model), separator(arguments.out)
    if saved.schema is None:
        raise ValueError(f"{arguments.model} was saved without the schema of a table: predict with it from Python")
    options = {} if arguments.unknown_tasks == "error" else {"unknown_tasks": arguments.unknown_tasks}
    count, unseen = 0, dict[str, set[str]]()
    with open_output(arguments.out) as file:
        for piece in read_pieces(arguments.data, arguments.rows):
            if arguments.column in piece.columns:
                raise ValueError(f"the data has a column {arguments.column!r} already: give another with --column")
            predicted = piece.assign(**{arguments.column: _predict(saved, piece, count, options)})
            predicted.to_csv(file, index=False, header=not count, sep=ending)
            for name, texts in saved.schema.unseen(piece).items():
                unseen.setdefault(name, set()).update(texts)
            count += len(piece)
            if sys.stderr.isatty():
                print(f"{count} rows", end="\r", file=sys.stderr, flush=True)
    if not count:
        raise ValueError("the data has no rows")
    for name, values in unseen.items():
        print(
            f"kernelkin: warning: column {name!r} has values that training did not have: {listing(sorted(values), 5)}; "
            "they count as none of the known ones",
            file=sys.stderr,
        )
    if arguments.out != STDOUT:
        terminal.say(f"Wrote {count} rows with the column {arguments.column!r} to {arguments.out}.")


def _predict(saved: Any, piece: Any, before: int, options: dict[str, Any]) -> Any:
    """A piece's predictions; its errors say where in the file it is."""
    try:
        return saved.predict(piece, **options)
    except ValueError as error:
        if not before:
            raise
        raise ValueError(f"in the rows after {before}: {error}") from error
