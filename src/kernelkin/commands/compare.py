"""`kernelkin compare`: several models on one table, cross-validated."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from typing import Any

import numpy as np

from .evaluation import Answers, folds, metric_of, score_name
from .kernel_spec import HELP as KERNELS
from .tables import read_table
from .training import Problem, Recipe, add_data_arguments, add_model_arguments, check_parameters, read_problem

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
    how = "parameters chosen inside each training part" if arguments.cv else "parameters at their defaults: try --cv"
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
    with terminal.progress(arguments.folds * len(recipes)) as step:
        for fold in range(arguments.folds):
            train, test = np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold)
            schema = problem.schema(train)
            for name, recipe in recipes.items():
                step(f"fold {fold + 1}: {name}")
                began = time.perf_counter()
                model = recipe.fit(schema, problem.frame.iloc[train])
                seconds[name] += time.perf_counter() - began
                answers[name].ask(model, schema.encode(problem.frame.iloc[test]), test, metric, fold)
    return answers, seconds


def _wins(name: str, answers: dict[str, Answers], metric: Any) -> str:
    """In how many tasks no model is better."""
    scores = {other: np.array(list(found.scores(metric).values())) for other, found in answers.items()}
    best = np.nanmax(np.stack(list(scores.values())), axis=0)
    return str(int((scores[name] >= best).sum()))
