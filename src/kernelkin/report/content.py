"""The content of a report, as lists, numbers and texts for the HTML page."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..estimators import changed_parameters, relative_gap
from ..plots.heatmaps import KernelWeightsDisplay, grouped_weights
from ..registry import all_models
from ..relations.analysis import TaskRelations
from ..relations.scores import LEVEL, LOG_LOSS, R2
from ..relations.sharing import SharingReport
from ..storage.model_files import SavedModel
from .effects import drivers_content, groups_content
from .evaluation import number, numbers

# With more groups, a heatmap of all pairs is too large to read.
MOST_GROUPS = 60


def model_content(
    saved: SavedModel, evaluations: list[dict[str, Any]], *, name: str, title: str | None, file: str
) -> dict[str, Any]:
    """Return everything that the page shows about one model; parts that do not apply are None.

    Parameters
    ----------
    evaluations : one evaluation on held-out rows for each question; the first is also shown task by task
    """
    model, schema = saved.model, saved.schema
    tasks, counts = model.tasks_.tolist(), dict(map(tuple, saved.about.get("task_rows", ())))
    plain = f"{type(model).__name__}: {len(tasks)} tasks" if schema is None else schema.title
    return {
        "name": name,
        "title": title or plain,
        "model": _model(saved),
        "data": _data(saved),
        "tasks": list(map(str, tasks)),
        "rows": [counts.get(task) for task in tasks] if counts else None,
        "evaluations": evaluations,
        "evaluation": evaluations[0] if evaluations else None,
        "comparisons": _comparisons(saved),
        "drivers": drivers_content(saved),
        "groups": groups_content(saved),
        "kernels": _kernels(model),
        "relation": _relation(saved),
        "variance": _variance(saved),
        "fit": _fit(model),
        "load": {"file": file, "table": schema is not None},
    }


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
                "score": R2 if regression else LOG_LOSS,
                "level": LEVEL,
                "n_tasks": int((found.test_rows > 0).sum()),
                "n_rows": int(found.test_rows.sum()),
                "models": models,
                "how": found.how,
                "covered": found.covered,
                "verdict": verdict,
                "left_out": list(report.left_out),
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
    """Return the mean over tasks of the shares of the kernels, or of groups of kernels if there are many."""
    if not hasattr(model, "kernel_weights_"):
        return None
    weights, names = grouped_weights(model)
    shares = KernelWeightsDisplay(weights, model.tasks_, names).shares.mean(axis=0)
    return {"names": names, "count": len(model.kernel_names_), "shares": numbers(shares)}


def _relation(saved: SavedModel) -> dict[str, Any] | None:
    """Return the result of the test of task relations, or None if there was no test."""
    if "relations" not in saved.about:
        return None
    found: TaskRelations = saved.about["relations"]
    several = bool(found.structured) and found.n_groups > 1
    place = dict(zip(found.tasks.tolist(), found.groups.tolist(), strict=True))
    first = [int(np.flatnonzero(found.groups == g)[0]) for g in range(found.n_groups)]
    likeness = found.likeness[np.ix_(first, first)]
    return {
        "headline": found.headline(),
        "text": str(found),
        "groups": [place.get(task) for task in saved.model.tasks_.tolist()] if several else None,
        "matrix": np.round(likeness, 3).tolist() if several and found.n_groups <= MOST_GROUPS else None,
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
