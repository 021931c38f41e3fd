"""The command line: one parser, one small function for each command, errors in one line."""

from __future__ import annotations

import os
import sys
import warnings
from argparse import SUPPRESS, ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from . import __version__
from .commands import compare, fit, inspect, models, predict, report
from .commands.terminal import Terminal
from .experiments import command as reproduction

FAILED, USAGE, INTERRUPTED = 1, 2, 130
SESSION = f"""\
a session:
  kernelkin fit shops.csv --task shop --target sales --cv -o sales.skops
  kernelkin report sales.skops -o report.html
  kernelkin predict sales.skops new.csv -o predictions.csv

`kernelkin COMMAND --help` has examples of each.
exit codes: 0 done, {FAILED} failed, {USAGE} called wrongly, {INTERRUPTED} interrupted"""


@dataclass(frozen=True)
class Command:
    """A subcommand: what its help says, its arguments, and the function that does it."""

    name: str
    help: str
    examples: str
    arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace, Terminal], None]


def _demo_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("-o", "--out", default="demo", metavar="DIR", help="folder for the pictures (default: demo)")
    parser.add_argument("--rows", type=int, default=200, help="training images (default: 200)")
    parser.add_argument("--splits", type=int, default=3, help="random splits into training and test (default: 3)")


def _demo(arguments: Namespace, terminal: Terminal) -> None:
    from .demo import run_demo

    run_demo(terminal, arguments.out, n_rows=arguments.rows, n_splits=arguments.splits)


COMMANDS = (
    Command(
        "demo",
        "learn to read ten digits, each a task, from few images; compare; draw",
        "  kernelkin demo\n  kernelkin demo --rows 100 --splits 5 -o pictures",
        _demo_arguments,
        _demo,
    ),
    *(
        Command(name, module.HELP, module.EXAMPLES, module.add_arguments, module.run)
        for name, module in {
            "fit": fit,
            "predict": predict,
            "inspect": inspect,
            "compare": compare,
            "report": report,
            "models": models,
        }.items()
    ),
    Command(
        "reproduce",
        reproduction.HELP,
        reproduction.EXAMPLES,
        reproduction.add_arguments,
        reproduction.reproduce,
    ),
)


def build_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="kernelkin",
        description="Multi-task multiple kernel learning: which kernels each task should use, and how tasks relate.",
        epilog=SESSION,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"kernelkin {__version__}")
    # The same option before and after the command; suppressed, so that the second does not undo the first.
    debug = ArgumentParser(add_help=False)
    debug.add_argument("--debug", action="store_true", default=SUPPRESS, help="show a traceback when something fails")
    parser.add_argument("--debug", action="store_true", help="show a traceback when something fails")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        sub = subparsers.add_parser(
            command.name,
            help=command.help,
            description=command.help,
            epilog=f"examples:\n{command.examples}",
            formatter_class=RawDescriptionHelpFormatter,
            parents=[debug],
        )
        command.arguments(sub)
        sub.set_defaults(run=command.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0 where it went well, 1 where it failed, 2 where it was called wrongly, 130 interrupted."""
    arguments = build_parser().parse_args(argv)
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            arguments.run(arguments, Terminal())
            sys.stdout.flush()
        except KeyboardInterrupt:
            print("kernelkin: interrupted", file=sys.stderr)
            return INTERRUPTED
        except BrokenPipeError:  # who read the output, such as `head`, has enough of it
            _let_go_of_stdout()
            return FAILED
        except Exception as error:
            if arguments.debug:
                raise
            _let_go_of_stdout()
            print(f"kernelkin: error: {_one_line(error)} (--debug shows where)", file=sys.stderr)
            return FAILED
    return 0


def _let_go_of_stdout() -> None:
    """Where nothing can be written to it any more, Python would try again at its end, and complain at length."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _one_line(error: BaseException | str) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        error = f"{error.strerror}: {str(error.filename)!r}"
    return " ".join(str(error).split()) or type(error).__name__


def _show_warning(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    print(f"kernelkin: warning: {_one_line(str(message))}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
