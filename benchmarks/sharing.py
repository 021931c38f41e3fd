"""Does sharing help on known data? Sharing reports with learning curves.

python -m benchmarks sharing             every set of data; results are kept as JSON lines, and continued
python -m benchmarks sharing landmine    one of them
python -m benchmarks sharing --tuned     the same, C chosen by cross-validation in every fold; no learning curves
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
FOLDS, REPEATS = 3, 1
# With --tuned; the models without sharing choose among those of `sharing_report`.
COSTS = (0.01, 0.1, 1.0)
IMAGES = 200
# Rows of each task and tasks at most, drawn at random and the first ones; rows of the learning curve.
LIMITS = {"landmine": (100, 19), "school": (60, 20)}
CURVES = {
    "diabetes, random wards": (10, 20, 40, 80),
    "landmine": (20, 50),
    "school": (10, 20, 40),
    "mfeat": (40, 80),
}


def perform(name: str, tuned: bool) -> dict[str, Any]:
    """The report on one set, as text and numbers."""
    from kernelkin import MKMTRLClassifier, MKMTRLRegressor, MultiTaskCV, sharing_report

    warnings.simplefilter("ignore")
    began = time.perf_counter()
    X, y, tasks, classification = _some_rows(name, *load_data(name))
    if classification:
        # The digits are tasks on the same rows: a common part would be the same for all ten.
        couplings = None if tasks is None else "common"
        model: Any = MKMTRLClassifier(class_weight="balanced", couplings=couplings)
    else:
        model = MKMTRLRegressor(couplings="common")
    options: dict[str, Any] = {"cv": FOLDS, "n_repeats": REPEATS, "random_state": 0}
    if tuned:
        model = MultiTaskCV(model, {"C": list(COSTS)}, cv=3, random_state=0)
    else:
        options["curve_sizes"] = CURVES[name]
    report = sharing_report(model, X, y, tasks, scoring="roc_auc" if classification else None, **options)
    return {
        "data": name,
        "tuned": tuned,
        "text": str(report),
        "verdict": report.verdict,
        "curve": report.curve
        and [
            [int(size), gain.mean.tasks, gain.low.tasks, gain.high.tasks]
            for size, gain in zip(report.curve.sizes, report.curve.gains, strict=True)
        ],
        "stops_at": report.curve and report.curve.stops_at,
        "rows": len(X),
        "tasks": len(report.tasks),
        "seconds": round(time.perf_counter() - began, 1),
    }


def _some_rows(name: str, X: Any, y: Any, tasks: Any, classification: bool) -> tuple[Any, Any, Any, bool]:
    """At most so many rows of each of the first tasks."""
    if tasks is None:
        return X[:IMAGES], y[:IMAGES], tasks, classification
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
        how = "C chosen by cross-validation" if record["tuned"] else "default parameters"
        title = f"**{record['data']}** ({record['rows']} rows, {record['tasks']} tasks; {how})"
        parts.append(f"{title}\n\n```text\n{record['text']}\n```")
    return "\n\n".join(parts)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks sharing", description=__doc__)
    parser.add_argument("data", nargs="*", default=list(REAL), help=f"default: {', '.join(REAL)}")
    parser.add_argument("--tuned", action="store_true", help="choose C by cross-validation in every fold")
    parser.add_argument("--table", action="store_true", help="write the section, and run nothing")
    options = parser.parse_args(arguments)
    done = {record["data"] for record in read() if record["tuned"] == options.tuned}
    for name in () if options.table else [name for name in options.data if name not in done]:
        record = perform(name, options.tuned)
        with KEPT.open("a") as file:
            file.write(json.dumps(record) + "\n")
        print(name, record["verdict"], flush=True)
    write_section("sharing", section())
