"""Run experiments of the paper, print their tables beside the paper's figures, and write their pages."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import experiments

from .engine import run_protocol
from .images_data import FOLDER as IMAGE_FOLDER
from .protocol import Protocol, Setting
from .report import goal_lines, write_report
from .store import Folder, Store
from .summary import summarise
from .tables import main_table

PROGRAM = "python -m experiments"
FAILED, INTERRUPTED = 1, 130
EXAMPLES = f"""\
examples:
  {PROGRAM} stock --as-published
  {PROGRAM} landmine --quick
  {PROGRAM} flowers --images descriptors --jobs 2
  {PROGRAM} sarcos --sizes 200 600 --models AVG "MK-MTRL (paper)" KinRegressor --jobs 2

Every finished run is stored. A command that was interrupted continues from there when it is repeated. Runs of rows that
have not changed are taken from `results.json` in the folder of the results, if it is there."""


def build_parser() -> ArgumentParser:
    parser = ArgumentParser(PROGRAM, description=__doc__, epilog=EXAMPLES, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="name", help=f"{', '.join(experiments.EXPERIMENTS)} (default: all)")
    parser.add_argument("--runs", type=int, help="random runs (default: 10; 2 with --quick)")
    parser.add_argument("--models", nargs="+", metavar="NAME", help="only these rows of the table")
    parser.add_argument("--sizes", nargs="+", type=int, metavar="N", help="only these numbers of training rows")
    parser.add_argument("--quick", action="store_true", help="a reduced version, in under a minute")
    parser.add_argument("--as-published", action="store_true", help="stock: the configuration of the paper's authors")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default: 1)")
    parser.add_argument("--images", metavar="DIR", help="flowers, caltech: folder of descriptors (default: a cache)")
    parser.add_argument("--output", default="results", metavar="DIR", help="folder of the results (default: results)")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0 on success, 1 on an error, which is printed as one line, and 130 when interrupted."""
    arguments = build_parser().parse_args(argv)
    if arguments.images:
        os.environ[IMAGE_FOLDER] = arguments.images  # which processes that are started inherit
    suffix = "-as-published" * arguments.as_published + "-quick" * arguments.quick
    try:
        chosen = {
            name: _select(experiments.find_protocol(name + suffix), arguments)
            for name in arguments.names or experiments.EXPERIMENTS
        }
        for name, protocol in chosen.items():
            _reproduce(name, protocol, Path(arguments.output) / (name + suffix), arguments)
    except KeyboardInterrupt:
        print(f"{PROGRAM}: interrupted; the same command continues from here", file=sys.stderr)
        return INTERRUPTED
    except (ValueError, OSError, RuntimeError) as error:
        print(f"{PROGRAM}: error: {error}", file=sys.stderr)
        return FAILED
    return 0


def _reproduce(name: str, protocol: Protocol, folder: Path, arguments: Namespace) -> None:
    """Run what is not stored yet, print the table, write page, CSV, JSON and figure."""
    output = Folder(folder)
    output.prepare()
    runs = protocol.runs if arguments.runs is None else arguments.runs
    store = Store(folder / "units")
    store.folder.prepare()
    store.restore(output.read("results.json"))
    results = run_protocol(protocol, store, runs, arguments.models, arguments.jobs, _print_progress)
    write_report(protocol, results, output, _command(name, arguments))
    cells = summarise(protocol, results)
    print(main_table(protocol, cells).text(colour=sys.stdout.isatty()))
    print(*goal_lines(protocol, cells), f"Details: {folder / 'README.md'}", sep="\n", flush=True)


def _select(protocol: Protocol, arguments: Namespace) -> Protocol:
    """The protocol with the requested settings; unknown sizes and models are errors before any work is done."""
    names = protocol.model_names()
    for model in arguments.models or []:
        if model not in names:
            raise ValueError(f"--models: no row is named {model!r}; choose from {', '.join(map(repr, names))}")
    return replace(protocol, settings=_sized(protocol, arguments.sizes)) if arguments.sizes else protocol


def _sized(protocol: Protocol, sizes: list[int]) -> tuple[Setting, ...]:
    known = sorted({setting.size for setting in protocol.settings})
    for size in sizes:
        if size not in known:
            raise ValueError(f"--sizes {size} is not one of {known}")
    return tuple(setting for setting in protocol.settings if setting.size in sizes)


def _print_progress(done: int, total: int, left: float, text: str) -> None:
    print(f"[{done:{len(str(total))}d}/{total}] {text}; about {_duration(left)} left", file=sys.stderr, flush=True)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def _command(name: str, arguments: Namespace) -> str:
    """What to type to get the same page."""
    parts = [PROGRAM, name]
    parts += ["--quick"] * arguments.quick + ["--as-published"] * arguments.as_published
    parts += [f"--runs {arguments.runs}"] if arguments.runs else []
    parts += ["--sizes", *map(str, arguments.sizes)] if arguments.sizes else []
    parts += ["--models", *(f'"{model}"' for model in arguments.models)] if arguments.models else []
    parts += [f"--jobs {arguments.jobs}"] if arguments.jobs != 1 else []
    return " ".join(parts)


if __name__ == "__main__":
    sys.exit(main())
