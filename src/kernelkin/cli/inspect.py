"""`kernelkin inspect`, `effects`, `report` and `models`: describe a saved model, or list all models."""

from __future__ import annotations

from argparse import Namespace
from contextlib import nullcontext
from typing import Any

from ..data.arrays import listing
from ..estimators import changed_parameters, relative_gap
from ..files import check_writable, write_whole
from ..kin.effects import task_effects
from ..registry import all_models
from ..relations.scores import as_text
from ..relations.sharing import SharingReport
from ..storage.model_files import SavedModel, load_model
from .problem import in_file, text_format
from .score import read_labelled
from .terminal import Terminal, shorten


def run(arguments: Namespace, terminal: Terminal) -> None:
    saved = load_model(arguments.model)
    model, about = saved.model, saved.about
    terminal.say(f"{type(model).__name__}, saved by kernelkin {saved.version}")
    for title, text in facts(saved):
        terminal.say(f"  {title:<12} {text}")
    columns = _columns(model, about)
    if columns:
        rows = [list(row) for row in zip(map(str, model.tasks_.tolist()), *columns.values(), strict=True)]
        terminal.say()
        terminal.table(["group", *columns], rows if arguments.all else list(shorten(rows)))


def facts(saved: SavedModel) -> list[tuple[str, str]]:
    """Return titles and texts that describe a saved model."""
    model, schema, about = saved.model, saved.schema, saved.about
    found = []
    if schema is not None:
        found.append(("target", f"{schema.target!r}, {'a number' if schema.regression else 'a class'}"))
        groups = f"{len(model.tasks_)} groups: {listing(model.tasks_, 5)}"
        found.append(("task", f"{schema.task!r}, {groups}" if schema.task is not None else f"every target; {groups}"))
        if schema.groupings:
            found.append(("also by", listing(list(schema.groupings), 6)))
        names = listing([column.name for column in schema.columns], 6)
        found.append(("features", f"{len(schema.features)} from {len(schema.columns)} columns: {names}"))
        found.append(("fitted to", f"{schema.n_rows} rows"))
    else:
        found.append(("groups", listing(model.tasks_, 5)))
    found.append(("parameters", ", ".join(f"{k}={v}" for k, v in changed_parameters(model).items()) or "the defaults"))
    if hasattr(model, "kernel_names_"):
        found.append(("kernels", f"{len(model.kernel_names_)}: {listing(model.kernel_names_, 6)}"))
    if hasattr(model, "variance_components_"):
        shares = model.variance_components_.items()
        found.append(("variance", ", ".join(f"{name} {share:.0%}" for name, share in shares)))
        found.append(("average of", ", ".join(f"{m['name']} {m['weight']:.0%}" for m in model.members_)))
    gap = relative_gap(model)
    if gap is not None:
        found.append(("certificate", f"objective {model.objective_:.6g}, within {gap:.1e} of the optimum"))
    if "sharing" in about:
        report: SharingReport = about["sharing"]
        for question, part in report.comparisons.items():
            first = next(iter(part.scores[report.name]))
            scores = "; ".join(f"{name} {as_text(scores[first])}" for name, scores in part.scores.items())
            found.append(("test", f"{first} on {question}: {scores}"))
        found += [("verdict", text) for text in report.verdicts]
    if "relations" in about:
        found.append(("relations", about["relations"].headline()))
    if "command" in about:
        found.append(("made by", about["command"]))
    return found


def _columns(model: Any, about: dict[str, Any]) -> dict[str, list[str]]:
    """Return the columns of the table of groups by title, without columns that are the same for all groups."""
    tasks, found = model.tasks_.tolist(), {}
    if "task_rows" in about:
        counts = dict(map(tuple, about["task_rows"]))
        found["rows"] = [str(counts.get(task, "")) for task in tasks]
    for evaluation in about.get("evaluations", [])[:1]:
        own = dict(zip(evaluation["tasks"], evaluation["task_score"], strict=True))
        found[evaluation["score"]] = [as_text(own.get(str(task))) for task in tasks]
    if hasattr(model, "kernel_weights_"):
        found["largest kernel"] = [
            f"{model.kernel_names_[weights.argmax()]} {weights.max() / (weights.sum() or 1.0):.0%}"
            for weights in model.kernel_weights_
        ]
    if getattr(model, "couplings_", ()) and hasattr(model, "part_shares_"):
        found["shared"] = [f"{1 - own:.0%}" for own in model.part_shares_[:, 0]]
    return {title: cells for title, cells in found.items() if title == "rows" or len(set(cells)) > 1}


def run_effects(arguments: Namespace, terminal: Terminal) -> None:
    """Print the levels and slopes of groups, from the largest level to the smallest."""
    if arguments.out is not None:
        check_writable(arguments.out)
    saved = load_model(arguments.model)
    model, schema = saved.model, saved.schema
    if not hasattr(model, "task_effects"):
        raise ValueError(f"{type(model).__name__} has no effects of groups: fit Kin, the default model")
    names = [] if schema is None else schema.task_names
    if arguments.task is not None and arguments.task not in names:
        raise ValueError(f"--task {arguments.task}: this model has the groupings {listing(names)}")
    number = 0 if arguments.task is None else names.index(arguments.task)
    # Slopes are per unit of a number and per day of a date; targets were standardised before the fit.
    table = task_effects(model, number, None if schema is None else schema.encoder)
    table.index.name = names[number] if names else table.index.name
    if schema is not None and schema.regression:
        table[table.columns.drop("rows")] *= schema.target_scales[0]
    table = table.sort_values("level", ascending=False)
    if arguments.out is not None:
        write_whole(arguments.out, table.to_csv())
    unit = schema.target if schema is not None and schema.regression else "log odds"
    unit = f"log({unit})" if getattr(model, "loss", "") == "poisson" else unit
    terminal.say(
        f"Levels of {len(table)} groups relative to the average group, in units of {unit}, with 90% intervals."
    )
    titles = {"level": "level", "low": "from", "high": "to", "raw_level": "without pooling"}
    cells = {title: list(map(as_text, table[name])) for name, title in titles.items()}
    for name in table.columns[table.columns.str.startswith("slope of ")]:
        errors = table[name.replace("slope", "standard_error", 1)]
        cells[name] = [f"{as_text(value)} ± {as_text(error)}" for value, error in zip(table[name], errors, strict=True)]
    rows = list(map(list, zip(map(str, table.index), map(str, table["rows"]), *cells.values(), strict=True)))
    terminal.table(["group", "rows", *cells], rows if arguments.all else list(shorten(rows)))


def run_report(arguments: Namespace, terminal: Terminal) -> None:
    from ..report.report import report_of_files

    if len(arguments.models) > 2:
        raise ValueError(f"a report shows one model, or two side by side, not {len(arguments.models)}")
    check_writable(arguments.out)
    models = [load_model(path) for path in arguments.models]
    test = None
    if arguments.test is not None:
        for path, saved in zip(arguments.models, models, strict=True):
            if saved.schema is None:
                raise ValueError(f"--test: {path} was saved without the schema of a table")
        test = read_labelled(arguments.test, models[0], text_format(arguments))[0]
    with in_file(arguments.test) if arguments.test else nullcontext():
        report = report_of_files(models, names=arguments.models, test=test, title=arguments.title)
    report.save(arguments.out)
    terminal.say(f"Wrote {arguments.out}: open it in a browser.")


def run_models(arguments: Namespace, terminal: Terminal) -> None:
    width = max(len(model.name) for model in all_models())
    for model in all_models():
        kinds = [kind for kind, found in (("classes", model.classifier), ("numbers", model.regressor)) if found]
        more = "; needs the targets of all tasks for every row, so from Python only" if model.needs_wide else ""
        terminal.say(f"{model.name:<{width}}  {model.description}")
        terminal.say(f"{'':<{width}}    predicts {' and '.join(kinds)}{more}")
        terminal.say(f"{'':<{width}}    {model.reference}")
