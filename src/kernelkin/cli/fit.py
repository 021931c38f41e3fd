"""`kernelkin fit`: fit a model to a table, test it on held-out rows, and save it."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..data.arrays import listing
from ..facts import changed_parameters, relative_gap
from ..files import Folder, check_writable
from ..progress import Progress
from ..relations.analysis import TaskRelations
from ..relations.baselines import make_baselines
from ..report.evaluation import evaluation_content
from ..report.held_out import rows_of_table
from ..storage.model_files import SavedModel
from ..tables.files import STDIN, display_name
from ..tables.schema import TableSchema
from .evaluation import (
    REPEATS,
    SECONDS,
    hold_out,
    mean,
    predict_baseline,
    predict_entries,
    read_entries,
    score_models,
    show_scores,
    tested_relations,
    verdict_on_sharing,
)
from .problem import TableProblem, add_data_arguments, load_problem
from .terminal import Terminal, complain
from .training import (
    KERNELS_HELP,
    SEARCHED,
    Recipe,
    add_model_arguments,
    check_parameters,
    says_what_is_kept,
)

HELP = "fit a multi-task model to a table, test it on held-out rows, and save it"
EXAMPLES = (
    "  kernelkin fit shops.csv --task shop --target sales -o sales.kin\n"
    "  kernelkin fit shops.csv --task shop --target sales --drop id --test later.csv -o sales.kin\n"
    "  kernelkin fit robot.csv --target torque1 torque2 torque3 -o robot.kin\n"
    "  kernelkin fit umsatz.csv --sep ';' --decimal , --encoding cp1252 --task ort --target umsatz -o m.kin\n"
    "  kernelkin fit shops.csv --task shop --target sales --set C=10 min_rank=2 -o sales.kin\n"
    "  kernelkin fit exams.parquet --task school --target grade --couplings common --kernels gaussian@each -o m.kin\n"
    "  kernelkin fit sales.csv --task shop --target sales --task-features shops.csv -o sales.kin\n"
    "  gunzip -c shops.csv.gz | kernelkin fit - --task shop --target sales -o sales.kin\n\n"
    "with --cache FOLDER, an interrupted parameter search (--cv) continues when the same command is run again\n\n"
    + KERNELS_HELP
)
# Run times relative to the fit of the model: the baselines, the test of relations, and the cross-validation of the
# sharing report; first for Kin, then for the models of the paper. Also how run times grow with the rows.
_BASELINES, _RELATIONS, _VERDICT = (0.1, 3.0), (0.1, 3.0), (2.5, 30.0)
_GROWTH = 1.5


def add_arguments(parser: ArgumentParser) -> None:
    add_data_arguments(parser)
    parser.add_argument("-o", "--out", required=True, metavar="MODEL", help="file to save the model to")
    parser.add_argument(
        "--model", metavar="NAME", help="see `kernelkin models` (default: Kin, an average of mixed kernel models)"
    )
    parser.add_argument("--quick", action="store_true", help="fit MK-MTRL with default parameters")
    add_model_arguments(parser)
    parser.add_argument(
        "--test-size",
        type=float,
        default=0.25,
        metavar="SHARE",
        help="share of each task to hold out; 0: no test (default: 0.25)",
    )
    parser.add_argument("--test", metavar="FILE", help="labelled table to test on, instead of rows held out of DATA")
    parser.add_argument(
        "--sharing-repeats",
        type=int,
        metavar="N",
        help="repetitions of the cross-validation that tests whether sharing helps; 0: skip it (default: "
        f"{REPEATS}, or fewer if they take more than {SECONDS:.0f} s)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object, for scripts")
    parser.add_argument(
        "--keep-test", action="store_true", help="save the tested model; by default the model is refitted to all rows"
    )


def run(arguments: Namespace, terminal: Terminal) -> None:
    _check(arguments)
    if arguments.json:
        terminal.use_json()
    problem = load_problem(arguments, arguments.test)
    recipe = Recipe.of(choose_model(arguments), problem, arguments)
    check_parameters([recipe], arguments)
    problem = problem.settle_tiny_tasks(shares_functions=recipe.shares_functions)
    _show_data(terminal, arguments, problem)
    with says_what_is_kept(arguments.cache):
        model, about, schema = _fit_and_save(problem, recipe, arguments, terminal)
    rows = "all rows" if _refits(arguments) else "the training rows, without the test rows"
    out = shlex.quote(arguments.out)
    terminal.say(
        "",
        f"Saved {arguments.out}, fitted to {rows}. Next:",
        f"  kernelkin report {out} -o report.html",
        f"  kernelkin predict {out} NEW.csv -o predictions.csv",
    )
    terminal.emit(_summary(arguments, problem, model, about, schema))


def _refits(arguments: Namespace) -> bool:
    """Return whether the model is refitted to all rows after the test."""
    return not (arguments.keep_test or arguments.test)


def _summary(
    arguments: Namespace, problem: TableProblem, model: Any, about: dict[str, Any], schema: TableSchema
) -> dict[str, Any]:
    """Return a summary of the fit, for --json."""
    evaluation = about.get("evaluation")
    return {
        "model": arguments.out,
        "estimator": type(model).__name__,
        "regression": problem.regression,
        "tasks": model.tasks_.tolist(),
        "rows": schema.n_rows,
        "columns": {column.name: column.describe() for column in schema.columns},
        "left_out": schema.left_out,
        "notes": list(problem.notes),
        "evaluation": evaluation and {name: value for name, value in evaluation.items() if name != "report"},
        "mean_scores": evaluation and {name: mean(scores) for name, scores in evaluation["scores"].items()},
        "sharing": about.get("sharing"),
        "variance_components": getattr(model, "variance_components_", None),
        "column_shares": getattr(model, "column_shares_", None),
        "explanation": model.explain() if hasattr(model, "explain") else None,
        "command": about["command"],
    }


def _check(arguments: Namespace) -> None:
    if not 0 <= arguments.test_size < 1:
        raise ValueError(f"--test-size must be at least 0 and below 1, not {arguments.test_size:g}")
    if arguments.keep_test and not arguments.test_size:
        raise ValueError("--keep-test needs a test: --test-size above 0")
    if arguments.cache and not arguments.cv:
        raise ValueError("--cache stores results of the parameter search: it needs --cv")
    if arguments.sharing_repeats is not None and arguments.sharing_repeats < 0:
        raise ValueError(f"--sharing-repeats must be 0 or more, not {arguments.sharing_repeats}")
    check_writable(arguments.out)
    if arguments.cache:
        Folder(arguments.cache).prepare()


def _fit_and_save(
    problem: TableProblem, recipe: Recipe, arguments: Namespace, terminal: Terminal
) -> tuple[Any, dict[str, Any], TableSchema]:
    """Test the model, fit it to all rows and save it; then compare it with simpler models and save the comparison."""
    from ..storage.model_files import save_model

    about: dict[str, Any] = {"data": "standard input" if arguments.data == STDIN else arguments.data}
    about["command"] = shlex.join(["kernelkin", *arguments.argv])
    weights = _weights(arguments, searched=recipe.name == SEARCHED)
    with terminal.progress(len(weights), weights) as progress:
        train = np.arange(len(problem.frame))
        if arguments.test_size or arguments.test:
            about["evaluation"], train, schema, model = _evaluate(problem, recipe, arguments, progress)
        if _refits(arguments):
            progress.begin(f"{recipe.name} on all {len(problem.frame)} rows")
            schema = problem.schema()
            model = recipe.fit(schema, problem.frame, progress)
        data = problem.task_data()
        about["task_rows"] = [[task, len(y)] for task, y in zip(data.labels.tolist(), data.y, strict=True)]
        save_model(model, arguments.out, schema=schema, about=about)
        progress.clear()
        _show_model(terminal, model)
        if "evaluation" in about:
            show_scores(terminal, about["evaluation"])
        try:
            for answer in _answers(problem, recipe, SavedModel(model, schema), train, terminal, progress):
                about |= answer
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"{arguments.out} is saved, without the comparison of models") from None
        except Exception as error:
            # An error in the comparison must not lose the fitted model.
            complain(f"warning: {type(error).__name__}: {error}; {arguments.out} is saved without this comparison")
    save_model(model, arguments.out, schema=schema, about=about)
    return model, about, schema


def _answers(
    problem: TableProblem, recipe: Recipe, saved: SavedModel, train: np.ndarray, terminal: Terminal, progress: Progress
) -> Iterator[dict[str, Any]]:
    """Print whether sharing helps and how the tasks are related, and yield the parts to save."""
    arguments = recipe.arguments
    if arguments.sharing_repeats != 0:
        found = verdict_on_sharing(recipe, problem.schema(train), problem.frame.iloc[train], progress)
        progress.clear()
        terminal.say("", *str(found).split("\n"))
        if not isinstance(found, str):
            if recipe.name != SEARCHED and not arguments.cv:
                terminal.say("Parameters were not tuned for this table; --cv tunes them.")
            yield {"sharing": found.to_dict()}
    progress.begin("test of the relations of tasks")
    schema, frame = saved.schema, problem.frame
    assert schema is not None
    rows = schema.encode(frame), schema.targets(frame), schema.tasks(frame)
    tested = tested_relations(saved.model, *rows, arguments.seed)
    progress.clear()
    if tested is not None:
        terminal.say("", str(TaskRelations.from_dict(tested)))
        yield {"relations": tested}


def _weights(arguments: Namespace, *, searched: bool) -> list[float]:
    """Return the relative run times of the steps."""
    baselines, relations = (pair[not searched] for pair in (_BASELINES, _RELATIONS))
    weights = [1.0, baselines] if arguments.test_size or arguments.test else []
    weights += [(1 / (1 - arguments.test_size)) ** _GROWTH] if _refits(arguments) else []
    weights += [_VERDICT[not (searched or arguments.cv)]] if arguments.sharing_repeats != 0 else []
    return [*weights, relations]


def _evaluate(
    problem: TableProblem, recipe: Recipe, arguments: Namespace, progress: Progress
) -> tuple[dict[str, Any], np.ndarray, TableSchema, Any]:
    """Fit to some rows and score on the others, with baselines; return scores, training rows, schema and model."""
    data, classes = problem.task_data(), problem.classes
    train, new = np.arange(len(problem.frame)), problem.test
    if new is None:
        train, test = hold_out(data, arguments.test_size, arguments.seed, classification=not problem.regression)
        new = problem.frame.iloc[test]
    if not len(new):
        raise ValueError(f"{display_name(arguments.data)}: the tasks have too few rows to hold any out: --test-size 0")
    schema, known = problem.schema(train), problem.frame.iloc[train]
    y, codes, _ = read_entries(schema, new, data.labels)
    progress.begin(f"{recipe.name} on {len(train)} rows, tested on {len(new)}")
    model = recipe.fit(schema, known, progress)
    values = {recipe.name: predict_entries(model, schema, new, data.labels, classes)}
    baselines = make_baselines(not problem.regression, random_state=arguments.seed)
    progress.begin("models to compare with")
    for done, (name, baseline) in enumerate(baselines.items()):
        progress.part(done, len(baselines), f"{name}, model")
        values[name] = predict_baseline(baseline, schema, known, new, data.labels, classes)
    overall, scores = score_models(y, codes, len(data.labels), values, classes, wide=problem.task is None)
    how = f"the rows of {arguments.test}" if arguments.test else f"{arguments.test_size:.0%} of the rows of every task"
    refitted = "; the saved model was then refitted to all rows" if _refits(arguments) else ""
    predicted = rows_of_table(SavedModel(model, schema), new, f"{how}, not used in this fit{refitted}")
    evaluation = {
        "score": "R²" if problem.regression else "accuracy",
        "tasks": data.labels.tolist(),
        "scores": scores,
        "overall": overall,
        "test_rows": len(new),
        "task_test_rows": np.bincount(codes, minlength=len(data.labels)).tolist(),
        "train_rows": len(train),
        "tuned": bool(arguments.cv),
        "report": evaluation_content(predicted),
    }
    return evaluation, train, schema, model


def _show_data(terminal: Terminal, arguments: Namespace, problem: TableProblem) -> None:
    schema, frame = problem.schema(), problem.frame
    if problem.task is None:
        terminal.say(f"{len(frame)} rows, {len(problem.targets)} tasks ({listing(problem.targets, 5)}).")
    else:
        counts = frame[problem.task].value_counts()
        each = f"{counts.min()}" if counts.min() == counts.max() else f"{counts.min()} to {counts.max()}"
        terminal.say(f"{len(frame)} rows, {len(counts)} tasks ({problem.task!r}) of {each} rows.")
    terminal.say(*problem.notes)
    kinds = {kind: [c.name for c in schema.columns if c.kind == kind] for kind in _KIND_WORDS}
    found = [
        f"{len(names)} {_KIND_WORDS[kind][len(names) > 1]} ({listing(names, 5)})"
        for kind, names in kinds.items()
        if names
    ]
    terminal.say(f"Features: {'; '.join(found)}.")
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


# Singular and plural.
_KIND_WORDS = {
    "number": ("number, standardised", "numbers, standardised"),
    "boolean": ("yes or no", "yes or no"),
    "text": ("text, one feature for each value", "texts, one feature for each value"),
    "date": ("date", "dates"),
}


def choose_model(arguments: Namespace) -> str:
    """Return the name of the model: the given one, or the default unless an option needs MK-MTRL."""
    if arguments.model is not None:
        if arguments.quick:
            raise ValueError("--quick fits MK-MTRL: leave out --model, or leave out --quick")
        return arguments.model
    return "MK-MTRL" if arguments.quick or arguments.cv or arguments.couplings or arguments.set else SEARCHED


def _show_model(terminal: Terminal, model: Any) -> None:
    if hasattr(model, "explain"):
        terminal.say(*model.explain().replace(". ", ".\n").split("\n"))
        return
    parameters = ", ".join(f"{name}={value}" for name, value in changed_parameters(model).items())
    terminal.say(f"Parameters: {parameters or 'the defaults'}.")
    if hasattr(model, "kernel_weights_"):
        weights = model.kernel_weights_.mean(axis=0)
        top = [k for k in np.argsort(-weights, kind="stable")[:3] if weights[k] > 0]
        named = ", ".join(f"{model.kernel_names_[k]} {weights[k] / weights.sum():.0%}" for k in top)
        terminal.say(f"Kernels with the largest weights over all tasks: {named}.")
    if getattr(model, "couplings_", ()) and hasattr(model, "part_shares_"):
        shared = 1 - model.part_shares_[:, 0]
        low, high = model.tasks_[shared.argmin()], model.tasks_[shared.argmax()]
        terminal.say(
            f"The part that tasks share is {shared.mean():.0%} of their functions on average, from {shared.min():.0%} "
            f"({low}) to {shared.max():.0%} ({high})."
        )
    gap = relative_gap(model)
    if gap is not None:
        terminal.say(f"Certified: the objective is within {gap:.1e} of the optimum of this model's problem.")
