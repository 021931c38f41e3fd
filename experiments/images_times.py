"""Training time on images, for the paper's second figure: one fit after the other, on a fixed number of threads.

One line of JSON for each fit. A command that was interrupted continues from there when it is repeated.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from . import find_protocol
from .images_data import FOLDER
from .images_models import block
from .protocol import Model, Setting


def time_fit(model: Model, setting: Setting, split: Any, threads: int) -> dict[str, Any]:
    """Fit a model without choosing its parameters, which are the last ones of those it would choose from."""
    last = {name: values[-1] for name, values in model.estimator.grid.items()}
    estimator = clone(model.estimator.model).set_params(**last, n_jobs=threads)
    with threadpool_limits(threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Modules are imported and compiled code is loaded by a fit that is not timed, of a few classes.
        few = np.flatnonzero(split.y[:, :3].any(axis=1))
        clone(estimator).fit(block(split.X, few, few), split.y[few, :3] > 0)
        began, processor = time.perf_counter(), time.process_time()
        estimator.fit(split.X, split.y > 0)
        seconds, processor = time.perf_counter() - began, time.process_time() - processor
    return {
        "size": setting.size,
        "model": model.name,
        "parameters": last,
        "threads": threads,
        "seconds": round(seconds, 3),
        "processor seconds": round(processor, 3),
        "relative gap": float(estimator.duality_gap_ / estimator.objective_),
    }


def main() -> None:
    parser = ArgumentParser("python -m experiments.images_times", description=__doc__)
    parser.add_argument("name", choices=["flowers", "caltech"])
    parser.add_argument("--images", metavar="DIR", help="folder of descriptors")
    parser.add_argument("--sizes", nargs="+", type=int, metavar="N", help="only these sizes")
    parser.add_argument("--models", nargs="+", metavar="NAME", help="only these models")
    parser.add_argument("--threads", type=int, default=2, metavar="N")
    parser.add_argument("--repeats", type=int, default=1, metavar="N", help="splits, one fit on each")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="JSON lines")
    given = parser.parse_args()
    if given.images:
        os.environ[FOLDER] = given.images
    if hasattr(os, "sched_setaffinity"):
        # The first cores alone, so that no library finds more.
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: given.threads])
    done = {_key(line) for line in _lines(given.output)}
    protocol = find_protocol(given.name)
    for run in range(given.repeats):
        for setting in protocol.settings:
            if given.sizes is not None and setting.size not in given.sizes:
                continue
            split = None
            for model in protocol.models(setting):
                key = (run, setting.size, model.name, given.threads)
                if key in done or (given.models is not None and model.name not in given.models):
                    continue
                split = protocol.split(setting, run) if split is None else split
                found = {"run": run, **time_fit(model, setting, split, given.threads)}
                with given.output.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(found) + "\n")
                print(found, file=sys.stderr, flush=True)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def _key(line: dict[str, Any]) -> tuple[int, int, str, int]:
    return line["run"], line["size"], line["model"], line["threads"]


if __name__ == "__main__":
    main()
