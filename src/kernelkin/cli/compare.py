"""`kernelkin compare`: several models on one table, cross-validated."""

from __future__ import annotations

import time
import warnings
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ..files import Folder, fingerprint
from ..paper.model_selection import Scorer, make_folds
from ..progress import Progress
from ..tables import TableSchema
from .holdout import held_values, read_metric, score_name, split_by_task
from .kernel_spec import HELP as KERNELS
from .problem import Problem, add_data_arguments, load_problem
from .sharing import add_sharing_argument, check_sharing_argument, verdict_on_sharing
from .terminal import Terminal
from .training import Recipe, add_model_arguments, check_cache, check_parameters, says_what_is_kept

if TYPE_CHECKING:
    from pandas import DataFrame

HELP = "cross-validate several models on a table and show them side by side"
EXAMPLES = (
    "  kernelkin compare shops.csv --task shop --target sales\n"
    "  kernelkin compare shops.csv --task shop --target sales --models MK-MTRL AVG IMKL Lasso --cv\n\n"
    "if it is interrupted, it continues with the same command, if --cache names a folder\n\n" + KERNELS
)
MODELS = ("Kin", "MK-MTRL", "AVG", "STL", "IMKL")


def add_arguments(parser: ArgumentParser) -> None:
    add_data_arguments(parser)
    parser.add_argument(
        "--models", nargs="+", default=list(MODELS), metavar="NAME", help=f"default: {' '.join(MODELS)}"
    )
    parser.add_argument("--folds", type=int, default=5, metavar="K", help="parts, each held out once (default: 5)")
    add_sharing_argument(parser)
    add_model_arguments(parser)


def run(arguments: Namespace, terminal: Terminal) -> None:
    if arguments.folds < 2:
        raise ValueError(f"--folds must be at least 2, not {arguments.folds}")
    check_sharing_argument(arguments)
    check_cache(arguments)
    # Tiny tasks have no row to test on, and some of the models cannot learn them.
    problem = load_problem(arguments).settle_tiny_tasks(shares_functions=False)
    recipes = {recipe.name: recipe for recipe in (Recipe.of(name, problem, arguments) for name in arguments.models)}
    check_parameters(list(recipes.values()), arguments)
    terminal.say(*problem.notes)
    steps = arguments.folds * len(recipes) + (arguments.sharing_repeats != 0)
    with says_what_is_kept(arguments.cache), terminal.progress(steps) as progress:
        found = _cross_validate(
            problem, recipes, arguments, progress, None if arguments.cache is None else Folder(arguments.cache)
        )
        progress.clear()
        _show(terminal, problem, arguments, found)
        if arguments.sharing_repeats != 0:
            first = next(iter(recipes.values()))
            report = verdict_on_sharing(first, problem.schema(), problem.frame, progress)
            progress.clear()
            terminal.say("", *str(report).split("\n"))


def _show(terminal: Terminal, problem: Problem, arguments: Namespace, found: dict[str, Scores]) -> None:
    """The table of models."""
    score = score_name(problem.scoring)
    how = (
        "chosen by --cv inside each training part" if arguments.cv else "at their defaults or as given; --cv tunes them"
    )
    terminal.say(
        f"{score}, {arguments.folds} folds inside every task: mean over tasks ± standard error over folds",
        f"(parameters {how}; * best; tasks: number of tasks in which no model is better)",
    )
    terminal.table(["model", score, "", "tasks", "seconds"], _rows(found))


@dataclass(frozen=True)
class Scores:
    """The mean score of a model over tasks, its standard error over folds, the score of each task, and its time."""

    mean: float
    error: float
    tasks: np.ndarray
    seconds: float


def _rows(found: dict[str, Scores]) -> list[list[str]]:
    """A row for each model, the best first, with the number of tasks in which no model is better."""
    best = max(scores.mean for scores in found.values())
    best_of_task = np.nanmax(np.stack([scores.tasks for scores in found.values()]), axis=0)
    return [
        [
            name,
            f"{'*' if scores.mean == best else ''}{scores.mean:.4f}",
            f"±{scores.error:.4f}",
            str((scores.tasks >= best_of_task).sum()),
            f"{scores.seconds:.1f}",
        ]
        for name, scores in sorted(found.items(), key=lambda item: -item[1].mean)
    ]


def _cross_validate(
    problem: Problem, recipes: dict[str, Recipe], arguments: Namespace, progress: Progress, cache: Folder | None
) -> dict[str, Scores]:
    classification, data = not problem.regression, problem.task_data()
    metric = read_metric(problem.scoring, data, classification=classification)
    folds = make_folds(data, arguments.folds, classification=classification, random_state=arguments.seed)
    outputs: dict[str, list[list[np.ndarray]]] = {name: [] for name in recipes}
    seconds = dict.fromkeys(recipes, 0.0)
    for number, fold in enumerate(folds):
        train, test = fold.rows(data)
        schema = problem.schema(train)
        for name, recipe in recipes.items():
            piece = Piece(recipe, schema, problem.frame.iloc[train], problem.frame.iloc[test], progress)
            stored = piece.load(cache)
            progress.begin(f"fold {number + 1}: {name}{'' if stored is None else ', from the cache'}")
            values, took = piece.perform(cache) if stored is None else stored
            outputs[name].append(split_by_task(values, data, fold, classification=classification))
            seconds[name] += took
    scorer = Scorer(data, folds, metric, classification=classification)
    return {
        name: Scores(*scorer.score(values)[:2], scorer.score_tasks(values), seconds[name])
        for name, values in outputs.items()
    }


@dataclass(frozen=True)
class Piece:
    """One model on one fold: its values for the held-out rows, and the seconds that its fit took."""

    recipe: Recipe
    schema: TableSchema
    train: DataFrame
    test: DataFrame
    progress: Progress

    def perform(self, cache: Folder | None) -> tuple[np.ndarray, float]:
        began = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = self.recipe.fit(self.schema, self.train, self.progress)
        seconds = time.perf_counter() - began
        values = held_values(model, self.schema, self.test)
        texts = [str(warning.message) for warning in caught]
        if cache is not None:
            cache.write_arrays(self._key, values=values, seconds=seconds, warnings=np.array(texts, dtype=str))
        _warn(texts)
        return values, seconds

    def load(self, cache: Folder | None) -> tuple[np.ndarray, float] | None:
        """What was stored of it; its warnings are shown again."""
        stored = None if cache is None else cache.read_arrays(self._key)
        if stored is None:
            return None
        _warn(stored["warnings"].tolist())
        return stored["values"], float(stored["seconds"])

    @cached_property
    def _key(self) -> str:
        """Changes with everything that the values depend on."""
        tasks = self.schema.tasks(self.train)
        model = self.recipe.unfitted(self.schema, self.progress)
        # These change how the model is computed, not the result.
        ways = [name for name in model.get_params() if name.rpartition("__")[2] in ("n_jobs", "cache", "callback")]
        model.set_params(**dict.fromkeys(ways))
        rows = self.schema.encode(self.train), np.asarray(self.schema.targets(self.train)), tasks, self.schema.features
        queries = self.schema.encode(self.test), self.schema.tasks(self.test)
        return f"{fingerprint(model, rows, queries)}.npz"


def _warn(texts: list[str]) -> None:
    for text in texts:
        warnings.warn(text, stacklevel=1)
