"""The entry point of the command line: parse arguments, run a command, print errors on one line."""

from __future__ import annotations

import os
import sys
import warnings
from argparse import SUPPRESS, ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from errno import EPIPE
from importlib import import_module
from typing import Any, NamedTuple

from .. import __version__
from ..registry import all_models
from . import compare, fit, inspect, predict, score
from .terminal import Terminal, complain

FAILED, USAGE, INTERRUPTED = 1, 2, 130
SESSION = f"""\
a session:
  kernelkin fit shops.csv --task shop --target sales --cv -o sales.kin
  kernelkin report sales.kin -o report.html
  kernelkin predict sales.kin new.csv -o predictions.csv

`kernelkin COMMAND --help` has examples of each.
exit codes: 0 success, {FAILED} failure, {USAGE} wrong usage, {INTERRUPTED} interrupted"""


class Command(NamedTuple):
    """A subcommand: its help, its arguments, and the function that runs it.

    `writes_files` means that the result is a file, so the command continues when standard output is closed.
    """

    name: str
    help: str
    examples: str
    arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace, Terminal], None]
    writes_files: bool = False


def _demo_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("-o", "--out", default="demo", metavar="DIR", help="folder for the figure (default: demo)")
    parser.add_argument(
        "--data",
        choices=("fertility", "grunfeld", "elnino"),
        default="fertility",
        help="births in countries (default), investment of firms, or temperature of the sea",
    )
    parser.add_argument("--rows", type=int, default=4, help="training rows of each group (default: 4)")
    parser.add_argument("--draws", type=int, default=1, help="how often training rows are drawn (default: 1)")


def _demo(arguments: Namespace, terminal: Terminal) -> None:
    from .demo import run_demo

    run_demo(terminal, arguments.out, data=arguments.data, rows=arguments.rows, draws=arguments.draws)


def _models_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--references", action="store_true", help="also show the publication of each")


def _models(arguments: Namespace, terminal: Terminal) -> None:
    width = max(len(model.name) for model in all_models())
    for model in all_models():
        kinds = [kind for kind, found in (("classes", model.classifier), ("numbers", model.regressor)) if found]
        more = "; needs the targets of all tasks for every row, so from Python only" if model.needs_wide else ""
        terminal.say(f"{model.name:<{width}}  {model.description}")
        terminal.say(f"{'':<{width}}    predicts {' and '.join(kinds)}{more}")
        if arguments.references:
            terminal.say(f"{'':<{width}}    {model.reference}")


def _completion_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=["bash", "zsh", "fish"], help="shell to print the script for")


def _completion(arguments: Namespace, terminal: Terminal) -> None:
    try:
        shtab = import_module("shtab")
    except ImportError as error:
        raise ImportError("completion needs shtab: install kernelkin[cli], or pip install shtab") from error
    terminal.say(*shtab.complete(build_parser(), arguments.shell).splitlines())


COMMANDS = (
    Command(
        "demo",
        "compare models on real data with few rows in each group, and draw a figure",
        "  kernelkin demo\n  kernelkin demo --data grunfeld --rows 6 --draws 5 -o figures",
        _demo_arguments,
        _demo,
        writes_files=True,
    ),
    Command("fit", fit.HELP, fit.EXAMPLES, fit.add_arguments, fit.run, writes_files=True),
    Command("predict", predict.HELP, predict.EXAMPLES, predict.add_arguments, predict.run, writes_files=True),
    Command("score", score.HELP, score.EXAMPLES, score.add_arguments, score.run),
    Command("inspect", inspect.HELP, inspect.EXAMPLES, inspect.add_arguments, inspect.run),
    Command("compare", compare.HELP, compare.EXAMPLES, compare.add_arguments, compare.run),
    Command(
        "report",
        inspect.REPORT_HELP,
        inspect.REPORT_EXAMPLES,
        inspect.add_report_arguments,
        inspect.run_report,
        writes_files=True,
    ),
    Command(
        "models",
        "list the models, what they do and where they were published",
        "  kernelkin models\n  kernelkin models --references",
        _models_arguments,
        _models,
    ),
    Command(
        "completion",
        "print a script that completes commands and options in bash, zsh or fish",
        "  kernelkin completion fish | source         # in ~/.config/fish/config.fish\n"
        '  eval "$(kernelkin completion bash)"       # in ~/.bashrc\n'
        '  eval "$(kernelkin completion zsh)"        # in ~/.zshrc, after compinit',
        _completion_arguments,
        _completion,
    ),
)


def build_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="kernelkin",
        description="Multi-task multiple kernel learning: which kernels each task uses, and how tasks are related.",
        epilog=SESSION,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"kernelkin {__version__}")
    # The option is accepted before and after the command; SUPPRESS keeps the second from resetting the first.
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
        sub.set_defaults(command=command)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0 success, 1 failure, 2 wrong usage, 130 interrupted."""
    _fill_closed_streams()
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
        if _is_broken_pipe(error):  # the reader, such as `head`, has closed the pipe
            return FAILED
        if debug:
            raise
        complain(f"error: {_describe(error)} (--debug shows where)")
        return FAILED
    finally:
        _release_stdout()


def _run(arguments: Namespace) -> int:
    terminal = Terminal(keep_going=arguments.command.writes_files)
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        arguments.command.run(arguments, terminal)
    if sys.stdout is not None and terminal.lost is None:
        sys.stdout.flush()
    if terminal.lost is not None and not _is_broken_pipe(terminal.lost):
        complain(f"error: the result is complete, but standard output failed: {_describe(terminal.lost)}")
        return FAILED
    return 0


def _fill_closed_streams() -> None:
    """Open closed standard streams on the null device, so that no later file gets their descriptors."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


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


def _show_warning(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    complain(f"warning: {message}")
