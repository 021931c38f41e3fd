"""`kernelkin compare`: several models on one table, cross-validated."""

from __future__ import annotations

import time
import warnings
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..io.fingerprint import fingerprint
from ..io.storage import Folder
from ..schema import TableSchema
from .evaluation import Answers, answer, folds, metric_of, score_name
from .kernel_spec import HELP as KERNELS
from .tables import read_table
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


def run(arguments: Namespace, terminal: Any) -> None:
    if arguments.folds < 2:
        raise ValueError(f"--folds must be 2 at least, not {arguments.folds}")
    check_cache(arguments)
    problem = read_problem(read_table(arguments.data), arguments)
    recipes = {recipe.name: recipe for recipe in (Recipe.of(name, problem, arguments) for name in arguments.models)}
    check_parameters(list(recipes.values()), arguments)
    for note in problem.notes:
        terminal.say(note)
    metric = metric_of(problem.scoring, classification=not problem.regression)
    answers, seconds = _cross_validate(problem, recipes, arguments, terminal, metric)
    found = {name: (*answers[name].jackknife(metric), seconds[name]) for name in recipes}
    best = max(value for value, *_ in found.values())
    rows = [
        [
            name,
            f"{'*' if value == best else ''}{value:.4f}",
            f"±{error:.4f}",
            _wins(name, answers, metric),
            f"{took:.1f}",
        ]
        for name, (value, error, took) in sorted(found.items(), key=lambda item: -item[1][0])
    ]
    how = (
        "parameters chosen inside each training part"
        if arguments.cv
        else "parameters not chosen for this table: try --cv"
    )
    terminal.say(
        f"{score_name(problem.scoring)}, {arguments.folds} folds inside every task, mean over tasks ± standard error "
        f"over folds\n({how}; * best; tasks: where a model is the best of these)"
    )
    terminal.table(["model", score_name(problem.scoring), "", "tasks", "seconds"], rows)


def _cross_validate(
    problem: Problem, recipes: dict[str, Recipe], arguments: Namespace, terminal: Any, metric: Any
) -> tuple[dict[str, Answers], dict[str, float]]:
    whole = problem.schema()
    tasks, y = whole.tasks(problem.frame), whole.targets(problem.frame)
    fold_of = folds(tasks, y, arguments.folds, arguments.seed, classification=not problem.regression)
    answers = {name: Answers.empty(tasks, y, metric) for name in recipes}
    seconds = dict.fromkeys(recipes, 0.0)
    cache = Folder(arguments.cache) if arguments.cache else None
    with terminal.progress(arguments.folds * len(recipes)) as step:
        for fold in range(arguments.folds):
            train, test = np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)
            schema = problem.schema(train)
            for name, recipe in recipes.items():
                piece = Piece(recipe, schema, problem.frame.iloc[train], problem.frame.iloc[test], metric, step)
                found = piece.load(cache)
                step(f"fold {fold + 1}: {name}{'' if found is None else ', from the cache'}")
                values, took = piece.perform(cache) if found is None else found
                answers[name].note(values, test, fold)
                seconds[name] += took
    return answers, seconds


@dataclass(frozen=True)
class Piece:
    """One model on one fold: what it says of the rows that were held out, and the seconds its fit took."""

    recipe: Recipe
    schema: TableSchema
    train: DataFrame
    test: DataFrame
    metric: Any
    step: Any

    def perform(self, cache: Folder | None) -> tuple[np.ndarray, float]:
        began = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = self.recipe.fit(self.schema, self.train, self.step)
        seconds = time.perf_counter() - began
        values = answer(model, self.schema.encode(self.test), self.schema.tasks(self.test), self.metric)
        told = [str(warning.message) for warning in caught]
        if cache is not None:
            cache.write_arrays(self._name, values=values, seconds=seconds, warnings=np.array(told, dtype=str))
        _tell(told)
        return values, seconds

    def load(self, cache: Folder | None) -> tuple[np.ndarray, float] | None:
        """What was stored of it; its warnings are told again."""
        stored = None if cache is None else cache.read_arrays(self._name)
        if stored is None:
            return None
        _tell(stored["warnings"].tolist())
        return stored["values"], float(stored["seconds"])

    @cached_property
    def _name(self) -> str:
        """Of its file: changes with whatever the answer depends on."""
        tasks = self.schema.tasks(self.train)
        model = self.recipe.unfitted(self.schema, len(np.unique(tasks)), self.step)
        # How it is computed, not what.
        ways = [name for name in model.get_params() if name.rpartition("__")[2] in ("n_jobs", "cache", "callback")]
        model.set_params(**dict.fromkeys(ways))
        rows = self.schema.encode(self.train), self.schema.targets(self.train), tasks
        asked = self.schema.encode(self.test), self.schema.tasks(self.test), self.metric.ranks
        return f"{fingerprint(model, rows, asked)}.npz"


def _tell(texts: list[str]) -> None:
    for text in texts:
        warnings.warn(text, stacklevel=1)


def _wins(name: str, answers: dict[str, Answers], metric: Any) -> str:
    """In how many tasks no model is better."""
    scores = {other: np.array(list(found.scores(metric).values())) for other, found in answers.items()}
    best = np.nanmax(np.stack(list(scores.values())), axis=0)
    return str(int((scores[name] >= best).sum()))
