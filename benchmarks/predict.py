"""Compare predictions of KinRegressor and KinClassifier with those of what people would run instead.

python -m benchmarks predict --jobs 16                     all sets and contenders, ten splits, results in a file
python -m benchmarks predict --splits 3 --sets wine school --contenders Kin AVG --output FILE
python -m benchmarks predict --list                        names of sets and contenders
python -m benchmarks predict --report                      write docs/comparison.md and its picture from the file

Results that the file has are not computed again. A set is chosen by its name, or by how its name begins.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .predict_engine import Job, read_results, run_jobs
from .predict_models import Contender, contenders
from .predict_report import overview, per_set, write_report
from .predict_sets import DataSet, data_sets
from .predict_summary import Results

RESULTS = Path(__file__).parent / "results" / "predict.jsonl"


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks predict", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="number of processes, each with one thread")
    parser.add_argument("--splits", type=int, default=10, metavar="N")
    parser.add_argument("--first-split", type=int, default=0, metavar="N", help="the number of the first split")
    parser.add_argument("--sets", nargs="+", metavar="NAME", help="data sets; all by default")
    parser.add_argument("--contenders", nargs="+", metavar="NAME", help="contenders; all by default")
    parser.add_argument("--time-limit", type=float, default=300.0, metavar="S", help="seconds of a job")
    parser.add_argument("--retry", action="store_true", help="run jobs again that were missed, for time or by an error")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FILE", help=f"by default {RESULTS.name}")
    parser.add_argument("--report", action="store_true", help="run nothing; write the page and its picture")
    parser.add_argument("--list", action="store_true", help="run nothing; list data sets and contenders")
    options = parser.parse_args(arguments)
    sets, models = _chosen(parser, data_sets(), options.sets), _chosen(parser, contenders(), options.contenders)
    if options.list:
        _list(sets, models)
        return
    if not options.report:
        splits = range(options.first_split, options.first_split + options.splits)
        jobs = _jobs(sets, models, splits, read_results(options.output))
        run_jobs(jobs, options.jobs, options.time_limit, options.output, options.retry)
    results = Results.of(read_results(options.output), sets, models)
    if options.report:
        write_report(results)
    else:
        print("\n".join([*overview(results), *per_set(results)]))


def _chosen(parser: argparse.ArgumentParser, known: dict, names: Sequence[str] | None) -> dict:
    """Those with these names, or whose names begin with one."""
    if names is None:
        return known
    unknown = [name for name in names if not any(each.startswith(name) for each in known)]
    if unknown:
        parser.error(f"nothing is called {', '.join(unknown)}; there are: {'; '.join(known)}")
    exact = {name for name in names if name in known}
    prefixes = tuple(name for name in names if name not in known)
    return {name: each for name, each in known.items() if name in exact or (prefixes and name.startswith(prefixes))}


def _list(sets: dict[str, DataSet], models: dict[str, Contender]) -> None:
    for each in sets.values():
        kind = "classes" if each.classification else "regression"
        print(f"{each.name} ({kind}, {each.size} labels, {each.rows_per_task} rows per task)")
    print()
    for model in models.values():
        reason = model.reason_not_to_run()
        print(model.name if reason is None else f"{model.name} (left out: {reason})")


def _jobs(
    sets: dict[str, DataSet], models: dict[str, Contender], splits: range, records: list[dict[str, Any]]
) -> list[Job]:
    """Jobs of the contenders that can run here; where the file has times of other splits, costs are these."""
    taken: dict[tuple[str, str], float] = {(r["set"], r["model"]): r["s"] for r in records if "s" in r}
    for model in models.values():
        if reason := model.reason_not_to_run():
            print(f"{model.name} is left out: {reason}", file=sys.stderr)
    return [
        Job(each.name, split, model.name, taken.get((each.name, model.name), model.cost * each.size / 1000))
        for each in sets.values()
        for split in splits
        for model in models.values()
        if model.reason_not_to_run() is None
    ]
