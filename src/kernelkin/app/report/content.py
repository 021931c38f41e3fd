"""The content of a report as plain lists and numbers; the page draws it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...io import SavedModel
from ...plots._order import leaf_order, weight_linkage
from ...plots.kernel_weights import MANY_KERNELS, kernel_groups
from ...registry import all_models
from ...relations import SharingReport, TaskRelations
from ...tables.describe import describe_column
from ..commands.baseline_scores import title as score_title
from ..commands.inspect import changed_parameters, relative_gap

# With more tasks, a heatmap of all pairs is neither readable nor small.
MOST_PAIRS = 400


def report_content(saved: SavedModel, *, title: str | None = None, file: str = "model.skops") -> dict[str, Any]:
    """Everything that the page shows; None for parts that do not apply to the model."""
    model = saved.model
    return {
        "title": title or _title(saved),
        "model": _model(saved),
        "data": _data(saved),
        "tasks": [str(task) for task in model.tasks_.tolist()],
        "rows": _task_rows(saved),
        "scores": _scores(saved),
        "uncertainty": _uncertainty(saved),
        "kernels": _kernels(model),
        "relation": _relation(saved),
        "parts": _parts(model),
        "certificate": _certificate(model),
        "load": {"file": file, "table": saved.schema is not None},
    }


def _title(saved: SavedModel) -> str:
    if saved.schema is None:
        return f"{type(saved.model).__name__}: {len(saved.model.tasks_)} tasks"
    return saved.schema.title


def _model(saved: SavedModel) -> dict[str, Any]:
    found = [m for m in all_models() if any(isinstance(saved.model, estimator) for estimator in m.estimators)]
    return {
        "class": type(saved.model).__name__,
        "name": found[0].name if found else type(saved.model).__name__,
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
    columns = [
        {
            "name": c.name,
            "kind": c.kind,
            "mean": _number(c.mean),
            "scale": _number(c.scale),
            "values": list(c.categories),
            "unit": c.unit,
            "words": describe_column(c),
        }
        for c in schema.columns
    ]
    return {
        "source": saved.about.get("data"),
        "rows": schema.n_rows,
        "task": "every target" if schema.task is None else schema.task,
        "target": schema.target,
        "regression": schema.regression,
        "classes": [] if schema.regression else [str(c) for c in saved.model.classes_.tolist()],
        "columns": columns,
        "left_out": schema.left_out,
    }


def _task_rows(saved: SavedModel) -> list[int | None] | None:
    if "task_rows" not in saved.about:
        return None
    counts = {str(task): count for task, count in saved.about["task_rows"]}
    return [counts.get(str(task)) for task in saved.model.tasks_.tolist()]


def _scores(saved: SavedModel) -> dict[str, Any] | None:
    """Test scores in the order of the model's tasks."""
    evaluation = saved.about.get("evaluation")
    if evaluation is None:
        return None
    place = {str(task): i for i, task in enumerate(evaluation["tasks"])}
    where = [place.get(str(task)) for task in saved.model.tasks_.tolist()]
    columns = [
        {"name": score_title(name), "values": [None if i is None else _number(values[i]) for i in where]}
        for name, values in evaluation["scores"].items()
    ]
    return {
        "score": evaluation["score"],
        "columns": columns,
        "test_rows": evaluation["test_rows"],
        "train_rows": evaluation["train_rows"],
        "tuned": evaluation["tuned"],
        "verdict": SharingReport.from_dict(saved.about["sharing"]).verdict if "sharing" in saved.about else "",
    }


def _uncertainty(saved: SavedModel) -> dict[str, Any] | None:
    """How often intervals contain the target, or classes happen, on test rows; tasks in the order of the model's."""
    evaluation = saved.about.get("evaluation") or {}
    found = evaluation.get("uncertainty")
    if found is None or "bins" in found:
        return found
    place = {str(task): i for i, task in enumerate(evaluation["tasks"])}
    where = [place.get(str(task)) for task in saved.model.tasks_.tolist()]
    by_task = {name: [None if i is None else found[name][i] for i in where] for name in ("covered", "rows")}
    points = [[_number(value) for value in point] for point in found["points"]]
    return {"coverage": found["coverage"], **by_task, "points": points}


def _kernels(model: Any) -> dict[str, Any] | None:
    """The shares of the kernels in each task, or of groups of kernels if there are many."""
    if not hasattr(model, "kernel_weights_"):
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
        "shares": _table(shares),
        "order": leaf_order(weight_linkage(shares)).tolist(),
    }


def _relation(saved: SavedModel) -> dict[str, Any] | None:
    """What the test of the tasks' relations found when the model was fitted; without a test nothing is claimed."""
    T = len(saved.model.tasks_)
    if T < 2:
        return None
    if "relations" not in saved.about:
        return {"tested": False}
    found = TaskRelations.from_dict(saved.about["relations"])
    return {
        "tested": True,
        "structured": bool(found.structured),
        "text": str(found),
        "groups": found.groups.tolist() if found.n_groups > 1 else None,
        "matrix": _table(found.likeness) if T <= MOST_PAIRS else None,
        "order": leaf_order(found.linkage).tolist() if T <= MOST_PAIRS else None,
    }


def _parts(model: Any) -> dict[str, Any] | None:
    """The share of the common parts and of the own part in each task."""
    couplings, shares = getattr(model, "couplings_", ()), getattr(model, "part_shares_", None)
    if not couplings or shares is None:
        return None
    return {
        "names": [*(str(coupling.name) for coupling in couplings), "own"],
        "shares": _table(np.roll(shares, -1, axis=1)),
    }


def _certificate(model: Any) -> dict[str, Any] | None:
    relative = relative_gap(model)
    if relative is None:
        return None
    history, parameters = getattr(model, "history_", {}), set(model.get_params())
    return {
        "objective": _number(model.objective_),
        "gap": _number(max(model.duality_gap_, 0.0)),
        "relative": _number(relative),
        # Whether the gap is for a problem in which kernel weights, with a penalty of their own, are variables.
        "weights": "mu" in parameters and not parameters.isdisjoint(["p", "evenness"]),
        "tol": _number(getattr(model, "tol", np.nan)),
        "history": [_number(value) for value in history.get("relative_gap", [])],
    }


def _table(values: np.ndarray) -> list[list[float]]:
    return [[float(value) for value in row] for row in np.round(values, 3) + 0.0]


def _number(value: Any) -> float | None:
    """A number to six digits; None if it is not finite."""
    return None if value is None or not np.isfinite(value) else float(f"{value:.6g}")
