"""`kernelkin fit`: learn a model from a table, say how well it does, save it."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

import numpy as np

from ..data import listing
from ..io.storage import check_writable
from .evaluation import Answers, holdout, metric_of, score_name
from .inspect import changed_parameters, relative_gap
from .kernel_spec import HELP as KERNELS
from .scores import BASELINES, tell_scores
from .tables import STDIN, read_table
from .training import (
    Problem,
    Recipe,
    add_data_arguments,
    add_model_arguments,
    check_cache,
    check_parameters,
    read_problem,
)

HELP = "learn a model of many tasks from a table, measure it on held-out rows, save it"
EXAMPLES = (
    "  kernelkin fit shops.csv --task shop --target sales -o sales.skops\n"
    "  kernelkin fit shops.csv --task shop --target sales --drop id date --cv -o sales.skops\n"
    "  kernelkin fit shops.csv --task shop --target sales --set C=10 min_rank=2 -o sales.skops\n"
    "  kernelkin fit exams.parquet --task school --target grade --couplings common --kernels gaussian@each -o m.skops\n"
    "  gunzip -c shops.csv.gz | kernelkin fit - --task shop --target sales -o sales.skops\n\n" + KERNELS
)


def add_arguments(parser: ArgumentParser) -> None:
    add_data_arguments(parser)
    parser.add_argument("-o", "--out", required=True, metavar="MODEL", help="the file to save the model to")
    parser.add_argument("--model", default="MK-MTRL", metavar="NAME", help="see `kernelkin models` (default: MK-MTRL)")
    add_model_arguments(parser)
    parser.add_argument(
        "--test-size",
        type=float,
        default=0.25,
        metavar="SHARE",
        help="held out of every task; 0: no test (default: 0.25)",
    )
    parser.add_argument(
        "--keep-test", action="store_true", help="save the model that was tested; otherwise it is fitted to all rows"
    )


def run(arguments: Namespace, terminal: Any) -> None:
    from ..io import save_model

    if not 0 <= arguments.test_size < 1:
        raise ValueError(f"--test-size is a share from 0 up to 1, not {arguments.test_size:g}")
    if arguments.keep_test and not arguments.test_size:
        raise ValueError("--keep-test needs a test: --test-size above 0")
    if arguments.cache and not arguments.cv:
        raise ValueError("--cache keeps pieces of cross-validation: it needs --cv")
    check_writable(arguments.out)
    check_cache(arguments)
    problem = read_problem(read_table(arguments.data), arguments)
    recipe = Recipe.of(arguments.model, problem, arguments)
    check_parameters([recipe], arguments)
    schema = problem.schema()
    _tell_data(terminal, arguments, problem, schema)
    recipes = {recipe.name: recipe, **{name: recipe.other(name) for name in BASELINES if name != recipe.name}}
    refit = not arguments.keep_test
    with terminal.progress((len(recipes) if arguments.test_size else 0) + refit) as step:
        about, tested = _measure(problem, recipes, arguments, step) if arguments.test_size else ({}, None)
        if refit:
            step(f"{recipe.name} on all {len(problem.frame)} rows")
            tested = schema, recipe.fit(schema, problem.frame, step)
    assert tested is not None
    schema, model = tested
    if about:
        tell_scores(terminal, about["evaluation"])
    _tell_model(terminal, model)
    about["task_rows"] = _task_rows(schema, problem)
    about["data"] = "standard input" if arguments.data == STDIN else arguments.data
    about["command"] = _options(arguments)
    save_model(model, arguments.out, schema=schema, about=about)
    rows = "all rows" if refit else "the training rows; the test rows were kept out"
    terminal.say(f"\nSaved {arguments.out}, fitted to {rows}. Next:")
    terminal.say(f"  kernelkin report {arguments.out} -o report.html")
    terminal.say(f"  kernelkin predict {arguments.out} NEW.csv -o predictions.csv")


def _measure(problem: Problem, recipes: dict[str, Recipe], arguments: Namespace, step: Any) -> tuple[dict, tuple]:
    """Fit every model to a part of the rows and score it on the rest -> what to keep of that, and the first model."""
    classification = not problem.regression
    metric = metric_of(problem.scoring, classification=classification)
    whole = problem.schema()
    tasks, y = whole.tasks(problem.frame), whole.targets(problem.frame)
    held = holdout(tasks, y, arguments.test_size, arguments.seed, classification=classification)
    if not held.any():
        raise ValueError("the tasks have too few rows to hold any out: use --test-size 0")
    train, test = np.flatnonzero(~held), np.flatnonzero(held)
    schema = problem.schema(train)
    scores, first = {}, None
    for name, recipe in recipes.items():
        step(f"{name} on {len(train)} rows, tested on {len(test)}")
        model = recipe.fit(schema, problem.frame.iloc[train], step)
        answers = Answers.empty(tasks, y, metric)
        answers.ask(model, schema.encode(problem.frame.iloc[test]), test, metric)
        scores[name] = list(answers.scores(metric).values())
        first = first or (schema, model)
    evaluation = {
        "score": score_name(problem.scoring),
        "tasks": np.unique(tasks).tolist(),
        "scores": scores,
        "test_rows": len(test),
        "train_rows": len(train),
        "tuned": bool(arguments.cv),
    }
    assert first is not None
    return {"evaluation": evaluation}, first


def _tell_data(terminal: Any, arguments: Namespace, problem: Problem, schema: Any) -> None:
    counts = problem.frame[problem.task].value_counts()
    each = f"{counts.min()}" if counts.min() == counts.max() else f"{counts.min()} to {counts.max()}"
    terminal.say(f"{len(problem.frame)} rows, {len(counts)} tasks ({problem.task!r}) of {each} rows.")
    for note in problem.notes:
        terminal.say(note)
    kinds = {kind: [c.name for c in schema.columns if c.kind == kind] for kind in ("number", "truth", "text")}
    words = {"number": "numbers, standardised", "truth": "yes or no", "text": "text, one feature for each value"}
    found = [f"{len(names)} {words[kind]} ({listing(names, 5)})" for kind, names in kinds.items() if names]
    terminal.say(f"Features: {'; '.join(found)}.")
    for name, reason in schema.left_out.items():
        if name not in arguments.drop:
            terminal.say(f"Left out column {name!r}: {reason}.")
    gaps = [c.name for c in schema.columns if problem.frame[c.name].isna().any()]
    if gaps:
        terminal.say(
            f"Missing values in {listing(gaps, 5)}: numbers count as the mean, texts as none of the known ones."
        )
    terminal.say()


def _tell_model(terminal: Any, model: Any) -> None:
    terminal.say()
    parameters = ", ".join(f"{name}={value}" for name, value in changed_parameters(model).items())
    terminal.say(f"Parameters: {parameters or 'the defaults'}.")
    if hasattr(model, "kernel_weights_"):
        weights = model.kernel_weights_.mean(axis=0)
        top = [k for k in np.argsort(-weights, kind="stable")[:3] if weights[k] > 0]
        named = ", ".join(f"{model.kernel_names_[k]} {weights[k] / weights.sum():.0%}" for k in top)
        terminal.say(f"Kernels that matter most over all tasks: {named}.")
    if getattr(model, "couplings_", ()) and hasattr(model, "part_shares_"):
        shared = 1 - model.part_shares_[:, 0]
        low, high = model.tasks_[shared.argmin()], model.tasks_[shared.argmax()]
        terminal.say(
            f"Tasks share {shared.mean():.0%} of what they know on average, from {shared.min():.0%} ({low}) to "
            f"{shared.max():.0%} ({high})."
        )
    gap = relative_gap(model)
    if gap is not None:
        terminal.say(f"Certified: the objective is within {gap:.1e} of the optimum of this model's problem.")


def _task_rows(schema: Any, problem: Problem) -> list[list[Any]]:
    labels, counts = np.unique(schema.tasks(problem.frame), return_counts=True)
    return [list(pair) for pair in zip(labels.tolist(), counts.tolist(), strict=True)]


def _options(arguments: Namespace) -> str:
    """What to type to get the same."""
    parts = ["kernelkin fit", arguments.data, "--task", arguments.task, "--target", arguments.target]
    for name in ("drop", "kernels", "set"):
        parts += [f"--{name}", *getattr(arguments, name)] if getattr(arguments, name) else []
    for name in ("model", "couplings", "scoring", "jobs", "seed", "test_size"):
        value = getattr(arguments, name)
        if value not in (None, {"model": "MK-MTRL", "seed": 0, "test_size": 0.25}.get(name)):
            parts += [f"--{name.replace('_', '-')}", str(value)]
    parts += [f"--{name.replace('_', '-')}" for name in _SWITCHES if getattr(arguments, name)]
    return " ".join(
        [*(f'"{part}"' if " " in part and i else part for i, part in enumerate(parts)), "-o", arguments.out]
    )


_SWITCHES = ("classification", "regression", "cv", "balanced", "keep_test")
