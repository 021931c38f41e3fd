"""`kernelkin fit` and `kernelkin compare`: fit models to a table and compare them with simpler ones."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from ..data.arrays import listing
from ..files import check_writable
from ..kin.losses import LOSSES
from ..progress import Progress
from ..relations.analysis import TaskRelations, task_relations
from ..relations.baselines import BASELINES, make_baselines
from ..relations.sharing import SharingReport, sharing_report
from ..report.evaluation import evaluation_content, in_units
from ..storage.model_files import save_model
from ..tables.files import display_name
from ..tables.schema import TableSchema
from .inspect import model_facts
from .problem import TableProblem, load_problem
from .terminal import Terminal, complain
from .training import SEARCHED, Recipe, check_parameters, read_parameters

# Folds of the comparison: fewer for more rows, for Kin and with --cv.
MANY_ROWS, FOLDS, FEWER_FOLDS = 1000, 5, 3
# Time in seconds after which groups never seen are left out of the comparison.
SECONDS = 60.0
# With more tasks the test of their relations takes minutes.
MOST_TASKS = 400
PERMUTATIONS = 99
# Run times of a comparison (of 80 groups) and of the test of relations, relative to the fit: for Kin and other models.
_COMPARISON, _RELATIONS = (6.0, 30.0), (0.3, 3.0)


def run(arguments: Namespace, terminal: Terminal) -> None:
    """Fit the model and save it; then compare it with simpler models, test relations, and save the results too."""
    check_writable(arguments.out, arguments.data, arguments.task_features)
    problem = load_problem(arguments)
    recipe = Recipe.of(arguments.model, problem, arguments)
    check_parameters([recipe], arguments)
    problem = problem.settle_tiny_tasks(shares_functions=recipe.shares_functions)
    recipe, schema = replace(recipe, problem=problem), problem.schema
    time_position(schema, arguments)
    _show_data(terminal, arguments, problem)
    about: dict = {"command": shlex.join(["kernelkin", *arguments.argv]), "data": display_name(arguments.data)}
    n_groups = max(len(problem.targets), problem.frame[list(problem.tasks[:1])].nunique().sum())
    work = (0.8 + n_groups / 400) * _COMPARISON[recipe.name != SEARCHED and not arguments.cv]
    weights = [1.0, *([] if arguments.no_comparison else [work]), _RELATIONS[recipe.name != SEARCHED]]
    with Progress(len(weights), weights=weights) as progress:
        progress.begin(f"{recipe.name} on {len(problem.frame)} rows")
        model = recipe.fit(progress)
        about["task_rows"] = _task_rows(model, problem)
        save_model(model, arguments.out, schema=schema, about=about)
        progress.clear()
        if not arguments.no_comparison:
            with _cannot_lose(arguments.out):
                about |= _compare(model, recipe, terminal, progress)
            terminal.say()
        explained = model.explain().replace(". ", ".\n").split("\n") if hasattr(model, "explain") else []
        terminal.say(*(explained or [f"{title.capitalize()}: {text}." for title, text in model_facts(model)]))
        with _cannot_lose(arguments.out):
            progress.begin("test of the relations of groups")
            tested = tested_relations(model, problem, arguments.seed)
            progress.clear()
            if tested is not None:
                terminal.say("", str(tested))
                about["relations"] = tested
    save_model(model, arguments.out, schema=schema, about=about)
    out = shlex.quote(arguments.out)
    has_effects = hasattr(model, "task_effects") and len(getattr(model, "classes_", ())) < 3
    terminal.say(
        "",
        f"Saved {arguments.out}, fitted to all rows. Next:",
        f"  kernelkin report {out} -o report.html",
        *([f"  kernelkin effects {out}"] if has_effects else []),
        f"  kernelkin predict {out} NEW.csv -o predictions.csv",
    )
    terminal.emit(
        {
            "model": arguments.out,
            "estimator": type(model).__name__,
            "tasks": model.tasks_.tolist(),
            "rows": schema.n_rows,
            "columns": {column.name: column.describe() for column in schema.columns},
            "left_out": schema.left_out,
            "notes": list(problem.notes),
            "sharing": about["sharing"].to_dict() if "sharing" in about else None,
            "variance_components": getattr(model, "variance_components_", None),
            "column_shares": getattr(model, "column_shares_", None),
            "explanation": model.explain() if hasattr(model, "explain") else None,
        }
    )


@contextmanager
def _cannot_lose(out: str) -> Iterator[None]:
    """Turn an error into a warning, because the fitted model is already saved."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"{out} is saved, without the comparison of models") from None
    except Exception as error:
        complain(f"warning: {type(error).__name__}: {error}; {out} is saved without this result")


def _task_rows(model: Any, problem: TableProblem) -> list[list[Any]]:
    """Return the number of training rows of each task."""
    tasks = problem.schema.first_tasks(problem.frame)
    wide = {name: problem.frame[name].notna().sum() for name in problem.targets}
    counts = wide if tasks is None else dict(zip(*np.unique(tasks, return_counts=True), strict=True))
    return [[task, int(counts.get(task, 0))] for task in model.tasks_.tolist()]


def _compare(fitted: Any, recipe: Recipe, terminal: Terminal, progress: Progress) -> dict[str, Any]:
    """Print the comparison with simpler models, and return the parts that are stored in the model file."""
    arguments = recipe.arguments
    progress.begin("comparison with simpler models")
    few = len(recipe.problem.frame) <= MANY_ROWS and recipe.name != SEARCHED and not arguments.cv
    model = recipe.unfitted()
    if recipe.name == SEARCHED and "cv" not in read_parameters(arguments.set):
        # Fits of the comparison choose between structures with fewer folds, which takes half the time.
        model.set_params(cv=FEWER_FOLDS)
    found = _sharing(model, None, recipe, progress, FOLDS if few else FEWER_FOLDS)
    progress.clear()
    terminal.say(*str(found).split("\n"))
    if recipe.name != SEARCHED and not arguments.cv:
        terminal.say("Parameters were not tuned for this table; --cv tunes them.")
    evaluations = [
        evaluation_content(key, in_units(rows, recipe.problem.schema)) for key, rows in found.held_out().items()
    ]
    return {"sharing": found.without_rows(), "evaluations": evaluations}


def _sharing(model: Any, baselines: Any, recipe: Recipe, progress: Progress, folds: int) -> SharingReport:
    """Return the cross-validated comparison of a model, in the units of the table."""
    schema, frame = recipe.problem.schema, recipe.problem.frame
    return sharing_report(
        model,
        schema.encode_table(frame),
        schema.targets(frame),
        schema.tasks(frame),
        baselines=baselines,
        time_column=time_position(schema, recipe.arguments),
        offset=schema.options(frame).get("offset"),
        cv=folds,
        name=recipe.name,
        target_scale=schema.target_scales[0] if schema.task is not None else 1.0,
        random_state=recipe.arguments.seed,
        time_limit=SECONDS,
        callback=progress.share,
    )


def run_compare(arguments: Namespace, terminal: Terminal) -> None:
    """Cross-validate the given models, Kin and the baselines; gains are those of the first given model."""
    if arguments.folds < 2:
        raise ValueError(f"--folds must be at least 2, not {arguments.folds}")
    # Tiny tasks have no row to test on, and some of the models cannot learn them.
    problem = load_problem(arguments).settle_tiny_tasks(shares_functions=False)
    names = arguments.models or [SEARCHED, *([] if arguments.loss else ["MK-MTRL"])]
    recipes = {recipe.name: recipe for recipe in (Recipe.of(name, problem, arguments) for name in names)}
    check_parameters(list(recipes.values()), arguments)
    recipes.setdefault(SEARCHED, Recipe.of(SEARCHED, problem, arguments))
    time_position(problem.schema, arguments)
    _show_data(terminal, arguments, problem)
    terminal.say(f"Compared with: {'; '.join(BASELINES)}.", "")
    with Progress(1) as progress:
        progress.begin(f"{arguments.folds} folds")
        (first, model), *others = ((name, recipe.unfitted()) for name, recipe in recipes.items())
        loss = arguments.loss or "squared"
        baselines = dict(others) | make_baselines(not problem.regression, random_state=arguments.seed, loss=loss)
        found = _sharing(model, baselines, recipes[first], progress, arguments.folds)
    terminal.say(*str(found).split("\n"))
    if not arguments.cv and (untuned := [name for name in recipes if name != SEARCHED]):
        terminal.say(f"Parameters of {', '.join(untuned)} were not tuned for this table; --cv tunes them.")


def time_position(schema: TableSchema, arguments: Namespace) -> int | None:
    """Return the feature with the values of the --time column, or None if there is none."""
    if (name := arguments.time) is None:
        return None
    where = f"{display_name(arguments.data)}: --time {name}"
    column = next((column for column in schema.columns if column.name == name), None)
    if column is None or column.kind not in ("number", "date") or schema.task is None:
        kind = "there is no such column" if column is None else f"this one is {column.kind}"
        reason = "--task is missing" if schema.task is None else schema.left_out.get(name, kind)
        raise ValueError(f"{where} needs --task and a column of numbers or dates: {reason}")
    if column.n_missing:
        raise ValueError(f"{where}: fill in the cells without a time ({column.n_missing}), or leave out their rows")
    # The first feature of a number or a date is its standardised value.
    return schema.encoder.groups_[name][0]


def tested_relations(model: Any, problem: TableProblem, seed: int) -> TaskRelations | None:
    """Return the test of the task relations; None for counts, too many tasks, or fewer than two tasks with two rows."""
    schema, frame = problem.schema, problem.frame
    tasks = schema.first_tasks(frame)
    sizes = None if tasks is None else np.unique(tasks, return_counts=True)[1]
    loss = LOSSES.get(getattr(model, "loss", ""))
    if loss is not None and not loss.is_linear:
        return None
    if not 2 <= len(model.tasks_) <= MOST_TASKS or (sizes is not None and (sizes > 1).sum() < 2):
        return None
    rows = schema.encode(frame), schema.targets(frame), tasks
    return task_relations(model, *rows, n_permutations=PERMUTATIONS, random_state=seed)


def _show_data(terminal: Terminal, arguments: Namespace, problem: TableProblem) -> None:
    schema, frame = problem.schema, problem.frame
    if not problem.tasks:
        terminal.say(f"{len(frame)} rows, {len(problem.targets)} tasks ({listing(problem.targets, 5)}).")
    for k, task in enumerate(problem.tasks):
        counts = frame.groupby(task, observed=True).size()
        each = f"{counts.min()}" if counts.min() == counts.max() else f"{counts.min()} to {counts.max()}"
        terminal.say(
            f"{'Further grouping:' if k else f'{len(frame)} rows,'} {len(counts)} groups ({task!r}) of {each} rows."
        )
    terminal.say(*problem.notes)
    kinds = {"number": "numbers", "boolean": "yes or no", "text": "texts", "date": "dates"}
    names = {words: [c.name for c in schema.columns if c.kind == kind] for kind, words in kinds.items()}
    found = [f"{words} ({listing(columns, 5)})" for words, columns in names.items() if columns]
    terminal.say(f"Columns: {'; '.join(found)}.")
    for column in schema.columns:
        if column.kind == "date" or column.n_rare:
            terminal.say(f"Column {column.name!r}: {column.describe()}.")
    for name, reason in schema.left_out.items():
        if name not in arguments.drop:
            terminal.say(f"Left out column {name!r}: {reason}.")
    incomplete = [column.name for column in schema.columns if column.n_missing]
    if incomplete:
        terminal.say(
            f"Missing values in {listing(incomplete, 5)}: numbers are replaced by the mean, texts are encoded as "
            "none of the known texts, and a feature marks them."
        )
    terminal.say()
