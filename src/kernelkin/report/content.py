"""The content of a report, as lists, numbers and texts for the HTML page."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..estimators import changed_parameters, relative_gap
from ..plots.heatmaps import KernelWeightsDisplay, grouped_weights, weight_order
from ..registry import all_models
from ..relations.analysis import TaskRelations
from ..relations.scores import LEVEL, R2
from ..relations.sharing import SharingReport
from ..storage.model_files import SavedModel
from .effects import drivers_content, groups_content
from .evaluation import number, numbers, table

# With more groups, a heatmap of all pairs is too large to read.
MOST_GROUPS = 60
# Maximum number of tasks whose kernel weights are shown.
MOST_TASKS = 1000


def model_content(
    saved: SavedModel, evaluations: list[dict[str, Any]], *, name: str, title: str | None, file: str
) -> dict[str, Any]:
    """Return everything that the page shows about one model; parts that do not apply are None.

    Parameters
    ----------
    evaluations : one evaluation on held-out rows for each question; the first is also shown task by task
    """
    model = saved.model
    tasks = [str(task) for task in model.tasks_.tolist()]
    return {
        "name": name,
        "title": title or _title(saved),
        "model": _model(saved),
        "data": _data(saved),
        "tasks": tasks,
        "rows": _task_rows(saved),
        "evaluations": evaluations,
        "evaluation": evaluations[0] if evaluations else None,
        "comparisons": _comparisons(saved),
        "drivers": drivers_content(saved),
        "groups": groups_content(saved),
        "kernels": _kernels(model),
        "relation": _relation(saved),
        "variance": _variance(saved),
        "fit": _fit(model),
        "load": {"file": file, "table": saved.schema is not None},
    }


def _title(saved: SavedModel) -> str:
    if saved.schema is None:
        return f"{type(saved.model).__name__}: {len(saved.model.tasks_)} tasks"
    return saved.schema.title


def _model(saved: SavedModel) -> dict[str, Any]:
    inner = getattr(saved.model, "best_estimator_", saved.model)
    found = [m for m in all_models() if any(isinstance(inner, estimator) for estimator in m.estimators)]
    return {
        "class": type(saved.model).__name__,
        "name": found[0].name if found else type(inner).__name__,
        "description": found[0].description if found else "",
        "reference": found[0].reference if found else "",
        "parameters": changed_parameters(saved.model),
        "version": saved.version,
        "command": saved.about.get("command"),
    }


def _data(saved: SavedModel) -> dict[str, Any] | None:
    schema = saved.schema
    if schema is None:
        return None
    return {
        "source": saved.about.get("data"),
        "rows": schema.n_rows,
        "task": "every target" if schema.task is None else ", ".join(schema.task_names),
        "target": schema.target,
        "columns": [[column.name, column.describe()] for column in schema.columns],
        "left_out": [[name, reason] for name, reason in schema.left_out.items()],
    }


def _task_rows(saved: SavedModel) -> list[int | None] | None:
    if "task_rows" not in saved.about:
        return None
    counts = {str(task): count for task, count in saved.about["task_rows"]}
    return [counts.get(str(task)) for task in saved.model.tasks_.tolist()]


def _comparisons(saved: SavedModel) -> list[dict[str, Any]]:
    """Return the comparisons of `sharing_report` by question: scores (larger is better) and the gains of the model."""
    if "sharing" not in saved.about:
        return []
    report: SharingReport = saved.about["sharing"]
    compared = []
    for (question, found), verdict in zip(report.comparisons.items(), report.verdicts, strict=True):
        regression = R2 in found.scores[report.name]
        models = []
        for name, scores in found.scores.items():
            gain = found.gains.get(name)
            models.append(
                {
                    "title": name,
                    "ours": name == report.name,
                    "mean": number(found.goodness(name)),
                    "scores": [[score, number(value)] for score, value in scores.items()],
                    "gain": gain and [number(gain.mean), number(gain.low), number(gain.high)],
                    "sign": gain and gain.sign,
                }
            )
        compared.append(
            {
                "question": question,
                "score": R2 if regression else "mean log probability",
                "level": LEVEL,
                "n_tasks": int((found.test_rows > 0).sum()),
                "n_rows": int(found.test_rows.sum()),
                "models": models,
                "how": found.how,
                "covered": found.covered,
                "verdict": verdict,
            }
        )
    return compared


def _variance(saved: SavedModel) -> list[list[Any]]:
    """Return the shares of variance in plain words, in the order of levels, common parts, own parts and noise."""
    shares = getattr(saved.model, "variance_components_", {})
    names = ["task"] if saved.schema is None else saved.schema.task_names or ["task"]
    found: dict[str, float] = {}
    for name, share in shares.items():
        if name.startswith("level"):
            # "level" is of the first grouping, "level 2" of the second.
            which = int(name[5:] or 1) - 1
            words = f"levels of {names[which] if which < len(names) else f'grouping {which + 1}'}"
        elif name == "noise":
            words = name
        elif name == "slopes" or name.startswith(("own ", "task features")):
            words = "columns, each group its own way"
        else:
            words = "columns, alike in all groups"
        found[words] = found.get(words, 0.0) + share
    order = sorted(found, key=lambda words: (words == "noise", not words.startswith("levels"), "own way" in words))
    return [[words, number(found[words])] for words in order if found[words] >= 0.0005]


def _kernels(model: Any) -> dict[str, Any] | None:
    """Return the shares of the kernels in each task, or of groups of kernels if there are many."""
    if not hasattr(model, "kernel_weights_") or len(model.tasks_) > MOST_TASKS:
        return None
    weights, names = grouped_weights(model)
    shares, count = KernelWeightsDisplay(weights, model.tasks_, names).shares, len(model.kernel_names_)
    if np.ptp(shares, axis=0).max() < 0.005:
        # If all tasks have the same weights, one row is enough.
        shares = shares[:1]
    return {
        "names": names,
        "count": count,
        "grouped": len(names) < count,
        "shares": table(shares),
        "order": weight_order(shares).tolist(),
    }


def _relation(saved: SavedModel) -> dict[str, Any] | None:
    """Return the result of the test of task relations from the fit, or None if there was no test."""
    T = len(saved.model.tasks_)
    if T < 2:
        return None
    if "relations" not in saved.about:
        return {"tested": False}
    found: TaskRelations = saved.about["relations"]
    several = bool(found.structured) and found.n_groups > 1
    place = dict(zip(found.tasks.tolist(), found.groups.tolist(), strict=True))
    first = [int(np.flatnonzero(found.groups == g)[0]) for g in range(found.n_groups)]
    return {
        "tested": True,
        "structured": bool(found.structured),
        "headline": found.headline(),
        "text": str(found),
        "groups": [place.get(task) for task in saved.model.tasks_.tolist()] if several else None,
        "matrix": table(found.likeness[np.ix_(first, first)]) if several and found.n_groups <= MOST_GROUPS else None,
    }


def _fit(model: Any) -> dict[str, Any] | None:
    """Return details of the fit: certificates for models of the paper, members and explanation for Kin."""
    relative = relative_gap(model)
    if hasattr(model, "members_"):
        members = [[member["name"], number(member["error"]), number(member["weight"])] for member in model.members_]
        return {"objective": None, "members": members, "history": [], "explanation": model.explain()}
    if relative is None:
        return None
    parameters = set(getattr(model, "best_estimator_", model).get_params())
    return {
        "objective": number(model.objective_),
        "gap": number(max(model.duality_gap_, 0.0)),
        "relative": number(relative),
        # Whether the gap is for a problem that also optimises the kernel weights.
        "weights": "mu" in parameters and not parameters.isdisjoint(["p", "evenness"]),
        "tol": number(getattr(model, "tol", np.nan)),
        "history": numbers(getattr(model, "history_", {}).get("relative_gap", [])),
        "members": [],
        "explanation": None,
    }
