"""From a table and command line arguments to fitted models."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...couplings import COMMON, INPUTS
from ...data import listing
from ...io.storage import Folder
from ...registry import Model, find_model
from ...tables import TableSchema
from ...tables.schema import check_columns
from ..terminal import complain
from .kernel_spec import read_kernels

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from ...progress import Progress

# Whole numbers with at most this many distinct values are taken as classes.
MOST_CLASSES = 10
# Below this share of the rarer of two classes, accuracy is uninformative.
RARE = 0.2


def add_data_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("data", metavar="DATA", help="a CSV, TSV or Parquet file with a header, or - for CSV on stdin")
    parser.add_argument("--task", required=True, metavar="COL", help="the column with the task of each row")
    parser.add_argument("--target", required=True, metavar="COL", help="the column to predict")
    parser.add_argument("--drop", nargs="+", default=[], metavar="COL", help="columns to leave out")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--classification", action="store_true", help="treat the target as a class")
    kind.add_argument("--regression", action="store_true", help="treat the target as a number")


def add_model_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--kernels", nargs="+", metavar="SPEC", help="see below (default: Gaussians and linear)")
    parser.add_argument(
        "--couplings",
        choices=[COMMON, INPUTS],
        help="let tasks share a part of their functions: all tasks, or those with similar inputs",
    )
    parser.add_argument("--cv", action="store_true", help="choose parameters by 5-fold cross-validation")
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="NAME=VALUE", help="parameters of the model, such as C=10 min_rank=2"
    )
    parser.add_argument("--balanced", action="store_true", help="give the classes of each task equal weight")
    parser.add_argument("--scoring", metavar="NAME", help="accuracy, roc_auc, r2 or another score of scikit-learn")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    parser.add_argument("--jobs", type=int, metavar="N", help="threads (default: 1)")
    parser.add_argument(
        "--cache", metavar="DIR", help="keep the finished parts here, so that the same command continues after a stop"
    )


@dataclass(frozen=True)
class Problem:
    """A table whose rows all have a task and a target, and how to learn from it.

    `notes` describe how the table was read.
    """

    frame: DataFrame
    task: str
    target: str
    drop: tuple[str, ...]
    regression: bool
    scoring: str
    notes: tuple[str, ...]

    def schema(self, rows: np.ndarray | slice = slice(None)) -> TableSchema:
        """The schema of some of the rows."""
        return TableSchema.fit(self.frame.iloc[rows], self.task, self.target, self.drop, regression=self.regression)


def read_problem(frame: DataFrame, arguments: Namespace) -> Problem:
    """Choose the rows to use, and classification or regression."""
    task, target = arguments.task, arguments.target
    check_columns(frame, [task, target, *arguments.drop])
    if task == target:
        raise ValueError(f"--task and --target are the same column, {task!r}")
    notes = []
    missing = frame[[task, target]].isna().any(axis=1)
    if missing.any():
        notes.append(f"Left out {missing.sum()} of {len(frame)} rows, without {task!r} or {target!r}.")
        frame = frame[~missing]
    if not len(frame):
        raise ValueError(f"no row has both a {task!r} and a {target!r}")
    regression, why = _guess(frame[target], arguments)
    notes.append(f"{'Regression' if regression else 'Classification'}: {why}.")
    if not regression:
        frame, note = _drop_one_class_tasks(frame, task, target)
        notes += note
    scoring, note = _choose_scoring(frame, task, target, regression, arguments.scoring)
    return Problem(frame, task, target, tuple(arguments.drop), regression, scoring, (*notes, *note))


def _guess(values: Series, arguments: Namespace) -> tuple[bool, str]:
    """Whether to regress, and why."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    name, distinct = arguments.target, values.nunique()
    if arguments.regression or arguments.classification:
        if arguments.regression and not is_numeric_dtype(values):
            raise ValueError(f"--regression: {name!r} holds text, such as {str(values.iloc[0])!r}")
        return arguments.regression, "on request"
    if distinct == 1:
        raise ValueError(f"{name!r} is {values.iloc[0]!r} in every row: nothing can be learned")
    if not is_numeric_dtype(values) or is_bool_dtype(values):
        return False, f"{name!r} is text with {distinct} distinct values"
    whole = bool((values == values.round()).all())
    if distinct == 2 or (whole and distinct <= MOST_CLASSES):
        kind = "whole numbers" if whole else "numbers"
        return False, f"{name!r} has {distinct} distinct values, {kind} (--regression to predict a number)"
    return True, f"{name!r} is a number with {distinct} distinct values" + (
        " (--classification to predict a class)" if whole and distinct <= 3 * MOST_CLASSES else ""
    )


def _drop_one_class_tasks(frame: DataFrame, task: str, target: str) -> tuple[DataFrame, list[str]]:
    classes = frame.groupby(task)[target].nunique()
    single = classes[classes < 2].index
    if not len(single):
        return frame, []
    if len(single) == len(classes):
        raise ValueError(f"every task has only one class of {target!r}: is {task!r} the right task column?")
    kept = frame[~frame[task].isin(single)]
    tasks = "1 task" if len(single) == 1 else f"{len(single)} tasks"
    return kept, [f"Left out {tasks} with only one class: {listing(single.tolist())}."]


def _choose_scoring(
    frame: DataFrame, task: str, target: str, regression: bool, scoring: str | None
) -> tuple[str, list[str]]:
    if scoring is not None or regression:
        return scoring or "r2", []
    if frame[target].nunique() == 2 and (rarer := frame[target].value_counts(normalize=True).min()) < RARE:
        return "roc_auc", [f"Score: AUC, because the rarer class has only {rarer:.0%} of the rows."]
    return "accuracy", []


@dataclass(frozen=True)
class Recipe:
    """A model to fit, and the arguments that set its parameters."""

    model: Model
    regression: bool
    arguments: Namespace

    @classmethod
    def of(cls, name: str, problem: Problem, arguments: Namespace) -> Recipe:
        recipe = cls(find_model(name), problem.regression, arguments)
        recipe.estimator_class()
        return recipe

    def other(self, name: str) -> Recipe:
        """Another model with the same arguments, as far as it has these parameters."""
        return replace(self, model=find_model(name))

    def with_cache(self, folder: Path | None) -> Recipe:
        """The same, keeping the finished parts of a search in a folder."""
        return replace(self, arguments=Namespace(**{**vars(self.arguments), "cache": folder}))

    @property
    def name(self) -> str:
        return self.model.name

    def fit(self, schema: TableSchema, frame: DataFrame, progress: Progress) -> Any:
        """Fit to the rows of a table, a step of the progress whose parts are candidates."""
        X, y, tasks = schema.encode(frame), schema.targets(frame), schema.tasks(frame)
        model = self.unfitted(schema, progress).fit(X, y, tasks=tasks)
        if getattr(model, "n_cached_", 0):
            complain(f"{self.name}: {model.n_cached_} parts of the cross-validation were found in the cache")
        if getattr(model, "cache", None):
            model.set_params(cache=None)  # of no use to whoever loads the model
        return getattr(model, "best_estimator_", model)

    def unfitted(self, schema: TableSchema, progress: Progress) -> Any:
        """The model, or a search if there are parameters to choose."""
        from ...model_selection import MultiTaskCV, has_choices

        estimator = self._estimator(schema)
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
            raise ValueError(f"{self.name} is not for {kind}; `kernelkin models` lists what is")
        if self.model.needs_wide:
            raise ValueError(f"{self.name} needs every target of every row, and a table has one target in each row")
        return found

    def _estimator(self, schema: TableSchema) -> Any:
        estimator = self.estimator_class()()
        wanted = {
            "kernels": read_kernels(self.arguments.kernels, schema.positions),
            "couplings": self.arguments.couplings,
            "n_jobs": self.arguments.jobs,
            "random_state": self.arguments.seed,
            **({"class_weight": "balanced"} if self.arguments.balanced else {}),
            **({"cache": self.arguments.cache} if self.arguments.cache else {}),
            **read_parameters(self.arguments.set),
        }
        known = estimator.get_params(deep=False)
        if "kernel" in known:
            # Single-task learning uses one kernel of all columns, whichever kernels are given for the others.
            wanted["kernels"] = None
        return estimator.set_params(**{name: value for name, value in wanted.items() if name in known})


def check_cache(arguments: Namespace) -> None:
    """Refuse, before any work is done, a cache that cannot be written."""
    if arguments.cache:
        Folder(arguments.cache).prepare()


def check_parameters(recipes: Sequence[Recipe], arguments: Namespace) -> None:
    """Refuse parameters that no model has."""
    known = {name for recipe in recipes for name in recipe.estimator_class()().get_params(deep=False)}
    models = ", ".join(recipe.name for recipe in recipes)
    if arguments.couplings and "couplings" not in known:
        raise ValueError(f"--couplings: {models} has no part that tasks share")
    for name in read_parameters(arguments.set):
        if name not in known:
            raise ValueError(f"--set {name}: {models} has {listing(sorted(known), 30)}")


def read_parameters(items: Sequence[str]) -> dict[str, Any]:
    """What follows --set -> parameters.

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
