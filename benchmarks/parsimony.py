"""What `parsimony` gains: the default kernels, charged for their effective dimension to three degrees.

python -m benchmarks parsimony -- --splits 3             run what is not stored, print the table
python -m benchmarks parsimony -- --report               write docs/parsimony.md from what is stored

The squared loss on SARCOS and on 20 schools, C by 5-fold cross-validation on the training rows; mean R² of the tasks on
test rows. Every result is a line of a file, and is not computed again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from kernelkin import AverageRegressor, MKMTRLRegressor
from kernelkin.paper.model_selection import MultiTaskCV

from .predict import read_results
from .predict_sets import Problem, experiment

RESULTS = Path(__file__).parent / "results" / "parsimony.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "parsimony.md"
COSTS = np.logspace(-2, 3, 11).tolist()
# Name of the row -> experiment, setting, number of tasks, couplings.
SETS: dict[str, tuple[str, str, int | None, str | None]] = {
    "SARCOS, 15 rows": ("sarcos", "15 rows", None, None),
    "SARCOS, 50 rows": ("sarcos", "50 rows", None, None),
    "SARCOS, 200 rows": ("sarcos", "200 rows", None, None),
    "20 schools": ("school", "27 kernels", 20, None),
    "20 schools, with a common part": ("school", "27 kernels", 20, "common"),
}
AVERAGE = "average kernel"
MODELS: dict[str, float | None] = {AVERAGE: None, "parsimony 0": 0.0, "parsimony 0.5": 0.5, "parsimony 1": 1.0}
TEXT = """\
# What parsimony gains

`parsimony` charges every kernel for its [effective dimension](mathematics.md#what-a-kernel-costs), so that narrow
Gaussians, which can fit anything, do not take too much weight. The table shows the mean R² of the tasks on test rows,
mean and standard error over {splits} splits. MK-MTRL has the squared loss and the default kernels, and `C` is chosen by
5-fold cross-validation on the training rows:

{table}

`parsimony` does not apply to the average kernel, since all its weights are the same. The average kernel has no common
part, hence the empty cell in the last row. Written by `python -m benchmarks parsimony -- --report` from the results of
`python -m benchmarks parsimony -- --splits {splits}`.
"""


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        "python -m benchmarks parsimony --", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--splits", type=int, default=3, metavar="N")
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS), metavar="NAME")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FILE")
    parser.add_argument("--report", action="store_true", help="run nothing; write the page")
    options = parser.parse_args(arguments)
    if options.report:
        records = read_results(options.output)
        splits = len({record["split"] for record in records})
        PAGE.write_text(TEXT.format(splits=splits, table=table(records)), encoding="utf-8")
        return
    done = {(record["set"], record["model"], record["split"]) for record in read_results(options.output)}
    for split, name, model in product(range(options.splits), options.sets, MODELS):
        if (name, model, split) not in done and not (model == AVERAGE and SETS[name][3]):
            _append(options.output, {"set": name, "model": model, "split": split, **measure(name, model, split)})
    print(table(read_results(options.output)))


def measure(name: str, model: str, split: int) -> dict[str, float]:
    """Return R², the C that was chosen and the processor time of a model on a split."""
    source, setting, tasks, couplings = SETS[name]
    problem = experiment(source, setting, split, tasks)
    parsimony, began = MODELS[model], time.process_time()
    estimator = AverageRegressor() if parsimony is None else MKMTRLRegressor(parsimony=parsimony, couplings=couplings)
    search = MultiTaskCV(estimator, {"C": COSTS}, random_state=split)
    search.fit(problem.X, problem.y, **_tasks(problem.tasks))
    return {"score": score(search, problem), "C": search.best_params_["C"], "seconds": time.process_time() - began}


def score(search: Any, problem: Problem) -> float:
    return float(search.score(problem.X_test, problem.y_test, **_tasks(problem.tasks_test)))


def table(records: Sequence[dict[str, Any]]) -> str:
    """Return the table as Markdown."""
    lines = ["| | " + " | ".join(MODELS) + " |", "|---" * (len(MODELS) + 1) + "|"]
    for name in SETS:
        cells = [[r["score"] for r in records if (r["set"], r["model"]) == (name, model)] for model in MODELS]
        if any(cells):
            lines.append(f"| {name} | " + " | ".join(_cell(scores) for scores in cells) + " |")
    return "\n".join(lines)


def _cell(scores: Sequence[float]) -> str:
    if not scores:
        return ""
    error = f" ± {np.std(scores, ddof=1) / np.sqrt(len(scores)):.3f}" if len(scores) > 1 else ""
    return f"{np.mean(scores):.3f}{error}"


def _tasks(tasks: np.ndarray | None) -> dict[str, np.ndarray]:
    return {} if tasks is None else {"tasks": tasks}


def _append(path: Path, record: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")
