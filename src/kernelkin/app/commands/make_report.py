"""`kernelkin report`: a saved model as one HTML page."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from ...io.storage import check_writable
from ..terminal import Terminal

HELP = "write one HTML file that shows what a saved model has learned; it needs no network"
EXAMPLES = "  kernelkin report sales.skops -o report.html"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a file saved by `kernelkin fit`")
    parser.add_argument("-o", "--out", required=True, metavar="HTML", help="the file to write")
    parser.add_argument("--title", help="the headline (default: the target and the task)")


def run(arguments: Namespace, terminal: Terminal) -> None:
    from ...io import load_model
    from ..report import write_report

    check_writable(arguments.out)
    write_report(load_model(arguments.model), arguments.out, title=arguments.title, file=arguments.model)
    terminal.say(f"Wrote {arguments.out}: open it in a browser.")
