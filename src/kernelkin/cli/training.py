"""Fit models to a learning problem with the settings of the command line."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.arrays import listing
from ..kernels.families import refuse_positions, resolve_kernels
from ..kin.task_features import read_task_kernels
from ..paper.model_selection.grid import has_choices
from ..paper.model_selection.scoring import read_scoring
from ..registry import RegisteredModel, find_model
from ..tables.encoder import check_names
from ..tables.files import STDIN, TextFormat, read_table
from ..tables.schema import TableSchema
from .problem import TableProblem, in_file, text_format

if TYPE_CHECKING:
    from pandas import DataFrame

    from ..progress import Progress


# The default model: an average of mixed kernel models, without parameters to choose.
SEARCHED = "Kin"
# The column with the task names in a table of task features, if the tasks are several targets.
TASK = "task"


@dataclass(frozen=True)
class Recipe:
    """A model to fit to a problem, and the arguments that set its parameters."""

    model: RegisteredModel
    problem: TableProblem
    arguments: Namespace
    task_features: DataFrame | None = None

    @classmethod
    def of(cls, name: str | None, problem: TableProblem, arguments: Namespace) -> Recipe:
        """Return the model with this name; None: Kin, unless an option needs MK-MTRL."""
        if name is None:
            foreign = set(read_parameters(arguments.set)) - set(cls.of(SEARCHED, problem, arguments).parameters)
            name = "MK-MTRL" if arguments.cv or foreign else SEARCHED
        features = None
        if arguments.task_features is not None:
            task = problem.tasks[0] if problem.tasks else TASK
            features = read_task_features(arguments.task_features, task, text_format(arguments))
            labels = problem.schema.first_tasks(problem.frame)
            with in_file(arguments.task_features):
                labels = np.unique(problem.targets if labels is None else labels)
                read_task_kernels(by_task(features, problem.schema), labels)
        recipe = cls(find_model(name), problem, arguments, features)
        recipe.estimator_class()
        return recipe

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def shares_functions(self) -> bool:
        """Whether tasks share parts of their functions. If so, tasks with one row or one class can be fitted."""
        known, given = self.parameters, read_parameters(self.arguments.set)
        return self.name == SEARCHED or bool(given.get("couplings") and "couplings" in known)

    @property
    def parameters(self) -> dict[str, Any]:
        """The default parameters of the estimator."""
        return self.estimator_class()().get_params(deep=False)

    def fit(self, progress: Progress) -> Any:
        """Fit to the rows of the table."""
        schema, frame = self.problem.schema, self.problem.frame
        X, y, tasks = schema.encode_table(frame), schema.targets(frame), schema.tasks(frame)
        model = self.unfitted(progress).fit(X, y, tasks=tasks, **schema.options(frame))
        model = getattr(model, "best_estimator_", model)
        # The callback is not needed in the saved model.
        return model.set_params(callback=None) if getattr(model, "callback", None) is not None else model

    def unfitted(self, progress: Progress | None = None) -> Any:
        """Return the unfitted model, or a search if parameters are chosen by cross-validation."""
        from ..paper.model_selection.cv import MultiTaskCV

        estimator = self.estimator()
        if self.name == SEARCHED and progress is not None:
            estimator.set_params(callback=lambda done, of: progress.share(done / of))
        if not self.arguments.cv or not has_choices(estimator):
            return estimator
        given = self.arguments
        search = MultiTaskCV(estimator, scoring=given.scoring, random_state=given.seed, n_jobs=given.jobs)
        if progress is not None:
            search.set_params(callback=lambda done, of: progress.share(done / of, f"candidate {done} of {of}"))
        return search

    def estimator_class(self) -> type:
        regression, n_groupings = self.problem.regression, len(self.problem.tasks)
        found = self.model.regressor if regression else self.model.classifier
        if found is None:
            kind = "regression" if regression else "classification"
            raise ValueError(f"{self.name} does not support {kind}; see `kernelkin models`")
        if self.model.needs_wide and n_groupings:
            raise ValueError(f"{self.name} needs all targets for every row, but this table has one target per row")
        if n_groupings > 1 and not getattr(found, "takes_groupings", False):
            raise ValueError(f"{self.name} takes one grouping: give --task once, or use {SEARCHED}")
        return found

    def estimator(self) -> Any:
        """Return the unfitted model with its parameters."""
        estimator, features = self.estimator_class()(), self.task_features
        wanted = {
            "task_features": None if features is None else by_task(features, self.problem.schema),
            **({} if self.arguments.loss is None else {"loss": self.arguments.loss}),
            "n_jobs": self.arguments.jobs,
            "random_state": self.arguments.seed,
            **read_parameters(self.arguments.set),
        }
        known = estimator.get_params(deep=False)
        return estimator.set_params(**{name: value for name, value in wanted.items() if name in known})


def check_parameters(recipes: Sequence[Recipe], arguments: Namespace) -> None:
    """Raise for parameters that no model has."""
    known = {name for recipe in recipes for name in recipe.parameters}
    models = ", ".join(recipe.name for recipe in recipes)
    if arguments.loss is not None and (others := [recipe.name for recipe in recipes if recipe.name != SEARCHED]):
        raise ValueError(f"--loss {arguments.loss}: this loss is for {SEARCHED}, not for {', '.join(others)}")
    if arguments.task_features and "task_features" not in known:
        raise ValueError(f"--task-features: {models} does not use features of tasks")
    if arguments.scoring and not arguments.cv:
        raise ValueError("--scoring sets the score that --cv maximises: add --cv, or leave it out")
    if arguments.scoring:
        try:
            read_scoring(arguments.scoring, classification=not recipes[0].problem.regression)
        except ValueError as error:
            raise ValueError(f"--scoring {arguments.scoring}: {error}") from None
    if arguments.cv and not any(has_choices(recipe.estimator()) for recipe in recipes):
        raise ValueError(f"--cv: {models} has no parameters left to choose")
    given = read_parameters(arguments.set)
    if "loss" in given and any(recipe.name == SEARCHED for recipe in recipes):
        raise ValueError(f"--set loss: use --loss {given['loss']} for {SEARCHED}")
    for name in given:
        if name not in known:
            raise ValueError(f"--set {name}: there is no such parameter; {models} has {listing(sorted(known), 30)}")
    try:
        refuse_positions(resolve_kernels(given.get("kernels")))
    except (TypeError, ValueError) as error:
        raise ValueError(f"--set kernels: {error}") from None


def read_parameters(items: Sequence[str]) -> dict[str, Any]:
    """Return the parameters given after --set: JSON, or else text.

    >>> read_parameters(["C=10", "loss=squared", 'kernels={"size": ["length", "width"]}'])
    {'C': 10, 'loss': 'squared', 'kernels': {'size': ['length', 'width']}}
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


def read_task_features(path: str, task: str, form: TextFormat) -> DataFrame:
    """Read a table of task features; the column `task` holds the task names."""
    if path == STDIN:
        raise ValueError("--task-features must be a file: standard input is for the rows")
    frame = read_table(path, task, (), form)
    with in_file(path):
        check_names(frame.columns, [task])
    return frame


def by_task(frame: DataFrame, schema: TableSchema) -> DataFrame:
    """Return the task features indexed by task, with labels as in a table with this schema."""
    name, labels = schema.task or TASK, schema.first_tasks(frame)
    if labels is None:
        labels = frame[name].astype(str).to_numpy(dtype=str)
    return frame.drop(columns=name).set_axis(labels, axis="index")
