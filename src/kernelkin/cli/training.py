"""From a learning problem and command line arguments to fitted models."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..data import listing
from ..files import Folder
from ..paper.couplings import COMMON
from ..registry import Model, find_model
from ..tables import TableSchema
from . import task_features
from .kernel_spec import read_kernels
from .problem import Problem, text_format
from .terminal import complain

if TYPE_CHECKING:
    from pandas import DataFrame

    from ..progress import Progress


# The model that needs no parameters: an average of mixed kernel models.
SEARCHED = "Kin"


def add_model_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--kernels", nargs="+", metavar="SPEC", help="see below (default: Gaussians and linear)")
    parser.add_argument(
        "--couplings",
        choices=[COMMON],
        help="let all tasks share a part of their functions",
    )
    task_features.add_argument(parser, "similar tasks share parts of their functions")
    parser.add_argument(
        "--unknown-tasks",
        choices=["common", "error"],
        help="tasks that training did not have: predict them by what all tasks have in common, or refuse them "
        f"(default: common for {SEARCHED}, error for the other models)",
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
        "--cache",
        metavar="DIR",
        help="keep the finished parts of a cross-validation here, so that the same command continues after a stop",
    )


@dataclass(frozen=True)
class Recipe:
    """A model to fit, and the arguments that set its parameters."""

    model: Model
    regression: bool
    arguments: Namespace
    wide: bool = False
    task_features: DataFrame | None = None

    @classmethod
    def of(cls, name: str, problem: Problem, arguments: Namespace) -> Recipe:
        features = None
        if arguments.task_features is not None:
            features = task_features.read_file(arguments.task_features, problem.task, text_format(arguments))
        recipe = cls(find_model(name), problem.regression, arguments, problem.task is None, features)
        recipe.estimator_class()
        return recipe

    def other(self, name: str) -> Recipe:
        """Another model with the same arguments, as far as it has these parameters."""
        return replace(self, model=find_model(name))

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def shares_functions(self) -> bool:
        """Whether tasks share parts of their functions, so that one row or one class of a task is enough to fit it."""
        if self.name == SEARCHED:
            return True
        known = self.estimator_class()().get_params(deep=False)
        given = self.arguments.couplings or read_parameters(self.arguments.set).get("couplings")
        features = self.task_features is not None and "task_features" in known
        return features or bool(given and "couplings" in known)

    def fit(self, schema: TableSchema, frame: DataFrame, progress: Progress) -> Any:
        """Fit to the rows of a table, a step of the progress whose parts are candidates."""
        X, y, tasks = schema.encode_table(frame), schema.targets(frame), schema.tasks(frame)
        model = self.unfitted(schema, progress).fit(X, y, tasks=tasks)
        if getattr(model, "n_cached_", 0):
            complain(f"{self.name}: {model.n_cached_} parts of the cross-validation were found in the cache")
        model = getattr(model, "best_estimator_", model)
        # Of no use to whoever loads the model.
        return model.set_params(callback=None) if getattr(model, "callback", None) is not None else model

    def unfitted(self, schema: TableSchema, progress: Progress) -> Any:
        """The model, or a search if there are parameters to choose."""
        from ..kin import KinClassifier, KinRegressor
        from ..paper.model_selection import MultiTaskCV, has_choices

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
            raise ValueError(f"{self.name} is not for {kind}; `kernelkin models` lists what is")
        if self.model.needs_wide and not self.wide:
            raise ValueError(f"{self.name} needs every target of every row, and this table has one target in each row")
        return found

    def _estimator(self, schema: TableSchema) -> Any:
        estimator = self.estimator_class()()
        wanted = {
            "kernels": read_kernels(self.arguments.kernels, schema.positions),
            "couplings": self.arguments.couplings,
            "task_features": self._task_features(schema),
            "n_jobs": self.arguments.jobs,
            "random_state": self.arguments.seed,
            **({"class_weight": "balanced"} if self.arguments.balanced else {}),
            **({"unknown_tasks": self.arguments.unknown_tasks} if self.arguments.unknown_tasks else {}),
            **read_parameters(self.arguments.set),
        }
        known = estimator.get_params(deep=False)
        if "kernel" in known:
            # Single-task learning uses one kernel of all columns, whichever kernels are given for the others.
            wanted["kernels"] = None
        return estimator.set_params(**{name: value for name, value in wanted.items() if name in known})

    def _task_features(self, schema: TableSchema) -> DataFrame | None:
        return None if self.task_features is None else task_features.by_task(self.task_features, schema)


@contextmanager
def says_what_is_kept(cache: str | None) -> Iterator[None]:
    """Say on an interrupt where the finished parts of a cross-validation are, if they are kept."""
    kept = f"the finished parts are in {cache}, and the same command continues from there"
    try:
        yield
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(*interrupt.args or (kept if cache else "nothing was kept",)) from None


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
    if arguments.task_features and "task_features" not in known:
        raise ValueError(f"--task-features: {models} does not use features of tasks")
    if arguments.unknown_tasks == "common" and "unknown_tasks" not in known:
        raise ValueError(f"--unknown-tasks: {models} cannot predict tasks that training did not have")
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
