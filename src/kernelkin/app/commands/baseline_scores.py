"""Scores of a model beside those of the baselines, on held-out rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...relations import SharingReport
from ..terminal import Terminal
from .holdout import common_means, shorten

# The models that every fit is compared with.
BASELINES = {"AVG": "average kernel", "STL": "single-task", "IMKL": "independent"}


def show_scores(terminal: Terminal, evaluation: dict[str, Any]) -> None:
    """The scores of every task by the models side by side."""
    names, tasks = list(evaluation["scores"]), evaluation["tasks"]
    columns = np.array(list(evaluation["scores"].values()))
    order = np.argsort(-np.nan_to_num(columns[0], nan=-np.inf), kind="stable")
    rows = [[str(tasks[t]), *(_number(column[t]) for column in columns)] for t in order]
    means = ["mean", *map(_number, common_means(evaluation["scores"]).values())]
    how = "chosen by cross-validation" if evaluation["tuned"] else "at their defaults or as given"
    terminal.say(
        f"{evaluation['score']} on {evaluation['test_rows']} test rows of all tasks, best first "
        f"(trained on {evaluation['train_rows']}; parameters {how}):"
    )
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
    return f"{value:.3f}" if np.isfinite(value) else "-"
