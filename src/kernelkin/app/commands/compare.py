"""`kernelkin compare`: several models on one table, cross-validated."""

from __future__ import annotations

import time
import warnings
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...io.fingerprint import fingerprint
from ...io.storage import Folder
from ...progress import Progress
from ...tables import TableSchema
from ...tables.files import read_table
from ..terminal import Terminal
from .evaluation import HeldOut, folds, metric_of, score_name, values_for
from .kernel_spec import HELP as KERNELS
from .search_folder import search_folder
from .training import (
    Problem,
    Recipe,
    add_data_arguments,
    add_model_arguments,
    check_cache,
    check_parameters,
    read_problem,
)

if TYPE_CHECKING:
    from pandas import DataFrame

HELP = "cross-validate several models on a table and show them side by side"
EXAMPLES = (
    "  kernelkin compare shops.csv --task shop --target sales\n"
    "  kernelkin compare shops.csv --task shop --target sales --models MK-MTRL AVG IMKL Lasso --cv\n\n" + KERNELS
)
MODELS = ("MK-MTRL", "AVG", "STL", "IMKL")


def add_arguments(parser: ArgumentParser) -> None:
    add_data_arguments(parser)
    parser.add_argument(
        "--models", nargs="+", default=list(MODELS), metavar="NAME", help=f"default: {' '.join(MODELS)}"
    )
    parser.add_argument("--folds", type=int, default=5, metavar="K", help="parts, each held out once (default: 5)")
    add_model_arguments(parser)


def run(arguments: Namespace, terminal: Terminal) -> None:
    if arguments.folds < 2:
        raise ValueError(f"--folds must be at least 2, not {arguments.folds}")
    check_cache(arguments)
    problem = read_problem(read_table(arguments.data, arguments.task, arguments.target), arguments)
    recipes = {recipe.name: recipe for recipe in (Recipe.of(name, problem, arguments) for name in arguments.models)}
    check_parameters(list(recipes.values()), arguments)
    terminal.say(*problem.notes)
    metric = metric_of(problem.scoring, classification=not problem.regression)
    with search_folder(arguments.cache) as folder:
        found, seconds = _cross_validate(problem, recipes, arguments, terminal, metric, folder)
    score = score_name(problem.scoring)
    how = (
        "chosen by --cv inside each training part" if arguments.cv else "at their defaults or as given; --cv tunes them"
    )
    terminal.say(
        f"{score}, {arguments.folds} folds inside every task: mean over tasks ± standard error over folds",
        f"(parameters {how}; * best; tasks: number of tasks in which no model is better)",
    )
    terminal.table(["model", score, "", "tasks", "seconds"], _rows(found, seconds, metric))


def _rows(found: dict[str, HeldOut], seconds: dict[str, float], metric: Any) -> list[list[str]]:
    """A row for each model, the best first."""
    scores = {name: held_out.jackknife(metric) for name, held_out in found.items()}
    best = max(value for value, _ in scores.values())
    wins = _wins(found, metric)
    return [
        [name, f"{'*' if value == best else ''}{value:.4f}", f"±{error:.4f}", str(wins[name]), f"{seconds[name]:.1f}"]
        for name, (value, error) in sorted(scores.items(), key=lambda item: -item[1][0])
    ]


def _wins(found: dict[str, HeldOut], metric: Any) -> dict[str, int]:
    """The number of tasks in which no model is better."""
    scores = {name: np.array(list(held_out.scores(metric).values())) for name, held_out in found.items()}
    best = np.nanmax(np.stack(list(scores.values())), axis=0)
    return {name: int((values >= best).sum()) for name, values in scores.items()}


def _cross_validate(
    problem: Problem,
    recipes: dict[str, Recipe],
    arguments: Namespace,
    terminal: Terminal,
    metric: Any,
    folder: Path | None,
) -> tuple[dict[str, HeldOut], dict[str, float]]:
    whole = problem.schema()
    tasks, y = whole.tasks(problem.frame), whole.targets(problem.frame)
    fold_of = folds(tasks, y, arguments.folds, arguments.seed, classification=not problem.regression)
    found = {name: HeldOut.empty(tasks, y, metric) for name in recipes}
    seconds = dict.fromkeys(recipes, 0.0)
    cache = None if folder is None else Folder(folder)
    with terminal.progress(arguments.folds * len(recipes)) as progress:
        for fold in range(arguments.folds):
            train, test = np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)
            schema = problem.schema(train)
            for name, recipe in recipes.items():
                piece = Piece(recipe, schema, problem.frame.iloc[train], problem.frame.iloc[test], metric, progress)
                stored = piece.load(cache)
                progress.begin(f"fold {fold + 1}: {name}{'' if stored is None else ', from the cache'}")
                values, took = piece.perform(cache) if stored is None else stored
                found[name].record(values, test, fold)
                seconds[name] += took
    return found, seconds


@dataclass(frozen=True)
class Piece:
    """One model on one fold: its values for the held-out rows, and the seconds that its fit took."""

    recipe: Recipe
    schema: TableSchema
    train: DataFrame
    test: DataFrame
    metric: Any
    progress: Progress

    def perform(self, cache: Folder | None) -> tuple[np.ndarray, float]:
        began = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = self.recipe.fit(self.schema, self.train, self.progress)
        seconds = time.perf_counter() - began
        values = values_for(model, self.schema.encode(self.test), self.schema.tasks(self.test), self.metric)
        texts = [str(warning.message) for warning in caught]
        if cache is not None:
            cache.write_arrays(self._name, values=values, seconds=seconds, warnings=np.array(texts, dtype=str))
        _warn(texts)
        return values, seconds

    def load(self, cache: Folder | None) -> tuple[np.ndarray, float] | None:
        """What was stored of it; its warnings are shown again."""
        stored = None if cache is None else cache.read_arrays(self._name)
        if stored is None:
            return None
        _warn(stored["warnings"].tolist())
        return stored["values"], float(stored["seconds"])

    @cached_property
    def _name(self) -> str:
        """The name of its file, which changes with everything that the values depend on."""
        tasks = self.schema.tasks(self.train)
        model = self.recipe.unfitted(self.schema, self.progress)
        # These change how the model is computed, not the result.
        ways = [name for name in model.get_params() if name.rpartition("__")[2] in ("n_jobs", "cache", "callback")]
        model.set_params(**dict.fromkeys(ways))
        rows = self.schema.encode(self.train), self.schema.targets(self.train), tasks
        queries = self.schema.encode(self.test), self.schema.tasks(self.test), self.metric.ranks
        return f"{fingerprint(model, rows, queries)}.npz"


def _warn(texts: list[str]) -> None:
    for text in texts:
        warnings.warn(text, stacklevel=1)
