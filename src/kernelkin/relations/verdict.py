"""What a sharing report says in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .ablations import ABLATIONS, OURS
from .gains import Gain, Summary

if TYPE_CHECKING:
    from .sharing import SharingReport

SCORES = {"r2": "R²", "accuracy": "accuracy", "roc_auc": "AUC"}
HEADER = ["model", "mean over tasks", "mean over rows", "median task", "gain", "interval"]
# What to do where one of them is better.
_ADVICE = {
    "independent": "independent models are better here: use IMKL",
    "average": "independent models are better here: use AVG, the average kernel",
    "single": "independent models are better here: use STL, one kernel",
    "pooled": "use the pooled model: one function of all rows, with the task as columns",
    "boosting": "gradient boosting with the task as a category is better here",
}


def report_table(report: SharingReport) -> list[list[str]]:
    """A row for each model, the best first."""
    order = sorted(report.summaries, key=lambda name: -report.summaries[name].tasks)
    return [
        [report.name if name == OURS else name, *_numbers(report.summaries[name]), *_gain(report.gains.get(name))]
        for name in order
    ]


def _numbers(summary: Summary) -> list[str]:
    return [f"{value:.3f}" for value in (summary.tasks, summary.rows, summary.median)]


def _gain(gain: Gain | None) -> list[str]:
    if gain is None:
        return ["", ""]
    return [f"{gain.mean.tasks:+.3f}", f"{gain.low.tasks:+.3f} to {gain.high.tasks:+.3f}"]


def report_text(report: SharingReport) -> str:
    """The table, what it rests on, and the recommendation as the last line."""
    header = [*HEADER[:4], f"gain of {report.name}", HEADER[5]]
    rows = [header, *report_table(report)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADER))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([_basis(report), *lines, *_curve(report), recommendation(report)])


def _basis(report: SharingReport) -> str:
    used, T = int(report.used.sum()), len(report.tasks)
    rows = int(report.test_rows[report.used].sum())
    aside = f", {T - used} with too few test rows set aside" if used < T else ""
    n, requested = report.n_repeats, report.requested_repeats
    repeats = (
        f"{n} repetition{'s' if n > 1 else ''}"
        if n == requested
        else f"{n} of {requested} repetitions, for lack of time"
    )
    how = f"{report.cv}-fold cross-validation inside the training rows, {repeats}"
    return f"{SCORES[report.score]} on {rows} test rows of {used} tasks{aside} ({how}):"


def _curve(report: SharingReport) -> list[str]:
    if report.curve is None:
        return []
    gains = ", ".join(
        f"{size}: {gain.mean.tasks:+.3f}" for size, gain in zip(report.curve.sizes, report.curve.gains, strict=True)
    )
    stop = report.curve.stops_at
    end = "it still pays at the last of these" if stop is None else f"from {stop} rows on it does not clearly pay"
    return [f"Gain on independent kernel learning by training rows a task: {gains}; {end}."]


def recommendation(report: SharingReport) -> str:
    """One sentence: what to use on these data.

    A model is better where the interval of the difference, averaged over tasks, leaves out zero.
    """
    if report.score == "r2" and max(summary.tasks for summary in report.summaries.values()) <= 0:
        return "Recommendation: the mean of each task; no model predicts better than that."
    better = [name for name, gain in report.gains.items() if gain.sign < 0]
    if better:
        best = max(better, key=lambda name: report.summaries[name].tasks)
        return f"Recommendation: {_ADVICE.get(best, f'{best} is better here')} ({_difference(report, best)})."
    open_ = [name for name, gain in report.gains.items() if gain.sign == 0]
    if not open_:
        nearest = max(report.gains, key=lambda name: report.summaries[name].tasks)
        return (
            f"Recommendation: {report.name}; it is ahead of all that it was compared with "
            f"({_difference(report, nearest)})."
        )
    simple = max(open_, key=lambda name: report.summaries[name].tasks)
    return (
        f"Recommendation: {report.name} is not clearly better or worse than {ABLATIONS.get(simple, simple)} "
        f"({_difference(report, simple)}){': the simpler one will do' if simple in ABLATIONS else ''}."
    )


def _difference(report: SharingReport, other: str) -> str:
    gain = report.gains[other]
    own, its = report.summaries[OURS].tasks, report.summaries[other].tasks
    return (
        f"{other} {its:.3f}, {report.name} {own:.3f}, difference {gain.mean.tasks:+.3f}, {report.level:.0%} interval "
        f"{gain.low.tasks:+.3f} to {gain.high.tasks:+.3f}; by task, clearly ahead in {gain.ahead} and behind in "
        f"{gain.behind} of {int(report.used.sum())}"
    )
