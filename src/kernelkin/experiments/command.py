"""`kernelkin reproduce`: run an experiment of the paper, show its table, write its files."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..io.storage import Folder

HELP = "run an experiment of the paper and show its table beside the paper's figures"
EXAMPLES = (
    "  kernelkin reproduce stock --as-published\n"
    "  kernelkin reproduce landmine --quick\n"
    '  kernelkin reproduce sarcos --sizes 200 600 --models AVG "MK-MTRL (paper)" kernelkin --jobs 2'
)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("experiment", choices=["stock", "landmine", "sarcos", "school"])
    parser.add_argument("--runs", type=int, help="random runs (default: 10; 2 with --quick)")
    parser.add_argument("--models", nargs="+", metavar="NAME", help="only these rows of the table")
    parser.add_argument("--sizes", nargs="+", type=int, metavar="N", help="only these numbers of training rows")
    parser.add_argument("--quick", action="store_true", help="a reduced version, in under a minute")
    parser.add_argument("--as-published", action="store_true", help="stock: the configuration of the paper's authors")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default: 1)")
    parser.add_argument(
        "--output", default="results", metavar="DIR", help="where results are kept, and found again (default: results)"
    )


def reproduce(arguments: Namespace, terminal: Any) -> None:
    """Run what is not stored yet, show the table, write page, CSV, JSON and figure."""
    from . import find_protocol
    from .engine import run_protocol
    from .report import verdicts, write_report
    from .store import Store
    from .summary import summarise
    from .tables import main_table

    if arguments.as_published and arguments.experiment != "stock":
        raise ValueError("--as-published is for stock: only for that table is the authors' configuration known")
    name = arguments.experiment + "-as-published" * arguments.as_published + "-quick" * arguments.quick
    protocol = find_protocol(name)
    if arguments.sizes:
        protocol = replace(protocol, settings=_sized(protocol, arguments.sizes))
    _check_models(protocol, arguments.models)
    runs = protocol.runs if arguments.runs is None else arguments.runs
    folder = Path(arguments.output) / name
    Folder(folder).prepare()
    results = run_protocol(
        protocol, Store(folder / "units"), runs, arguments.models, arguments.jobs, _progress(terminal)
    )
    write_report(protocol, results, folder, _command(arguments))
    cells = summarise(protocol, results)
    terminal.say(main_table(protocol, cells).text(colour=sys.stdout.isatty()))
    for text in [*verdicts(protocol, cells), f"Details: {folder / 'README.md'}"]:
        terminal.say(text)


def _sized(protocol: Any, sizes: list[int]) -> tuple:
    known = sorted({setting.size for setting in protocol.settings})
    unknown = [size for size in sizes if size not in known]
    if unknown:
        raise ValueError(f"--sizes {unknown[0]} is not one of {known}")
    return tuple(setting for setting in protocol.settings if setting.size in sizes)


def _check_models(protocol: Any, models: list[str] | None) -> None:
    names = protocol.model_names()
    unknown = [model for model in models or [] if model not in names]
    if unknown:
        raise ValueError(f"--models: no row is named {unknown[0]!r}; there are {', '.join(map(repr, names))}")


def _progress(terminal: Any) -> Any:
    def tell(done: int, total: int, left: float, text: str) -> None:
        print(f"[{done:{len(str(total))}d}/{total}] {text}; about {_duration(left)} left", file=sys.stderr, flush=True)

    return tell


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def _command(arguments: Namespace) -> str:
    """What to type to get the same."""
    parts = ["kernelkin reproduce", arguments.experiment]
    parts += ["--quick"] * arguments.quick + ["--as-published"] * arguments.as_published
    parts += [f"--runs {arguments.runs}"] if arguments.runs else []
    parts += ["--sizes", *map(str, arguments.sizes)] if arguments.sizes else []
    parts += ["--models", *(f'"{model}"' for model in arguments.models)] if arguments.models else []
    parts += [f"--jobs {arguments.jobs}"] if arguments.jobs != 1 else []
    return " ".join(parts)
