"""Whether Kin meets the goals of the project."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .predict_models import KIN
from .predict_summary import Results, differences, ranks, regrets

TREES = ("random forest", "LightGBM", "HistGradientBoosting")
ONE_COLUMN = "made: one column of twenty"


def goals(results: Results) -> list[str]:
    """A line for each goal that the results can judge."""
    if KIN not in results.models or len(results.models) < 2:
        return []
    checks: tuple[Callable[[Results], tuple[str, str, bool] | None], ...] = (
        _best_rank, _least_regret, _not_behind_average, _ahead_of_trees, _one_column, _sarcos_50, _sarcos_200, _school,
    )  # fmt: skip
    found = [check(results) for check in checks]
    return [f"- {'Met' if met else 'Missed'}: {goal}. {what}" for goal, what, met in filter(None, found)]


def _leader(results: Results, values: np.ndarray) -> tuple[str, float, float]:
    """The contender with the least mean over sources of those that ran on most sets, that mean, and Kin's."""
    present = np.isfinite(values).mean(axis=0)
    means = {model: results.mean_by_source(values[:, i]) for i, model in enumerate(results.models) if present[i] > 0.5}
    others = {model: mean for model, mean in means.items() if model != KIN}
    best = min(others, key=lambda model: others[model], default=KIN)
    return best, others.get(best, float("nan")), means.get(KIN, float("nan"))


def _best_rank(results: Results) -> tuple[str, str, bool]:
    best, theirs, ours = _leader(results, ranks(results.losses()))
    goal = "Kin has the best mean rank of the contenders that ran on most sets"
    return goal, f"Kin {ours:.1f}, next {best} {theirs:.1f}.", ours <= theirs


def _least_regret(results: Results) -> tuple[str, str, bool]:
    best, theirs, ours = _leader(results, regrets(results.losses()))
    goal = "Kin has the least mean regret of the contenders that ran on most sets"
    return goal, f"Kin {ours:.1%}, next {best} {theirs:.1%}.", ours <= theirs


def _not_behind_average(results: Results) -> tuple[str, str, bool] | None:
    if "AVG" not in results.models:
        return None
    behind = []
    for name in results.sets:
        difference = differences(results, name, "AVG")
        if len(difference) > 1 and -difference.mean() > difference.std(ddof=1) / np.sqrt(len(difference)):
            behind.append(name)
    goal = "Kin is nowhere behind the tuned average kernel by more than a standard error"
    return goal, f"Behind on {'; '.join(behind)}." if behind else "Nowhere behind.", not behind


def _ahead_of_trees(results: Results) -> tuple[str, str, bool] | None:
    trees = [model for model in results.models if model.startswith(TREES)]
    small = [name for name, each in results.sets.items() if each.rows_per_task < 100]
    if not trees or not small:
        return None
    losses = {name: (results.mean_loss(name, KIN), [results.mean_loss(name, m) for m in trees]) for name in small}
    known = {
        name: (ours, np.nanmin(theirs))
        for name, (ours, theirs) in losses.items()
        if np.isfinite(ours) and np.isfinite(theirs).any()
    }
    ahead = sum(ours < theirs for ours, theirs in known.values())
    goal = "Kin is ahead of the best tree ensemble on three quarters of the sets with fewer than 100 rows per task"
    return goal, f"On {ahead} of {len(known)}.", bool(known) and ahead >= 0.75 * len(known)


def _one_column(results: Results) -> tuple[str, str, bool] | None:
    names = [name for name in results.sets if name.startswith(ONE_COLUMN)]
    shares = [results.mean_loss(name, KIN) / np.nanmin([results.mean_loss(name, m) for m in results.models]) - 1
              for name in names]  # fmt: skip
    if not shares:
        return None
    measured = ", ".join(f"{share:.1%} ({name})" for share, name in zip(shares, names, strict=True))
    goal = "Kin's loss is within 3% of the best contender's where one column of twenty is relevant"
    return goal, f"Above by {measured}.", max(shares) <= 0.03


def _sarcos_50(results: Results) -> tuple[str, str, bool] | None:
    return _normalised_error(results, "sarcos, 50 rows", 0.165)


def _sarcos_200(results: Results) -> tuple[str, str, bool] | None:
    return _normalised_error(results, "sarcos, 200 rows", 0.067)


def _normalised_error(results: Results, name: str, most: float) -> tuple[str, str, bool] | None:
    if name not in results.sets:
        return None
    error = 1 - results.mean(name, KIN, "r2")
    return f"Kin's mean of 1 - R² on {name} is at most {most}", f"{error:.4f}.", error <= most


def _school(results: Results) -> tuple[str, str, bool] | None:
    if "school" not in results.sets:
        return None
    r2 = results.mean("school", KIN, "r2")
    return "Kin's mean R² on school is at least 0.235", f"{r2:.4f}.", r2 >= 0.235
