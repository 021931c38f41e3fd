"""A model beside simpler ones, as a sharing report compares them."""

from __future__ import annotations

from typing import Any

from ..relations import SharingReport
from ..relations.ablations import ABLATIONS, OURS
from .evaluation import SCORES
from .values import number, numbers

TITLES = {
    "independent": "Independent kernel learning",
    "average": "Average kernel, each task alone",
    "single": "One kernel, each task alone",
    "pooled": "A pooled model",
    "boosting": "Gradient boosting",
}


def comparison_content(report: SharingReport) -> dict[str, Any]:
    """The models of a sharing report with their scores, and what the model gains on each."""
    models = []
    for name, summary in report.summaries.items():
        gain = report.gains.get(name)
        models.append(
            {
                "name": name,
                "title": report.name if name == OURS else TITLES.get(name, name),
                "about": "" if name == OURS else ABLATIONS.get(name, ""),
                "ours": name == OURS,
                "mean": number(summary.tasks),
                "rows": number(summary.rows),
                "median": number(summary.median),
                "gain": gain and [number(gain.mean.tasks), number(gain.low.tasks), number(gain.high.tasks)],
                "sign": gain and gain.sign,
                "ahead": gain and gain.ahead,
                "behind": gain and gain.behind,
                "task_gain": gain and numbers(gain.tasks),
            }
        )
    return {
        "score": SCORES[report.score],
        "level": report.level,
        "n_tasks": int(report.used.sum()),
        "n_rows": int(report.test_rows[report.used].sum()),
        "tasks": [str(task) for task in report.tasks.tolist()],
        "models": models,
        "how": f"{report.cv}-fold cross-validation in the training rows, {_times(report.n_repeats)}",
        "verdict": report.verdict.removeprefix("Recommendation: "),
    }


def _times(n: int) -> str:
    return "once" if n == 1 else f"{n} times"
