"""`kernelkin inspect`: describe a saved model."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

import numpy as np

from ..data import listing
from ..paper.models.facts import changed_parameters, relative_gap
from ..relations import SharingReport, TaskRelations
from .holdout import shorten
from .terminal import Terminal

HELP = "describe a saved model: its kind, data, scores, kernels and certificate"
EXAMPLES = "  kernelkin inspect sales.kin\n  kernelkin inspect sales.kin --all"


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a file saved by `kernelkin fit`")
    parser.add_argument("--all", action="store_true", help="show every task, even if there are many")


def run(arguments: Namespace, terminal: Terminal) -> None:
    from ..storage import load_model

    saved = load_model(arguments.model)
    model, about = saved.model, saved.about
    terminal.say(f"{type(model).__name__}, saved by kernelkin {saved.version}")
    for title, text in facts(saved):
        terminal.say(f"  {title:<12} {text}")
    rows = _rows(model, about)
    if rows:
        terminal.say()
        shown = rows if arguments.all else list(shorten(rows))
        terminal.table(["task", *_columns(model, about)], shown)


def facts(saved: Any) -> list[tuple[str, str]]:
    """Titles and texts."""
    model, schema, about = saved.model, saved.schema, saved.about
    found = []
    if schema is not None:
        found.append(("target", f"{schema.target!r}, {'a number' if schema.regression else 'a class'}"))
        tasks = f"{len(model.tasks_)} tasks: {listing(model.tasks_, 5)}"
        found.append(("task", f"{schema.task!r}, {tasks}" if schema.task is not None else f"every target; {tasks}"))
        found.append(("features", f"{len(schema.features)} from {len(schema.columns)} columns: " + _names(schema)))
        found.append(("fitted to", f"{schema.n_rows} rows"))
    else:
        found.append(("tasks", listing(model.tasks_, 5)))
    found.append(("parameters", ", ".join(f"{k}={v}" for k, v in changed_parameters(model).items()) or "the defaults"))
    if hasattr(model, "kernel_names_"):
        found.append(("kernels", f"{len(model.kernel_names_)}: {listing(model.kernel_names_, 6)}"))
    if hasattr(model, "variance_components_"):
        found.append(("variance", shares_of_variance(model)))
        found.append(("average of", ", ".join(f"{m['name']} {m['weight']:.0%}" for m in model.members_)))
    gap = relative_gap(model)
    if gap is not None:
        found.append(("certificate", f"objective {model.objective_:.6g}, within {gap:.1e} of the optimum"))
    if "evaluation" in about:
        rows, overall = about["evaluation"]["test_rows"], about["evaluation"]["overall"]
        kind = list(next(iter(overall.values())))[-1]
        scores = ", ".join(f"{name} {_number(scores[kind])}" for name, scores in overall.items())
        found.append(("test", f"{kind} on {rows} held-out rows: {scores}"))
    if "sharing" in about:
        found.append(("sharing", SharingReport.from_dict(about["sharing"]).verdict))
    if "relations" in about:
        found.append(("relations", TaskRelations.from_dict(about["relations"]).headline()))
    if "command" in about:
        found.append(("made by", about["command"]))
    return found


def shares_of_variance(model: Any) -> str:
    """Return the share of each term in the variance of the targets.

    >>> from types import SimpleNamespace
    >>> shares_of_variance(SimpleNamespace(variance_components_={"level": 0.604, "noise": 0.396}))
    'level 60%, noise 40%'
    """
    return ", ".join(f"{name} {share:.0%}" for name, share in model.variance_components_.items())


def _names(schema: Any) -> str:
    return listing([column.name for column in schema.columns], 6)


def _columns(model: Any, about: dict[str, Any]) -> list[str]:
    columns = ["rows"] if "task_rows" in about else []
    columns += list(about["evaluation"]["scores"]) if "evaluation" in about else []
    columns += ["largest kernel"] if hasattr(model, "kernel_weights_") else []
    return columns + (["shared"] if _has_shares(model) else [])


def _rows(model: Any, about: dict[str, Any]) -> list[list[str]]:
    if not _columns(model, about):
        return []
    counts = dict(map(tuple, about.get("task_rows", [])))
    scores = about.get("evaluation", {}).get("scores", {})
    places = {task: i for i, task in enumerate(about.get("evaluation", {}).get("tasks", []))}
    rows = []
    for t, task in enumerate(model.tasks_.tolist()):
        row = [str(task)] + ([str(counts.get(task, ""))] if counts else [])
        row += [_number(values[places[task]]) if task in places else "-" for values in scores.values()]
        if hasattr(model, "kernel_weights_"):
            weights = model.kernel_weights_[t]
            share = weights.max() / (weights.sum() or 1.0)
            row.append(f"{model.kernel_names_[weights.argmax()]} {share:.0%}")
        rows.append(row + ([f"{1 - model.part_shares_[t, 0]:.0%}"] if _has_shares(model) else []))
    return rows


def _has_shares(model: Any) -> bool:
    return bool(getattr(model, "couplings_", ())) and hasattr(model, "part_shares_")


def _number(value: float | None) -> str:
    return "-" if value is None or not np.isfinite(value) else f"{value:.3f}"
