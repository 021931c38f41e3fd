"""`kernelkin compare`: several models and the baselines on one table, cross-validated."""

from __future__ import annotations

import time
import warnings
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

import numpy as np

from ..data.folds import make_folds
from ..files import Folder, fingerprint
from ..progress import Progress
from ..relations.baselines import BASELINES, Baseline, make_baselines
from ..relations.scores import row_losses
from ..tables.schema import TableSchema
from .evaluation import as_text, predict_baseline, predict_entries, read_entries, score_models
from .problem import TableProblem, add_data_arguments, load_problem
from .terminal import Terminal
from .training import KERNELS_HELP, Recipe, add_model_arguments, check_parameters, says_what_is_kept

if TYPE_CHECKING:
    from pandas import DataFrame

HELP = "cross-validate several models on a table and compare them with standard models"
EXAMPLES = (
    "  kernelkin compare shops.csv --task shop --target sales\n"
    "  kernelkin compare shops.csv --task shop --target sales --models MK-MTRL AVG IMKL Lasso --cv\n\n"
    f"they are compared with: {'; '.join(BASELINES)}\n"
    "if it is interrupted, it continues with the same command, if --cache names a folder\n\n" + KERNELS_HELP
)
MODELS = ("Kin", "MK-MTRL")


def add_arguments(parser: ArgumentParser) -> None:
    add_data_arguments(parser)
    parser.add_argument(
        "--models",
        nargs="+",
        default=list(MODELS),
        metavar="NAME",
        help=f"see `kernelkin models` (default: {' '.join(MODELS)})",
    )
    parser.add_argument("--folds", type=int, default=5, metavar="K", help="parts, each held out once (default: 5)")
    add_model_arguments(parser)


def run(arguments: Namespace, terminal: Terminal) -> None:
    if arguments.folds < 2:
        raise ValueError(f"--folds must be at least 2, not {arguments.folds}")
    cache = Folder(arguments.cache).prepare() if arguments.cache else None
    # Tiny tasks have no row to test on, and some of the models cannot learn them.
    problem = load_problem(arguments).settle_tiny_tasks(shares_functions=False)
    recipes = {recipe.name: recipe for recipe in (Recipe.of(name, problem, arguments) for name in arguments.models)}
    check_parameters(list(recipes.values()), arguments)
    terminal.say(*problem.notes)
    steps = arguments.folds * (len(recipes) + len(make_baselines(not problem.regression)))
    with says_what_is_kept(arguments.cache), terminal.progress(steps) as progress:
        rows, seconds = _cross_validate(problem, recipes, arguments, progress, cache)
    how = "chosen by --cv inside each training part" if arguments.cv else "at their defaults or as given"
    terminal.say(f"{len(rows[0][0])} held-out rows, {arguments.folds} folds inside every task (parameters {how}):")
    terminal.table(*_table(problem, *rows, seconds))


def _cross_validate(
    problem: TableProblem, recipes: dict[str, Recipe], arguments: Namespace, progress: Progress, cache: Folder | None
) -> tuple[tuple[tuple[np.ndarray, np.ndarray], dict[str, np.ndarray]], dict[str, float]]:
    """Return the targets and tasks of the held-out rows, and the predictions and run time of each model."""
    data, frame = problem.task_data(), problem.frame
    folds = make_folds(data, arguments.folds, classification=not problem.regression, random_state=arguments.seed)
    truth, seconds = [], dict[str, float]()
    values: dict[str, list[np.ndarray]] = {}
    for number, fold in enumerate(folds, 1):
        train, test = (frame.iloc[rows] for rows in fold.rows(data))
        schema = problem.schema(fold.rows(data)[0])
        truth.append(read_entries(schema, test, data.labels)[:2])
        models: dict[str, Recipe | Baseline] = {**recipes, **make_baselines(not problem.regression)}
        for name, model in models.items():
            key = _key(model, schema, train, test, progress) if cache else ""
            stored = cache.read_arrays(key) if cache else None
            progress.begin(f"fold {number}: {name}{'' if stored is None else ', from the cache'}")
            if stored is None:
                stored = _perform(model, problem, schema, train, test, progress)
                if cache:
                    cache.write_arrays(key, **stored)
            for text in stored["warnings"].tolist():
                warnings.warn(text, stacklevel=1)
            values.setdefault(name, []).append(stored["values"])
            seconds[name] = seconds.get(name, 0.0) + float(stored["seconds"])
    y, codes = (np.concatenate(parts) for parts in zip(*truth, strict=True))
    return ((y, codes), {name: np.concatenate(parts) for name, parts in values.items()}), seconds


def _perform(
    model: Recipe | Baseline,
    problem: TableProblem,
    schema: TableSchema,
    train: DataFrame,
    test: DataFrame,
    progress: Progress,
) -> dict[str, np.ndarray]:
    """Fit a model and predict; return values, seconds and warnings, as stored in the cache."""
    began, labels, classes = time.perf_counter(), problem.task_data().labels, problem.classes
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if isinstance(model, Recipe):
            values = predict_entries(model.fit(schema, train, progress), schema, test, labels, classes)
        else:
            values = predict_baseline(model, schema, train, test, labels, classes)
    texts = np.array([str(warning.message) for warning in caught], dtype=str)
    return {"values": values, "seconds": np.array(time.perf_counter() - began), "warnings": texts}


def _key(model: Recipe | Baseline, schema: TableSchema, train: DataFrame, test: DataFrame, progress: Progress) -> str:
    """Return a file name that depends on everything that determines the predictions."""
    model = model.unfitted(schema, progress) if isinstance(model, Recipe) else model
    # These parameters do not change the result.
    ways = [name for name in model.get_params() if name.rpartition("__")[2] in ("n_jobs", "cache", "callback")]
    model.set_params(**dict.fromkeys(ways))
    rows = schema.encode(train), np.asarray(schema.targets(train)), schema.tasks(train), schema.features
    return f"{fingerprint(model, rows, schema.encode(test), schema.tasks(test))}.npz"


def _table(
    problem: TableProblem,
    truth: tuple[np.ndarray, np.ndarray],
    values: dict[str, np.ndarray],
    seconds: dict[str, float],
) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows: scores over all rows with a standard error for the first score, best model first."""
    (y, codes), classes = truth, problem.classes
    n_tasks, wide = len(problem.task_data().labels), problem.task is None
    overall, _ = score_models(y, codes, n_tasks, values, classes, wide=wide)
    first, *others = next(iter(overall.values()))
    smaller_is_better = not (wide and problem.regression)
    order = sorted(overall, key=lambda name: overall[name][first] * (1 if smaller_is_better else -1))
    rows = []
    for name in order:
        losses, score = row_losses(y, values[name], classes), overall[name]
        # The relative error of a square root is half the relative error of its argument.
        error = float(losses.std() / np.sqrt(len(losses))) / (2 * score[first] if problem.regression else 1.0)
        errors = [f"±{as_text(error)}"] if smaller_is_better else []
        rows.append(
            [name, as_text(score[first]), *errors, *(as_text(score[o]) for o in others), f"{seconds[name]:.1f}"]
        )
    return ["model", first, *(["± s.e."] if smaller_is_better else []), *others, "seconds"], rows
