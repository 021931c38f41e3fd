"""What an experiment is: data and splits, models with their grids, a metric, and the figures to compare with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Split:
    """Training and test rows of one run. `tasks` and `tasks_test` are None for wide targets (n, T)."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    tasks: np.ndarray | None = None
    tasks_test: np.ndarray | None = None
    task_names: Sequence[str] = ()


@dataclass(frozen=True)
class Setting:
    """One column of the table: a training size, and a variant of the data where there are several.

    `runs` limits the number of runs where they take long; it is no part of what a run is.
    """

    name: str
    size: int = 0
    variant: str = ""
    runs: int | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Model:
    """One row of the table: an unfitted estimator and the values that cross-validation tries.

    `chooser` is an estimator of the same problem that cross-validation tries instead, where it is much faster.

    `grid` is a dict of lists, or a list of such dicts; empty: nothing to choose. `n_splits` is the number of folds;
    `role` is "ours" for what we recommend, "paper" for the paper's own model in any form, "part" for ours without one
    of its parts (which the table leaves to a section of its own), "baseline" otherwise. `runs` limits the number of
    runs of a model that takes long.
    """

    name: str
    estimator: Any
    grid: Any = field(default_factory=dict)
    role: str = "baseline"
    n_splits: int = 5
    chooser: Any = None
    runs: int | None = None


@dataclass(frozen=True)
class Metric:
    """A score of one task from its test targets and predictions.

    With `decisions` from decision values, with `probabilities` from those of the second class.

    `scoring` is what cross-validation goes by. With `pooled` the test rows of all tasks have one score. `columns` are
    the positions of the tasks of wide data that are scored; none: all.
    """

    name: str
    function: Callable[[np.ndarray, np.ndarray], float]
    scoring: str
    larger_is_better: bool
    digits: int = 4
    decisions: bool = False
    pooled: bool = False
    probabilities: bool = False
    columns: tuple[int, ...] = ()

    @property
    def method(self) -> str:
        """The method of an estimator whose values are scored."""
        if self.probabilities:
            return "predict_proba"
        return "decision_function" if self.decisions else "predict"


@dataclass(frozen=True)
class Goal:
    """What our recommended setting is to reach in one setting: at least `value`, or at most where less is better."""

    setting: str
    value: float
    source: str


@dataclass(frozen=True)
class Protocol:
    """A whole experiment.

    Attributes
    ----------
    split : (setting, run) -> Split, the same for all models, so that runs are paired.
    models : setting -> the models to compare in it.
    paper : (setting, model) -> what the paper prints; `paper_tasks` the same for (task, model) in `task_setting`, the
        setting for which the table of each task is shown too.
    remarks : what a reader of the table should know, as Markdown.
    introduction : the paragraph above the table; empty: that of the paper's experiments.
    further : metrics that have a table of their own.
    sections : from the results to further sections of the page.
    prepare : what has to be computed once, before runs in several processes need it.
    least : the smallest size that the short version may have.
    draw : a figure (PNG) from the protocol and its results, in place of the one of errors against sizes.
    """

    name: str
    title: str
    metric: Metric
    settings: tuple[Setting, ...]
    split: Callable[[Setting, int], Split]
    models: Callable[[Setting], Sequence[Model]]
    runs: int = 10
    paper: Mapping[tuple[str, str], str] = field(default_factory=dict)
    task_setting: str | None = None
    paper_tasks: Mapping[tuple[str, str], str] = field(default_factory=dict)
    goals: tuple[Goal, ...] = ()
    remarks: str = ""
    introduction: str = ""
    further: tuple[Metric, ...] = ()
    sections: Callable[[Sequence[Any]], Sequence[str]] = lambda results: ()
    prepare: Callable[[], Any] = lambda: None
    least: int = 30
    draw: Callable[[Protocol, Sequence[Any]], bytes] | None = None

    def model_names(self, parts: bool = True) -> list[str]:
        """All models of all settings, in the order of the table; with or without ours without one of its parts."""
        models = [model for setting in self.settings for model in self.models(setting)]
        return list(dict.fromkeys(model.name for model in models if parts or model.role != "part"))

    @property
    def ours(self) -> str | None:
        """The name of the row that we recommend."""
        models = (model for setting in self.settings for model in self.models(setting))
        return next((model.name for model in models if model.role == "ours"), None)

    def model(self, setting: Setting, name: str) -> Model:
        return next(model for model in self.models(setting) if model.name == name)


def read_remarks(*names: str) -> str:
    """The texts of these names in the folder `remarks`."""
    folder = files(__package__) / "remarks"
    return "\n".join((folder / f"{name}.md").read_text(encoding="utf-8") for name in names).rstrip()
