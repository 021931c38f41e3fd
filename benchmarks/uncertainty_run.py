"""Run contenders on splits of data sets in processes; results are lines of a file as they come."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from .predict import THREADS, read_results

Record = dict[str, Any]
# (data set, split, contender) -> what is recorded of it.
Measure = Callable[[str, int, str], Record]


def run(
    name: str,
    about: str,
    sets: Sequence[str],
    contenders: Sequence[str],
    measure: Measure,
    table: Callable[[list[Record]], str],
    page: Path,
    arguments: Sequence[str],
) -> None:
    """Read the options of a benchmark, run what its file has no record of, and print its table."""
    results = Path(__file__).parent / "results" / f"{name}.jsonl"
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks {name}", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="number of processes, each with one thread")
    parser.add_argument("--splits", type=int, default=20, metavar="N")
    parser.add_argument("--sets", nargs="+", default=list(sets), metavar="NAME", help=f"of: {'; '.join(sets)}")
    parser.add_argument("--contenders", nargs="+", default=list(contenders), metavar="NAME")
    parser.add_argument("--output", type=Path, default=results, metavar="FILE", help=f"by default {results.name}")
    parser.add_argument("--report", action="store_true", help=f"run nothing; write the table into {page.name}")
    options = parser.parse_args(arguments)
    if options.report:
        write_between(page, name, table(read_results(options.output)))
        return
    chosen = [each for each in sets if any(each.startswith(prefix) for prefix in options.sets)]
    jobs = [(each, split, c) for split in range(options.splits) for each in chosen for c in options.contenders]
    _run_missing(jobs, measure, options.jobs, options.output)
    print(table(read_results(options.output)))


def _run_missing(jobs: Sequence[tuple[str, int, str]], measure: Measure, n_workers: int, output: Path) -> None:
    done = {(r["set"], r["split"], r["model"]) for r in read_results(output)}
    todo = [job for job in jobs if job not in done]
    print(f"{len(jobs)} jobs, {len(jobs) - len(todo)} of them done before", file=sys.stderr, flush=True)
    # Read when NumPy is imported, which the processes do anew.
    os.environ.update(dict.fromkeys(THREADS, "1"))
    output.parent.mkdir(exist_ok=True)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(n_workers, mp_context=spawn) as pool, output.open("a", encoding="utf-8") as file:
        futures = [pool.submit(_one, measure, *job) for job in todo]
        for number, future in enumerate(as_completed(futures), 1):
            record = future.result()
            if "error" in record:
                print(record["error"], file=sys.stderr)
                continue
            file.write(json.dumps(record) + "\n")
            file.flush()
            shown = record["set"], record["split"], record["model"]
            print(f"{number}/{len(todo)}", *shown, f"{record['s']:.1f} s", file=sys.stderr, flush=True)


def _one(measure: Measure, data_set: str, split: int, contender: str) -> Record:
    began = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = measure(data_set, split, contender)
    except Exception:
        return {"error": f"{data_set}, split {split}, {contender}: {traceback.format_exc()}"}
    return {"set": data_set, "split": split, "model": contender, **found, "s": time.perf_counter() - began}


def write_between(page: Path, name: str, text: str) -> None:
    """Replace what a page has between the comments that name the table."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    page.write_text(f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}", encoding="utf-8")


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
