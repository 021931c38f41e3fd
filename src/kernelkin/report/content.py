"""The content of a report as plain lists and numbers, for the HTML page."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..facts import changed_parameters, relative_gap
from ..plots._axes import weight_order
from ..plots.kernel_weights import MANY_KERNELS, kernel_groups
from ..registry import all_models
from ..relations.analysis import TaskRelations
from ..relations.scores import LEVEL
from ..relations.sharing import SharingReport
from ..storage.model_files import SavedModel
from .effects import drivers_content
from .evaluation import number, numbers, table

# With more groups, a heatmap of all pairs is too large to read.
MOST_GROUPS = 60
# Maximum number of tasks whose kernel weights are shown.
MOST_TASKS = 1000


def model_content(
    saved: SavedModel, evaluation: dict[str, Any] | None, *, name: str, title: str | None, file: str
) -> dict[str, Any]:
    """Return everything that the page shows about one model; None for parts that do not apply."""
    model = saved.model
    tasks = [str(task) for task in model.tasks_.tolist()]
    return {
        "name": name,
        "title": title or _title(saved),
        "model": _model(saved),
        "data": _data(saved),
        "tasks": tasks,
        "rows": _task_rows(saved),
        "evaluation": evaluation and _in_order(evaluation, tasks),
        "comparison": _comparison(saved),
        "drivers": drivers_content(saved),
        "kernels": _kernels(model),
        "relation": _relation(saved),
        "parts": _parts(model),
        "variance": [[name, number(share)] for name, share in getattr(model, "variance_components_", {}).items()],
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
        "task": "every target" if schema.task is None else schema.task,
        "target": schema.target,
        "columns": [[column.name, column.describe()] for column in schema.columns],
        "left_out": [[name, reason] for name, reason in schema.left_out.items()],
    }


def _task_rows(saved: SavedModel) -> list[int | None] | None:
    if "task_rows" not in saved.about:
        return None
    counts = {str(task): count for task, count in saved.about["task_rows"]}
    return [counts.get(str(task)) for task in saved.model.tasks_.tolist()]


def _in_order(evaluation: dict[str, Any], tasks: list[str]) -> dict[str, Any]:
    """Return the evaluation with tasks in the order of the model; tasks that were not tested have no score."""
    if evaluation["tasks"] == tasks:
        return evaluation
    place = {task: t for t, task in enumerate(evaluation["tasks"])}
    where = [place.get(task) for task in tasks]
    found = dict(evaluation, tasks=tasks)
    for name, values in evaluation.items():
        if name.startswith("task_") or name == "test_rows":
            found[name] = [None if t is None else values[t] for t in where]
    back = {t: i for i, t in enumerate(where) if t is not None}
    kept = [i for i, t in enumerate(evaluation["sample"]["task"]) if t in back]
    found["sample"] = {name: [values[i] for i in kept] for name, values in evaluation["sample"].items()}
    found["sample"]["task"] = [back[t] for t in found["sample"]["task"]]
    return found


def _comparison(saved: SavedModel) -> dict[str, Any] | None:
    """Return the models compared by `sharing_report`, with scores (larger is better) and the gains of the model."""
    if "comparisons" not in saved.about.get("sharing", {}):
        return None
    report = SharingReport.from_dict(saved.about["sharing"])
    found = report.comparisons["new rows of known groups"]
    regression = "R²" in found.scores[report.name]
    models = []
    for name, scores in found.scores.items():
        gain = found.gains.get(name)
        models.append(
            {
                "title": name,
                "ours": name == report.name,
                "mean": number(scores["R²"] if regression else -scores["log loss"]),
                "about": ", ".join(f"{score} {value:.4g}" for score, value in scores.items()),
                "gain": gain and [number(gain.mean), number(gain.low), number(gain.high)],
                "sign": gain and gain.sign,
                "task_gain": gain and numbers(gain.tasks),
            }
        )
    return {
        "score": "R²" if regression else "mean log probability",
        "level": LEVEL,
        "n_tasks": int((found.test_rows > 0).sum()),
        "n_rows": int(found.test_rows.sum()),
        "tasks": [str(task) for task in report.tasks.tolist()],
        "models": models,
        "how": found.how,
        "verdict": report.verdict.removeprefix("Recommendation: "),
    }


def _kernels(model: Any) -> dict[str, Any] | None:
    """Return the shares of the kernels in each task, or of groups of kernels if there are many."""
    if not hasattr(model, "kernel_weights_") or len(model.tasks_) > MOST_TASKS:
        return None
    weights, names = np.asarray(model.kernel_weights_, dtype=np.float64), np.asarray(model.kernel_names_)
    count, grouped = len(names), len(names) > MANY_KERNELS
    if grouped:
        groups = kernel_groups(names)
        kept = list(dict.fromkeys(groups.tolist()))
        weights = np.stack([weights[:, groups == name].sum(axis=1) for name in kept], axis=1)
        names = np.array(kept)
    totals = weights.sum(axis=1, keepdims=True)
    shares = np.divide(weights, totals, out=np.zeros_like(weights), where=totals > 0)
    return {
        "names": [str(name) for name in names.tolist()],
        "count": count,
        "grouped": grouped,
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
    found = TaskRelations.from_dict(saved.about["relations"])
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


def _parts(model: Any) -> dict[str, Any] | None:
    """Return the share of the common parts and of the own part in each task."""
    couplings, shares = getattr(model, "couplings_", ()), getattr(model, "part_shares_", None)
    if not couplings or shares is None:
        return None
    names = [*(str(coupling.name) for coupling in couplings), "own"]
    return {"names": names, "shares": table(np.roll(shares, -1, axis=1))}


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
