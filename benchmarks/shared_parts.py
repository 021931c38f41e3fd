"""Own parts alone, a common part, and `couplings="auto"`: what they predict, on tasks that share more or less.

The sets of `predict_sets` and, where KERNELKIN_DATA has it, landmine with 30 rows a task, where being told the terrain
is the couplings "known". C is chosen by five folds of the training rows. A line of JSON for each fit; lines that are in
the file are not run again.

    python -m benchmarks.shared_parts results.jsonl [--seeds 3] [--sharing 0.5] [--sets groups]
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from kernelkin import MKMTRLClassifierCV, MKMTRLRegressorCV
from kernelkin.datasets import load_landmine

from .predict_sets import MADE

TEST_ROWS, LANDMINE = 100, "landmine, 30 rows"
GRID = {"C": np.logspace(-1, 2, 7)}
CHOICES = ("own", "common", "auto", "known")


def made(name: str, seed: int) -> tuple:
    """Training rows, test rows, and what is known about groups."""
    draw, rows = next((draw, rows) for each, draw, rows in MADE if each == name)
    X, y, tasks = draw(np.random.default_rng(seed), [n + TEST_ROWS for n in rows])
    train = np.concatenate([np.flatnonzero(tasks == t)[:n] for t, n in enumerate(rows)])
    known = {"groups": np.arange(len(rows)) % 3} if name.startswith("groups") else None
    return (X, y, tasks), train, known


def landmine(seed: int, n_rows: int = 30) -> tuple:
    data, rng, train = load_landmine(), np.random.default_rng(seed), []
    for task in data.task_names:
        rows = rng.permutation(np.flatnonzero(data.tasks == task))
        train += rows[:n_rows].tolist()
    X = (data.data - data.data[train].mean(axis=0)) / data.data[train].std(axis=0)
    known = {"terrain": np.array([task > "field10" for task in data.task_names])}
    return (X, data.target, data.tasks), np.array(train), known


def couplings_of(choice: str, known: dict | None):
    return {"own": None, "common": "common", "auto": "auto", "known": {"common": "common", **(known or {})}}[choice]


def run(name: str, seed: int, choice: str, sharing: float) -> dict:
    is_landmine = name == LANDMINE
    (X, y, tasks), train, known = landmine(seed) if is_landmine else made(name, seed)
    test = np.setdiff1d(np.arange(len(y)), train)
    if not is_landmine:
        y = standardised(y, tasks, train)
    shared = {"couplings": couplings_of(choice, known), "sharing": sharing, "random_state": 0, "search_tol": 1e-2}
    if is_landmine:
        grid = {"C": GRID["C"] / 10}
        model = MKMTRLClassifierCV(grid=grid, loss="squared", class_weight="balanced", scoring="roc_auc", **shared)
    else:
        model = MKMTRLRegressorCV(grid=GRID, parsimony=0.5, scoring="neg_mean_squared_error", **shared)
    model.fit(X[train], y[train], tasks=tasks[train])
    score = auc(model, X, y, tasks, test) if is_landmine else pooled_r2(model, X, y, tasks, test)
    names = [coupling.name for coupling in model.couplings_]
    return {"set": name, "seed": seed, "couplings": choice, "sharing": sharing, "folds": model.best_score_,
            "test": score, "C": model.best_params_["C"], "parts": names}  # fmt: skip


def standardised(y, tasks, train):
    """Targets in the units of each task's training rows: parts are shared between tasks of like units."""
    rows = [train[tasks[train] == t] for t in np.unique(tasks)]
    center, scale = (np.array([function(y[part]) for part in rows]) for function in (np.mean, np.std))
    return (y - center[tasks]) / scale[tasks]


def pooled_r2(model, X, y, tasks, test) -> float:
    errors = np.square(y[test] - model.predict(X[test], tasks[test]))
    spread = [np.var(y[test][tasks[test] == t]) for t in np.unique(tasks)]
    relative = [errors[tasks[test] == t].mean() / v for t, v in zip(np.unique(tasks), spread, strict=True)]
    return 1.0 - float(np.mean(relative))


def auc(model, X, y, tasks, test) -> float:
    values = model.decision_function(X[test], tasks[test])
    return float(np.mean([roc_auc_score(y[test][tasks[test] == t], values[tasks[test] == t]) for t in model.tasks_]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sharing", type=float, default=0.5)
    parser.add_argument("--sets", default="", help="only sets whose names contain this")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    lines = options.file.read_text().splitlines() if options.file.exists() else []
    done = {tuple(json.loads(line)[key] for key in ("set", "seed", "couplings", "sharing")) for line in lines}
    names = [name for name in (*(name for name, _, _ in MADE), LANDMINE) if options.sets in name]
    for name in names:
        for seed in range(options.seeds):
            for choice in CHOICES:
                if choice == "known" and not name.startswith(("groups", "landmine")):
                    continue
                if choice == "own" and name == LANDMINE:
                    continue  # some fields have no mine among the training rows
                if (name, seed, choice, options.sharing) not in done:
                    found = run(name, seed, choice, options.sharing)
                    print(found, flush=True)
                    with options.file.open("a") as file:
                        file.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
