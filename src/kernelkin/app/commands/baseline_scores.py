"""Scores of a model beside those of the baselines, on held-out rows: a table, and what to conclude."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..terminal import Terminal
from .holdout import mean, shorten

# The models that every fit is compared with.
BASELINES = {"AVG": "average kernel", "STL": "single-task"}


def show_scores(terminal: Terminal, evaluation: dict[str, Any]) -> None:
    """The table of tasks, a line for each baseline, and advice."""
    names, tasks = list(evaluation["scores"]), evaluation["tasks"]
    columns = np.array(list(evaluation["scores"].values()))
    order = np.argsort(-np.nan_to_num(columns[0], nan=-np.inf), kind="stable")
    rows = [[str(tasks[t]), *(_number(column[t]) for column in columns)] for t in order]
    means = ["mean", *(_number(mean(column)) for column in columns)]
    how = "chosen by cross-validation" if evaluation["tuned"] else "at their defaults or as given"
    terminal.say(
        f"{evaluation['score']} on {evaluation['test_rows']} test rows of all tasks, best first "
        f"(trained on {evaluation['train_rows']}; parameters {how}):"
    )
    terminal.table(["task", *(title(name) for name in names)], [*shorten(rows), [], means])
    for name in names[1:]:
        terminal.say(against(names[0], columns[0], title(name), evaluation["scores"][name]))
    if advice := verdict(evaluation):
        terminal.say(advice)


def against(name: str, scores: Sequence[float], other: str, other_scores: Sequence[float]) -> str:
    """One line: the mean gain, its standard error over tasks, and the number of tasks with a gain.

    >>> against("A", [0.5, 0.7], "B", [0.4, 0.4])
    'A against B: +0.200 ± 0.100; better in 2 of 2 tasks.'
    """
    gain, error = _gain(scores, other_scores)
    if not len(gain):
        return f"{name} against {other}: no task has a score of both."
    spread = "" if error is None else f" ± {error:.3f}"
    return f"{name} against {other}: {gain.mean():+.3f}{spread}; better in {(gain > 0).sum()} of {len(gain)} tasks."


def verdict(evaluation: dict[str, Any]) -> str:
    """Advice if the model is behind a baseline, or not clearly ahead of the best one; empty if it is."""
    ours, *others = evaluation["scores"]
    found = {name: _gain(evaluation["scores"][ours], evaluation["scores"][name]) for name in others}
    found = {name: (gain, error) for name, (gain, error) in found.items() if len(gain)}
    if not found:
        return ""
    best = min(found, key=lambda name: found[name][0].mean())
    gain, error = found[best]
    place = title(best) if best == "STL" else f"the {title(best)}"
    clear = error is None or abs(gain.mean()) > error
    where = f"{ours} is {'behind' if gain.mean() < 0 else 'ahead of'} {place}"
    where += "" if clear else ", within one standard error"
    if gain.mean() < 0 and not evaluation["tuned"]:
        return f"{where}. Its parameters were not tuned for this table: --cv tunes them."
    if not clear:
        return f"{where}: `kernelkin compare` measures the difference more precisely."
    if gain.mean() < 0:
        return f"{where}, with parameters tuned by cross-validation: prefer --model {best}."
    return ""


def title(name: str) -> str:
    return BASELINES.get(name, name)


def _gain(scores: Any, other_scores: Any) -> tuple[np.ndarray, float | None]:
    """The gain in each task that has both scores, and the standard error of its mean."""
    gain = np.asarray(scores, dtype=np.float64) - np.asarray(other_scores, dtype=np.float64)
    gain = gain[np.isfinite(gain)]
    return gain, float(gain.std(ddof=1) / np.sqrt(len(gain))) if len(gain) > 1 else None


def _number(value: float) -> str:
    return f"{value:.3f}" if np.isfinite(value) else "-"
