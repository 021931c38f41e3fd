"""From results to the cells of a table: means, standard errors, the best model and those that are as good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import sem, ttest_rel

from .protocol import Protocol
from .store import Result

SIGNIFICANCE = 0.05


@dataclass(frozen=True)
class Cell:
    """One model in one setting: mean and standard error over runs; `bold` if best, or not significantly worse.

    `seconds` are the mean of the runs, `memory` (MiB) is their maximum, NaN where it was not measured.
    """

    mean: float
    error: float
    runs: int
    seconds: float
    bold: bool = False
    memory: float = float("nan")


Runs = Mapping[int, float]


def summarise(protocol: Protocol, results: Sequence[Result]) -> dict[tuple[str, str], Cell]:
    """(setting, model) -> its cell. Rows that the table leaves out are not compared with the others."""
    cells: dict[tuple[str, str], Cell] = {}
    shown = set(protocol.model_names(parts=False))
    for setting in protocol.settings:
        here = [result for result in results if result.setting == setting.name]
        scores: dict[str, dict[int, float]] = {}
        seconds: dict[str, list[float]] = {}
        memory: dict[str, list[float]] = {}
        common = common_tasks(here)
        for result in here:
            scores.setdefault(result.model, {})[result.run] = result.score_of(common)
            seconds.setdefault(result.model, []).append(result.seconds)
            memory.setdefault(result.model, []).append(np.nan if result.memory is None else result.memory)
        compared = {model: runs for model, runs in scores.items() if model in shown}
        good = comparable(compared, protocol.metric.larger_is_better)
        for model, runs in scores.items():
            cell = _cell(list(runs.values()), float(np.mean(seconds[model])), model in good)
            cells[setting.name, model] = replace(cell, memory=max(memory[model]))
    return cells


def common_tasks(results: Sequence[Result]) -> dict[int, list[str]]:
    """The tasks by which models are compared in each run: those that all models have in it.

    A run that not all models have leaves out what the others have in none of theirs, so that runs remain comparable.
    """
    ever: dict[str, set[str]] = {}
    for result in results:
        ever.setdefault(result.model, set()).update(result.scores)
    found: dict[int, list[str]] = {}
    for result in results:
        kept = found.get(result.run, [task for task in result.scores if all(task in names for names in ever.values())])
        found[result.run] = [task for task in kept if task in result.scores]
    return found


def summarise_tasks(protocol: Protocol, results: Sequence[Result]) -> dict[tuple[str, str], Cell]:
    """(task, model) -> its cell, in the protocol's `task_setting`."""
    here = [result for result in results if result.setting == protocol.task_setting]
    cells: dict[tuple[str, str], Cell] = {}
    for task in dict.fromkeys(task for result in here for task in result.scores):
        scores: dict[str, dict[int, float]] = {}
        for result in here:
            if task in result.scores:
                scores.setdefault(result.model, {})[result.run] = result.scores[task]
        good = comparable(scores, protocol.metric.larger_is_better)
        for model, runs in scores.items():
            cells[task, model] = _cell(list(runs.values()), float("nan"), model in good)
    return cells


def _cell(values: Sequence[float], seconds: float, bold: bool) -> Cell:
    error = float(sem(values)) if len(values) > 1 else float("nan")
    return Cell(float(np.mean(values)), error, len(values), seconds, bold)


def comparable(scores: Mapping[str, Runs], larger_is_better: bool) -> set[str]:
    """The best model and those whose runs do not differ from its, by a paired t-test, at the 5% level."""
    if not scores:
        return set()
    sign = 1.0 if larger_is_better else -1.0
    best = max(scores, key=lambda model: sign * float(np.mean(list(scores[model].values()))))
    return {model for model in scores if model == best or not differ(scores[best], scores[model])}


def differ(first: Runs, second: Runs) -> bool:
    """Whether a paired t-test on the runs that both have is significant.

    With fewer than two such runs there is no test: all scores differ that are not equal.
    """
    shared = sorted(first.keys() & second.keys())
    a, b = (np.array([runs[run] for run in shared]) for runs in (first, second))
    if len(shared) < 2 or np.ptp(a - b) == 0:
        return not np.allclose(a, b, rtol=1e-12, atol=0)
    return bool(ttest_rel(a, b).pvalue <= SIGNIFICANCE)
