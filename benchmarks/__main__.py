"""Run benchmarks by name.

python -m benchmarks                      every problem with a goal
python -m benchmarks landmine wide_ridge  some of them
python -m benchmarks online -- tasks      a report of its own, with its arguments after --
"""

from __future__ import annotations

import argparse
import inspect
import sys
import warnings
from importlib import import_module

from threadpoolctl import threadpool_limits

from .harness import Report, save, show

PROBLEMS = ("landmine", "one_vs_rest", "wide_ridge", "many_tasks", "many_kernels", "prediction", "import_time")
# They print what they find; some read the data folder that KERNELKIN_DATA names.
REPORTS = ("smo_against_libsvm", "cross_validation", "online", "online_quality", "couplings", "baselines")


def main() -> None:
    ours, theirs = _split(sys.argv[1:])
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="name", help=f"{', '.join(PROBLEMS)}; {', '.join(REPORTS)}")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--largest", type=int, default=1000, help="the largest T of many_tasks; the goal is for 3000")
    options = parser.parse_args(ours)
    unknown = set(options.names) - {*PROBLEMS, *REPORTS}
    if unknown:
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}; there are {', '.join(PROBLEMS + REPORTS)}")
    reports = [_run(name, options, theirs) for name in options.names or PROBLEMS]
    found = [report for report in reports if report is not None]
    if found:
        print(f"\nwritten to {save(found)}")


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:cut], arguments[cut + 1 :]


def _run(name: str, options: argparse.Namespace, arguments: list[str]) -> Report | None:
    module = import_module(f".{name}", __package__)
    if name in REPORTS:
        print(f"\n{name}", flush=True)
        takes = inspect.signature(module.main).parameters
        module.main(arguments) if takes else module.main()
        return None
    extra = {"largest": options.largest} if name == "many_tasks" else {}
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = module.run(options.repetitions, **extra)
    show(report)
    return report


if __name__ == "__main__":
    main()
