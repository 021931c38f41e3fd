"""The entry point of the command line: parse arguments, run a command, print errors on one line."""

from __future__ import annotations

import os
import sys
import warnings
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from errno import EPIPE
from importlib import import_module

from .. import __version__
from .arguments import COMMANDS
from .terminal import Terminal, complain

FAILED, USAGE, INTERRUPTED = 1, 2, 130
SESSION = f"""\
a session:
  kernelkin fit shops.csv --task shop --target sales -o sales.kin
  kernelkin report sales.kin -o report.html
  kernelkin predict sales.kin new.csv -o predictions.csv

`kernelkin COMMAND --help` has examples of each.
exit codes: 0 success, {FAILED} failure, {USAGE} wrong usage, {INTERRUPTED} interrupted"""


def build_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="kernelkin",
        description="Models for data with groups: fit a table, compare with simpler models, predict, and report.",
        epilog=SESSION,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"kernelkin {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        sub = subparsers.add_parser(
            command.name,
            help=command.help,
            description=command.help,
            epilog=f"examples:\n{command.examples}",
            formatter_class=RawDescriptionHelpFormatter,
        )
        command.arguments(sub)
        sub.add_argument("--debug", action="store_true", help="show a traceback when something fails")
        sub.set_defaults(command=command)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 success, 1 failure, 2 wrong usage, 130 interrupted."""
    debug = False
    try:
        argv = sys.argv[1:] if argv is None else list(argv)
        arguments = build_parser().parse_args(argv)
        arguments.argv, debug = argv, arguments.debug
        return _run(arguments)
    except KeyboardInterrupt as error:
        complain(f"interrupted; {error}" if str(error) else "interrupted")
        return INTERRUPTED
    except Exception as error:
        if _is_broken_pipe(error):  # the reading process, such as `head`, has closed the pipe
            return FAILED
        if debug:
            raise
        complain(f"error: {_describe(error)} (--debug shows where)")
        return FAILED
    finally:
        _release_stdout()


def _run(arguments: Namespace) -> int:
    terminal = Terminal(keep_going=arguments.command.writes_files, as_json=getattr(arguments, "json", False))
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *where, **more: complain(f"warning: {message}")
        module, function = arguments.command.run.split(":")
        getattr(import_module(f".{module}", __package__), function)(arguments, terminal)
    if sys.stdout is not None and terminal.lost is None:
        sys.stdout.flush()
    if terminal.lost is not None and not _is_broken_pipe(terminal.lost):
        complain(f"error: the result is complete, but standard output failed: {_describe(terminal.lost)}")
        return FAILED
    return 0


def _release_stdout() -> None:
    """Redirect a broken standard output; otherwise Python would flush it again at exit and print a traceback."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_broken_pipe(error: BaseException) -> bool:
    # An error with a file name is about that file, not about standard output.
    return isinstance(error, OSError) and error.errno == EPIPE and error.filename is None


def _describe(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.strerror}: {str(error.filename)!r}"
    return str(error) if str(error).strip() else type(error).__name__
