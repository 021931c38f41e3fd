"""What a learned relationship of the kernels gains (`kernel_shrinkage` below 1): made tasks and real ones.

python -m benchmarks matrix_normal -- --splits 4         run what is not stored, print the table

MK-MTRL with unrelated kernels, with unrelated kernels and one mix for all tasks (`shrinkage=0`), and with related
ones, each with C and `min_rank` by 3-fold cross-validation on the training rows. "Gain of the choice" is what a user
would gain: the best of all three by cross-validation, less the best of the first two. Mean R² of the tasks on test
rows; for the digits, how often the class with the largest value is the right one. Every result is a line of a file, and
is not computed again.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from kernelkin import MKMTRLClassifier, MKMTRLRegressor, gaussian_kernels, view_kernels
from kernelkin.datasets import load_mfeat
from kernelkin.exceptions import CollapseWarning
from kernelkin.paper.model_selection import MultiTaskCV

from .parsimony import score
from .predict import read_results
from .predict_sets import Problem, draw_function, experiment, mfeat

RESULTS = Path(__file__).parent / "results" / "matrix_normal.jsonl"
# Made tasks, and real ones.
COSTS, WIDE_COSTS = np.logspace(-0.75, 1.25, 9).tolist(), np.logspace(0, 5, 11).tolist()
UNRELATED, ONE_MIX, RELATED = "unrelated", "unrelated, one mix", "related"
# The parameters of each, and the values of `min_rank` to choose from.
CONTENDERS: dict[str, tuple[dict[str, float], list[float]]] = {
    UNRELATED: ({}, [1.0, 3.0]),
    ONE_MIX: ({"shrinkage": 0.0}, [1.0]),
    RELATED: ({"kernel_shrinkage": 0.05}, [1.0, 3.0]),
}
TEST_ROWS, NOISE = 100, 0.3
VIEWS = ("fou", "fac", "kar", "pix", "zer", "mor")
WIDTHS = (0.5, 1.0, 2.0)


def grouped(rng: np.random.Generator, T: int) -> tuple[np.ndarray, np.ndarray]:
    """Twelve views in four groups: a task needs all views of a group alike, and tasks have nothing in common."""
    return np.repeat(rng.gamma(0.3, size=(T, 4)), 3, axis=1), np.arange(12)


def redundant(rng: np.random.Generator, T: int) -> tuple[np.ndarray, np.ndarray]:
    """Four views that tasks need in their own proportions, of which the first two have four noisy copies each."""
    return rng.gamma(0.3, size=(T, 4)), np.repeat(np.arange(4), [5, 5, 1, 1])


def redundant_noise(rng: np.random.Generator, T: int) -> tuple[np.ndarray, np.ndarray]:
    """Two views that all tasks need, and two that none needs, with four noisy copies each."""
    return rng.uniform(0.5, 1.5, size=(T, 4)) * [1, 1, 0, 0], np.repeat(np.arange(4), [1, 1, 5, 5])


def unrelated(rng: np.random.Generator, T: int) -> tuple[np.ndarray, np.ndarray]:
    """Twelve views, each as likely as the others, whatever the task."""
    return rng.gamma(0.3, size=(T, 12)), np.arange(12)


# Weights (T, V) of the views that functions depend on, and which of these each of the kernels sees.
Design = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]
# Name -> design, tasks, training rows of a task.
MADE: dict[str, tuple[Design, int, int]] = {
    "grouped kernels": (grouped, 20, 60),
    "grouped kernels, many small tasks": (grouped, 60, 20),
    "redundant kernels, useful": (redundant, 20, 60),
    "redundant kernels, useless": (redundant_noise, 20, 60),
    "neither": (unrelated, 20, 60),
}
REAL = ("SARCOS, 50 rows", "mfeat, 100 rows")


def made(name: str, split: int) -> tuple[Problem, list[Any]]:
    """Tasks whose functions are sums of functions of views, of two columns each; a Gaussian on each view or copy."""
    rng = np.random.default_rng([split, 22])
    design, T, n_train = MADE[name]
    weights, seen = design(rng, T)
    weights = weights / weights.sum(axis=1, keepdims=True)
    n, V = n_train + TEST_ROWS, weights.shape[1]
    views = rng.normal(size=(T * n, V, 2))
    tasks, y = np.repeat(np.arange(T), n), np.zeros(T * n)
    for t, v in product(range(T), range(V)):
        rows = tasks == t
        y[rows] += np.sqrt(weights[t, v]) * draw_function(rng, 2, width=1.5)(views[rows, v])
    y += NOISE * rng.normal(size=len(y))
    copies = np.array([v in seen[:k] for k, v in enumerate(seen)])
    X = views[:, seen] + 0.3 * copies[:, np.newaxis] * rng.normal(size=(len(y), len(seen), 2))
    X, train = X.reshape(len(y), -1), np.tile(np.arange(n) < n_train, T)
    kernels = view_kernels({f"view {v}, {k}": [2 * k, 2 * k + 1] for k, v in enumerate(seen)}, kernel="rbf")
    return Problem(X[train], y[train], tasks[train], X[~train], y[~train], tasks[~train]), kernels


def real(name: str, split: int) -> tuple[Problem, list[Any]]:
    """Seven joints of a robot with the kernels of the paper; ten digits with three Gaussians on each of six views."""
    source, rows = name.split(", ")
    if source == "SARCOS":
        from experiments.sarcos import KERNELS

        return experiment("sarcos", rows, split), KERNELS
    data, views, start = load_mfeat(), {}, 0
    for view in VIEWS:
        width = data.data[:, data.views[view]].shape[1]
        views[view] = list(range(start, start + width))
        start += width
    kernels = [k for columns in views.values() for k in gaussian_kernels(WIDTHS, columns=columns)]
    return mfeat(VIEWS, int(rows.split()[0]), split), kernels


def measure(name: str, split: int) -> dict[str, Any]:
    """Return what each contender reaches."""
    problem, kernels = made(name, split) if name in MADE else real(name, split)
    costs, tasks = COSTS if name in MADE else WIDE_COSTS, {} if problem.tasks is None else {"tasks": problem.tasks}
    found = {}
    for contender, (parameters, ranks) in CONTENDERS.items():
        began = time.process_time()
        model = (MKMTRLClassifier if name.startswith("mfeat") else MKMTRLRegressor)(kernels, **parameters)
        search = MultiTaskCV(model, {"C": costs, "min_rank": ranks}, cv=3, search_tol=1e-2, random_state=split)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CollapseWarning)
            search.fit(problem.X, problem.y, **tasks)
        found[contender] = {
            "score": accuracy(search, problem) if name.startswith("mfeat") else score(search, problem),
            "cv": float(search.best_score_),
            **search.best_params_,
            "rank": float(search.effective_rank_),
            "seconds": time.process_time() - began,
        }
    return found


def accuracy(search: Any, problem: Problem) -> float:
    """Return how often the class with the largest value is the right one."""
    return float(np.mean(search.decision_function(problem.X_test).argmax(axis=1) == problem.y_test.argmax(axis=1)))


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks matrix_normal --",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--splits", type=int, default=4, metavar="N")
    parser.add_argument("--sets", nargs="+", choices=[*MADE, *REAL], default=[*MADE, *REAL], metavar="NAME")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FILE")
    options = parser.parse_args(arguments)
    done = {(record["set"], record["split"]) for record in read_results(options.output)}
    for split, name in product(range(options.splits), options.sets):
        if (name, split) not in done:
            options.output.parent.mkdir(parents=True, exist_ok=True)
            record = {"set": name, "split": split, "found": measure(name, split)}
            with options.output.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
    print(table(read_results(options.output)))


def table(records: Sequence[dict[str, Any]]) -> str:
    """Return the table as Markdown; differences are paired by splits."""
    titles = ["", "splits", *CONTENDERS, "related less unrelated", "gain of the choice", "time, related over unrelated"]
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for name in [*MADE, *REAL]:
        rows = [record["found"] for record in records if record["set"] == name]
        if rows:
            scores = {contender: np.array([row[contender]["score"] for row in rows]) for contender in CONTENDERS}
            gains = [_chosen(row, [*CONTENDERS]) - _chosen(row, [UNRELATED, ONE_MIX]) for row in rows]
            times = np.median([row[RELATED]["seconds"] / row[UNRELATED]["seconds"] for row in rows])
            cells = [f"{np.mean(scores[contender]):.3f}" for contender in CONTENDERS]
            cells += [_difference(scores[RELATED] - scores[UNRELATED]), _difference(np.array(gains)), f"{times:.1f}"]
            lines.append(f"| {' | '.join([name, str(len(rows)), *cells])} |")
    return "\n".join(lines)


def _chosen(row: dict[str, Any], contenders: Sequence[str]) -> float:
    """Return the test score of the contender that cross-validation finds best."""
    return row[max(contenders, key=lambda contender: row[contender]["cv"])]["score"]


def _difference(values: np.ndarray) -> str:
    error = f" ± {np.std(values, ddof=1) / np.sqrt(len(values)):.3f}" if len(values) > 1 else ""
    return f"{np.mean(values):+.3f}{error}"
