"""`kernelkin report`: one saved model, or two side by side, as one HTML page."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from ..files import check_writable
from .problem import add_format_arguments, text_format
from .terminal import Terminal

HELP = "write one HTML file that shows how well a saved model predicts, and why; it needs no network"
EXAMPLES = (
    "  kernelkin report sales.kin -o report.html\n"
    "  kernelkin report sales.kin --test later.csv -o report.html\n"
    "  kernelkin report old.kin new.kin --test later.csv -o comparison.html"
)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "models", nargs="+", metavar="MODEL", help="a file saved by `kernelkin fit`, or two to show side by side"
    )
    parser.add_argument("-o", "--out", required=True, metavar="HTML", help="the file to write")
    parser.add_argument(
        "--test", metavar="FILE", help="a labelled table to test on, in place of the rows held out by fit"
    )
    parser.add_argument("--title", help="the headline (default: the target and the task)")
    add_format_arguments(parser)


def run(arguments: Namespace, terminal: Terminal) -> None:
    from ..report import report_of_files
    from ..storage import load_model

    if len(arguments.models) > 2:
        raise ValueError(f"a report shows one model, or two side by side, not {len(arguments.models)}")
    check_writable(arguments.out)
    models = [load_model(path) for path in arguments.models]
    test = None if arguments.test is None else _read_test(arguments, models)
    report = report_of_files(models, names=arguments.models, test=test, title=arguments.title)
    report.save(arguments.out)
    terminal.say(f"Wrote {arguments.out}: open it in a browser.")


def _read_test(arguments: Namespace, models: list[Any]) -> Any:
    """The labelled table, without rows that have no task or no target."""
    from .score import read_labelled

    for path, saved in zip(arguments.models, models, strict=True):
        if saved.schema is None:
            raise ValueError(f"--test: {path} was saved without the schema of a table")
    return read_labelled(arguments.test, models[0], text_format(arguments))[0]
