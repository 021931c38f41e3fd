"""Does sharing help on known data? Sharing reports of Kin.

python -m benchmarks sharing             every set of data; results are kept as JSON lines, and continued
python -m benchmarks sharing landmine    one of them
python -m benchmarks sharing --table     write the section of the documentation from what is kept
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from typing import Any

import numpy as np

from .relations import REAL, RESULTS, load_data, write_section

KEPT = RESULTS.with_name("sharing.jsonl")
FOLDS = 3
DATA = [name for name in REAL if name != "mfeat"]
# Rows of each task and tasks at most, drawn at random and the first ones.
LIMITS = {"landmine": (100, 19), "school": (60, 20)}


def perform(name: str) -> dict[str, Any]:
    """The report on one set, as text and numbers."""
    from kernelkin import KinClassifier, KinRegressor, sharing_report

    warnings.simplefilter("ignore")
    began = time.perf_counter()
    X, y, tasks, classification = _some_rows(name, *load_data(name))
    model = (KinClassifier if classification else KinRegressor)(random_state=0)
    report = sharing_report(model, X, y, tasks, cv=FOLDS, random_state=0)
    return {
        "data": name,
        "text": str(report),
        "verdict": report.verdict,
        "rows": len(X),
        "tasks": len(report.tasks),
        "seconds": round(time.perf_counter() - began, 1),
    }


def _some_rows(name: str, X: Any, y: Any, tasks: Any, classification: bool) -> tuple[Any, Any, Any, bool]:
    """At most so many rows of each of the first tasks."""
    if name not in LIMITS:
        return X, y, tasks, classification
    rng, (n_rows, n_tasks) = np.random.default_rng(0), LIMITS[name]
    labels = np.asarray(tasks)
    kept = [rng.permutation(np.flatnonzero(labels == task))[:n_rows] for task in np.unique(labels)[:n_tasks]]
    rows = np.sort(np.concatenate(kept))
    return np.asarray(X)[rows], np.asarray(y)[rows], labels[rows], classification


def read() -> list[dict[str, Any]]:
    return [json.loads(line) for line in KEPT.read_text().splitlines()] if KEPT.exists() else []


def section() -> str:
    """The kept reports as Markdown."""
    parts = []
    for record in read():
        title = f"**{record['data']}** ({record['rows']} rows, {record['tasks']} groups)"
        parts.append(f"{title}\n\n```text\n{record['text']}\n```")
    return "\n\n".join(parts)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks sharing", description=__doc__)
    parser.add_argument("data", nargs="*", default=DATA, help=f"default: {', '.join(DATA)}")
    parser.add_argument("--table", action="store_true", help="write the section, and run nothing")
    options = parser.parse_args(arguments)
    done = {record["data"] for record in read()}
    for name in () if options.table else [name for name in options.data if name not in done]:
        record = perform(name)
        with KEPT.open("a") as file:
            file.write(json.dumps(record) + "\n")
        print(name, record["verdict"], flush=True)
    write_section("sharing", section())
