"""Scores of a model beside those of the baselines, on held-out rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..relations import SharingReport
from .holdout import common_means, shorten
from .terminal import Terminal

# The models that every fit is compared with.
BASELINES = {"AVG": "average kernel", "STL": "single-task", "IMKL": "independent"}

# Scores of single tasks are shown where half of the tasks have as many held-out rows: those of fewer rows are noise.
LEAST_ROWS = 5


def show_scores(terminal: Terminal, evaluation: dict[str, Any]) -> None:
    """The scores of the models over all held-out rows, and by task where tasks have enough of them."""
    names, tasks = list(evaluation["scores"]), evaluation["tasks"]
    how = "chosen by cross-validation" if evaluation["tuned"] else "at their defaults or as given"
    overall, rows = evaluation["overall"], evaluation["test_rows"]
    how = f"trained on {evaluation['train_rows']}; parameters {how}"
    terminal.say("", f"{rows} held-out rows of all tasks ({how}):")
    kinds = list(overall[names[0]])
    terminal.table(["model", *kinds], [[title(name), *map(_number, overall[name].values())] for name in names])
    if np.median(evaluation["task_test_rows"]) < LEAST_ROWS:
        return
    columns = np.array(list(evaluation["scores"].values()))
    order = np.argsort(-np.nan_to_num(columns[0], nan=-np.inf), kind="stable")
    rows = [[str(tasks[t]), *(_number(column[t]) for column in columns)] for t in order]
    means = ["mean", *map(_number, common_means(evaluation["scores"]).values())]
    terminal.say("", f"{evaluation['score']} inside each task, best first:")
    terminal.table(["task", *(title(name) for name in names)], [*shorten(rows), [], means])


def show_verdict(terminal: Terminal, report: SharingReport | str, *, tuned: bool) -> dict[str, Any]:
    """The models side by side with intervals and the recommendation -> what is saved of it."""
    terminal.say("", *str(report).split("\n"))
    if isinstance(report, str):
        return {}
    if not tuned:
        terminal.say("Parameters were not tuned for this table; --cv tunes them.")
    return {"sharing": report.to_dict()}


def title(name: str) -> str:
    return BASELINES.get(name, name)


def _number(value: float) -> str:
    if not np.isfinite(value):
        return "-"
    return f"{value:.3f}" if abs(value) < 1000 else f"{value:.0f}"
