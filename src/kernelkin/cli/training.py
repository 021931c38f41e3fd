"""Fit models to a learning problem, as set by command line arguments."""

from __future__ import annotations

import json
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..data.arrays import listing
from ..kernels.families import (
    default_kernels,
    gaussian_kernels,
    linear_kernels,
    polynomial_kernels,
    resolve_kernels,
    view_kernels,
)
from ..kernels.kernel import Kernel
from ..paper.couplings import COMMON
from ..paper.model_selection.scoring import read_scoring
from ..registry import RegisteredModel, find_model
from ..tables.encoder import check_names
from ..tables.files import STDIN, TextFormat, read_table
from ..tables.schema import TableSchema
from .problem import Problem, text_format
from .terminal import complain

if TYPE_CHECKING:
    from pandas import DataFrame

    from ..progress import Progress


# The default model, which needs no parameters: an average of mixed kernel models.
SEARCHED = "Kin"
# The column with the task names in a table of task features, if the tasks are several targets.
TASK = "task"
KERNELS_HELP = """\
kernels:
  a list of NAME[:NUMBERS][@COLUMNS], for example  gaussian:0.5,1,2  linear@age,income  gaussian@each
  NAME     gaussian (NUMBERS: bandwidths, times the median distance), polynomial (NUMBERS: degrees), linear, default,
           or a kernel of scikit-learn such as laplacian
  COLUMNS  columns of the table, or "each": one kernel for each column; all columns together if omitted"""
_PATTERN = re.compile(r"(?P<name>[A-Za-z0-9_]+)(:(?P<numbers>[^@]*))?(@(?P<columns>.+))?")


def add_model_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--kernels", nargs="+", metavar="SPEC", help="see below (default: Gaussians and linear)")
    parser.add_argument("--couplings", choices=[COMMON], help="let all tasks share a part of their functions")
    add_task_features(parser, "similar tasks have similar functions (Kin)")
    parser.add_argument(
        "--unknown-tasks",
        choices=["common", "error"],
        help="how to treat tasks that were not in training: predict them by the part common to all tasks, or raise an "
        f"error (default: common for {SEARCHED}, error for the other models)",
    )
    parser.add_argument("--cv", action="store_true", help="choose parameters by 5-fold cross-validation")
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="NAME=VALUE", help="model parameters, such as C=10 min_rank=2"
    )
    parser.add_argument("--balanced", action="store_true", help="give the classes of each task equal weight")
    parser.add_argument(
        "--scoring", metavar="NAME", help="score for --cv: r2, accuracy, roc_auc ... (default: r2 or accuracy)"
    )
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    parser.add_argument("--jobs", type=int, metavar="N", help="threads (default: 1)")
    parser.add_argument(
        "--cache",
        metavar="DIR",
        help="store finished parts of a cross-validation here, to continue an interrupted command",
    )


@dataclass(frozen=True)
class Recipe:
    """A model to fit, and the arguments that set its parameters."""

    model: RegisteredModel
    regression: bool
    arguments: Namespace
    wide: bool = False
    task_features: DataFrame | None = None

    @classmethod
    def of(cls, name: str, problem: Problem, arguments: Namespace) -> Recipe:
        features = None
        if arguments.task_features is not None:
            features = read_task_features(arguments.task_features, problem.task, text_format(arguments))
        recipe = cls(find_model(name), problem.regression, arguments, problem.task is None, features)
        recipe.estimator_class()
        return recipe

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def shares_functions(self) -> bool:
        """Whether tasks share parts of their functions, so that a task with one row or one class can be fitted."""
        if self.name == SEARCHED:
            return True
        known = self.estimator_class()().get_params(deep=False)
        given = self.arguments.couplings or read_parameters(self.arguments.set).get("couplings")
        return bool(given and "couplings" in known)

    def fit(self, schema: TableSchema, frame: DataFrame, progress: Progress) -> Any:
        """Fit to the rows of a table."""
        X, y, tasks = schema.encode_table(frame), schema.targets(frame), schema.tasks(frame)
        model = self.unfitted(schema, progress).fit(X, y, tasks=tasks)
        if getattr(model, "n_cached_", 0):
            complain(f"{self.name}: {model.n_cached_} parts of the cross-validation were found in the cache")
        model = getattr(model, "best_estimator_", model)
        # Not needed in the saved model.
        return model.set_params(callback=None) if getattr(model, "callback", None) is not None else model

    def unfitted(self, schema: TableSchema, progress: Progress) -> Any:
        """Return the unfitted model, or a search if parameters are chosen by cross-validation."""
        from ..kin.estimators import KinClassifier, KinRegressor
        from ..paper.model_selection.cv import MultiTaskCV
        from ..paper.model_selection.grid import has_choices

        estimator = self._estimator(schema)
        if isinstance(estimator, KinRegressor | KinClassifier):
            estimator.set_params(callback=lambda done, of: progress.share(done / of))
        if not self.arguments.cv or not has_choices(estimator):
            return estimator
        given = self.arguments
        return MultiTaskCV(
            estimator,
            scoring=given.scoring,
            cache=given.cache,
            random_state=given.seed,
            n_jobs=given.jobs,
            callback=lambda done, of: progress.part(done, of, "candidate"),
        )

    def estimator_class(self) -> type:
        found = self.model.regressor if self.regression else self.model.classifier
        if found is None:
            kind = "regression" if self.regression else "classification"
            raise ValueError(f"{self.name} does not support {kind}; see `kernelkin models`")
        if self.model.needs_wide and not self.wide:
            raise ValueError(f"{self.name} needs all targets for every row, but this table has one target per row")
        return found

    def _estimator(self, schema: TableSchema) -> Any:
        estimator = self.estimator_class()()
        wanted = {
            "kernels": read_kernels(self.arguments.kernels, schema.encoder.groups_),
            "couplings": self.arguments.couplings,
            "task_features": None if self.task_features is None else by_task(self.task_features, schema),
            "n_jobs": self.arguments.jobs,
            "random_state": self.arguments.seed,
            **({"class_weight": "balanced"} if self.arguments.balanced else {}),
            **({"unknown_tasks": self.arguments.unknown_tasks} if self.arguments.unknown_tasks else {}),
            **read_parameters(self.arguments.set),
        }
        known = estimator.get_params(deep=False)
        if "kernel" in known:
            # Single-task learning always uses one kernel on all columns; `--kernels` applies to the other models.
            wanted["kernels"] = None
        return estimator.set_params(**{name: value for name, value in wanted.items() if name in known})


@contextmanager
def says_what_is_kept(cache: str | None) -> Iterator[None]:
    """On an interrupt, print where the finished parts of a cross-validation are stored, if they are."""
    kept = f"the finished parts are in {cache}; run the same command to continue"
    try:
        yield
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(*interrupt.args or (kept if cache else "nothing was saved",)) from None


def check_parameters(recipes: Sequence[Recipe], arguments: Namespace) -> None:
    """Raise for parameters that no model has."""
    known = {name for recipe in recipes for name in recipe.estimator_class()().get_params(deep=False)}
    models = ", ".join(recipe.name for recipe in recipes)
    if arguments.couplings and "couplings" not in known:
        raise ValueError(f"--couplings: {models} has no part that tasks share")
    if arguments.task_features and "task_features" not in known:
        raise ValueError(f"--task-features: {models} does not use features of tasks")
    if arguments.unknown_tasks == "common" and "unknown_tasks" not in known:
        raise ValueError(f"--unknown-tasks: {models} cannot predict tasks that training did not have")
    if arguments.scoring and not arguments.cv:
        raise ValueError("--scoring sets the score that --cv maximises: add --cv, or leave it out")
    try:
        read_scoring(arguments.scoring, classification=not recipes[0].regression)
    except ValueError as error:
        raise ValueError(f"--scoring {arguments.scoring}: {error}") from None
    for name in read_parameters(arguments.set):
        if name not in known:
            raise ValueError(f"--set {name}: {models} has {listing(sorted(known), 30)}")


def read_parameters(items: Sequence[str]) -> dict[str, Any]:
    """Return the parameters given after --set.

    >>> read_parameters(["C=10", "loss=squared", "min_rank=2.5"])
    {'C': 10, 'loss': 'squared', 'min_rank': 2.5}
    """
    found: dict[str, Any] = {}
    for item in items:
        name, equals, text = item.partition("=")
        if not equals:
            raise ValueError(f"--set {item!r} is not of the form NAME=VALUE")
        try:
            found[name] = json.loads(text)
        except json.JSONDecodeError:
            found[name] = text
    return found


def add_task_features(parser: ArgumentParser, purpose: str) -> None:
    parser.add_argument(
        "--task-features",
        metavar="FILE",
        help=f"table with one row per task, named in the task column ({TASK!r} if the targets are tasks): {purpose}",
    )


def read_task_features(path: str, task: str | None, form: TextFormat) -> DataFrame:
    """Read a table of task features; the column `task` (or "task" if that is None) holds the task names."""
    if path == STDIN:
        raise ValueError("--task-features must be a file: standard input is for the rows")
    frame = read_table(path, task or TASK, (), form)
    try:
        check_names(frame.columns, [task or TASK])
    except ValueError as error:
        raise ValueError(f"--task-features {path}: {error}") from error
    return frame


def by_task(frame: DataFrame, schema: TableSchema) -> DataFrame:
    """Return the task features indexed by task, with labels as in a table with this schema."""
    name, labels = schema.task or TASK, schema.tasks(frame)
    if labels is None:
        labels = frame[name].astype(str).to_numpy(dtype=str)
    return frame.drop(columns=name).set_axis(labels, axis="index")


def read_kernels(items: Sequence[str] | None, positions: Mapping[str, list[int]]) -> list[Kernel] | None:
    """Return the kernels given after --kernels; `positions` are the features of each column of the table.

    >>> [kernel.name for kernel in read_kernels(["gaussian:0.5,2", "linear@age"], {"age": [0], "town": [1, 2]})]
    ['rbf(0.5 x median)', 'rbf(2 x median)', 'age: linear']
    >>> [kernel.name for kernel in read_kernels(["linear@each"], {"age": [0], "town": [1, 2]})]
    ['age: linear', 'town: linear']
    """
    if not items:
        return None
    return resolve_kernels([_read_kernel(item, positions) for item in items])


def _read_kernel(item: str, positions: Mapping[str, list[int]]) -> Any:
    match = _PATTERN.fullmatch(item)
    if match is None:
        raise ValueError(f"--kernels {item!r} is not of the form NAME[:NUMBERS][@COLUMNS]")
    family = _family(item, match["name"].lower(), match["numbers"])
    if match["columns"] is None:
        return family
    names = list(positions) if match["columns"] == "each" else [match["columns"]]
    return view_kernels({name: _columns(item, name, positions) for name in names}, family)


def _columns(item: str, names: str, positions: Mapping[str, list[int]]) -> list[int]:
    wanted = [names] if names in positions else names.split(",")
    for name in wanted:
        if name not in positions:
            raise ValueError(
                f"--kernels {item!r}: no feature column is named {name!r}; there are {listing([*positions])}"
            )
    return [position for name in wanted for position in positions[name]]


def _family(item: str, name: str, numbers: str | None) -> Any:
    try:
        values = [float(number) for number in numbers.split(",")] if numbers else None
    except ValueError:
        raise ValueError(f"--kernels {item!r}: {numbers!r} are not numbers separated by commas") from None
    if name in ("gaussian", "rbf"):
        return gaussian_kernels(values)
    if name in ("polynomial", "poly"):
        # The family refuses degrees that are not whole numbers.
        degrees: list[Any] = [int(value) if value.is_integer() else value for value in values or (1.0, 2.0, 3.0)]
        return polynomial_kernels(degrees)
    if values is not None:
        raise ValueError(f"--kernels {item!r}: only gaussian and polynomial take numbers")
    if name == "default":
        return default_kernels()
    return linear_kernels() if name == "linear" else name
