"""Run benchmarks by name, and print their tables as Markdown.

python -m benchmarks                      every problem with a goal, on two threads
python -m benchmarks landmine wide_ridge  some of them
python -m benchmarks --threads 1          on one thread, by CPU time, which a loaded machine changes least
python -m benchmarks online -- tasks      a report of its own, with its arguments after --
python -m benchmarks predict --help       predictions beside those of other libraries, with options of its own
python -m benchmarks calibration --help   probabilities, and by the name of coverage intervals, likewise
python -m benchmarks relations --help     tests of relations between tasks, with options of its own
python -m benchmarks sharing --help       whether sharing helps on known data, likewise
python -m benchmarks gpu --help           many targets on a GPU, likewise
"""

from __future__ import annotations

import argparse
import inspect
import sys
import traceback
import warnings
from importlib import import_module

from .harness import Goal, Report, pinned, save, show
from .limits import rates

PROBLEMS = (
    "landmine",
    "one_vs_rest",
    "wide_ridge",
    "many_tasks",
    "many_kernels",
    "cross_validation",
    "prediction",
    "import_time",
    "plain_table",
    "default_search",
    "couplings",
    "baselines",
    "scale",
)
# They read options of their own, and keep their results in files.
WITH_OPTIONS = ("predict", "calibration", "coverage", "relations", "sharing", "gpu")
# They print what they find.
REPORTS = (
    "smo_against_libsvm",
    "online",
    "online_quality",
    "defaults",
    "parsimony",
    "randomised_svd",
    "intervals",
    "effects",
    "counts",
    "kin_times",
    "growth",
    "messy_columns",
)


def main() -> None:
    if sys.argv[1:2] and sys.argv[1] in WITH_OPTIONS:
        import_module(f".{sys.argv[1]}", __package__).main(sys.argv[2:])
        return
    ours, theirs = _split(sys.argv[1:])
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="name", help=f"{', '.join(PROBLEMS)}; {', '.join(REPORTS)}")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--largest", type=int, default=3000, help="the largest T of many_tasks")
    options = parser.parse_args(ours)
    unknown = set(options.names) - {*PROBLEMS, *REPORTS}
    if unknown:
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(PROBLEMS + REPORTS)}")
    reports = [_run(name, options, theirs) for name in options.names or PROBLEMS]
    found = [report for report in reports if report is not None]
    if found:
        print(f"\nwritten to {save(found, _machine(options.threads))}")


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:cut], arguments[cut + 1 :]


def _machine(threads: int) -> dict[str, float]:
    """Print and return how fast the machine is."""
    found = {}
    for count in sorted({1, threads}):
        measured = rates(count)
        found[f"GB/s, triad, {count} threads"] = measured.bandwidth / 1e9
        found[f"GFlop/s, product, {count} threads"] = measured.products / 1e9
    print("\n## Machine\n" + "\n".join(f"- {name}: {value:.1f}" for name, value in found.items()))
    return found


def _run(name: str, options: argparse.Namespace, arguments: list[str]) -> Report | None:
    module = import_module(f".{name}", __package__)
    if name in REPORTS:
        print(f"\n{name}", flush=True)
        takes = inspect.signature(module.main).parameters
        module.main(arguments) if takes else module.main()
        return None
    extra = {"largest": options.largest} if name == "many_tasks" else {}
    with pinned(options.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            report = module.run(options.repetitions, **extra)
        except Exception as error:  # data that is not there, or a fault: the other problems still run
            traceback.print_exc()
            report = Report(name, [], [Goal(name, f"{type(error).__name__}: {error}", None)])
    show(report)
    return report


if __name__ == "__main__":
    main()
