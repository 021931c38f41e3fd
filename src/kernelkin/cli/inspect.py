"""`kernelkin inspect`, `score`, `effects`, `report` and `models`: describe saved models, or list all models."""

from __future__ import annotations

from argparse import Namespace
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.arrays import listing
from ..estimators import changed_parameters, relative_gap
from ..files import check_writable
from ..kin.losses import LOSSES
from ..registry import all_models
from ..relations.scores import COVERAGE, LEAST_ROWS, WITHIN, WITHIN_MEANS, HeldOutRows, as_text
from ..relations.sharing import NEW_ROWS, SharingReport
from ..report.content import effects_in_units
from ..report.evaluation import rows_of_table
from ..storage.model_files import SavedModel, load_model
from ..tables.encoder import check_names, unseen_warning
from ..tables.files import STDOUT, TextFormat, check_output, open_output, read_table
from .problem import in_file, load_with_schema, text_format, with_labels
from .terminal import Terminal, shorten

if TYPE_CHECKING:
    from pandas import DataFrame


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
        terminal.table(["group", *columns], rows if arguments.all else shorten(rows))


def facts(saved: SavedModel) -> list[tuple[str, str]]:
    """Return titles and texts that describe a saved model."""
    model, schema, about = saved.model, saved.schema, saved.about
    found = []
    if schema is not None:
        number = getattr(LOSSES.get(getattr(model, "loss", "")), "target", "number")
        found.append(("target", f"{schema.target!r}, a {number if schema.regression else 'class'}"))
        groups = f"{len(model.tasks_)} groups: {listing(model.tasks_, 5)}"
        found.append(("task", f"{schema.task!r}, {groups}" if schema.task is not None else f"every target; {groups}"))
        if len(schema.task_names) > 1:
            found.append(("also by", listing(schema.task_names[1:], 6)))
        names = listing([column.name for column in schema.columns], 6)
        found.append(("features", f"{len(schema.features)} from {len(schema.columns)} columns: {names}"))
        found.append(("fitted to", f"{schema.n_rows} rows"))
    else:
        found.append(("groups", listing(model.tasks_, 5)))
    found += model_facts(model)
    if hasattr(model, "variance_components_"):
        shares = model.variance_components_.items()
        found.append(("variance", ", ".join(f"{name} {share:.0%}" for name, share in shares)))
        found.append(("average of", ", ".join(f"{m['name']} {m['weight']:.0%}" for m in model.members_)))
    if "sharing" in about:
        report: SharingReport = about["sharing"]
        for question, part in report.comparisons.items():
            first = next(iter(part.scores[report.name]))
            scores = "; ".join(f"{name} {as_text(scores[first], name=first)}" for name, scores in part.scores.items())
            found.append(("test", f"{first} on {question}: {scores}"))
        found += [("verdict", text) for text in report.verdicts]
    if "relations" in about:
        found.append(("relations", about["relations"].headline()))
    if "command" in about:
        found.append(("made by", about["command"]))
    return found


def model_facts(model: Any) -> list[tuple[str, str]]:
    """Return titles and texts on the parameters of a model, its kernels, what groups share, and its certificate."""
    found = [("parameters", ", ".join(f"{k}={v}" for k, v in changed_parameters(model).items()) or "the defaults")]
    if hasattr(model, "kernel_weights_"):
        weights = model.kernel_weights_.mean(axis=0)
        top = [k for k in np.argsort(-weights, kind="stable")[:3] if weights[k] > 0]
        named = ", ".join(f"{model.kernel_names_[k]} {weights[k] / weights.sum():.0%}" for k in top)
        found.append(("kernels", f"{len(weights)}; those with the largest weights over all groups are {named}"))
    if getattr(model, "couplings_", ()) and hasattr(model, "part_shares_"):
        shared = 1 - model.part_shares_[:, 0]
        low, high = model.tasks_[shared.argmin()], model.tasks_[shared.argmax()]
        ends = f"from {shared.min():.0%} ({low}) to {shared.max():.0%} ({high})"
        found.append(("shared part", f"{shared.mean():.0%} of the functions of groups on average, {ends}"))
    gap = relative_gap(model)
    if gap is not None:
        found.append(("certificate", f"the objective, {model.objective_:.6g}, is within {gap:.1e} of the optimum"))
    return found


def _columns(model: Any, about: dict[str, Any]) -> dict[str, list[str]]:
    """Return the columns of the table of groups by title, without columns that are the same for all groups."""
    tasks, found = model.tasks_.tolist(), {}
    if "task_rows" in about:
        counts = dict(map(tuple, about["task_rows"]))
        found["rows"] = [str(counts.get(task, "")) for task in tasks]
    for evaluation in about.get("evaluations", [])[:1]:
        own = dict(zip(evaluation["tasks"], evaluation["task_score"], strict=True))
        found[evaluation["score"]] = [as_text(own.get(str(task)), name=evaluation["score"]) for task in tasks]
    return {title: cells for title, cells in found.items() if title == "rows" or len(set(cells)) > 1}


def run_score(arguments: Namespace, terminal: Terminal) -> None:
    saved = load_with_schema(arguments.model, arguments)
    frame, notes = read_labelled(arguments.data, saved, text_format(arguments))
    with in_file(arguments.data, frame):
        parts = rows_of_table(saved, frame, "")
    terminal.say(*notes, f"{saved.schema.title}: {len(frame)} rows.")
    scores = {question: _scores(question, rows) for question, rows in parts.items()}
    names = list(dict.fromkeys(name for part in scores.values() for name in part))
    body = [[question, *(as_text(part.get(name), name=name) for name in names)] for question, part in scores.items()]
    terminal.table(["", *names], body)
    if WITHIN in names:
        terminal.say(f"{WITHIN_MEANS}.")
    groups = [group for rows in parts.values() for group in _groups(rows)]
    name = next(iter(parts.values())).group_score
    scored = [group for group in groups if group[name] is not None]
    if len(scored) > 1:
        body = [[str(group["group"]), str(group["rows"]), as_text(group[name], name=name)] for group in scored]
        terminal.say("", f"Groups with at least {LEAST_ROWS} rows:")
        terminal.table(["group", "rows", name], body if arguments.all else shorten(body))
    terminal.emit({"model": arguments.model, "data": arguments.data, "scores": scores, "groups": groups})


def _scores(question: str, rows: HeldOutRows) -> dict[str, float]:
    """Return the number of rows and groups, the scores over all rows, and the coverage of intervals."""
    found: dict[str, float] = {"rows": len(rows.y), "groups": len(np.unique(rows.codes))}
    found |= rows.scores(within=question == NEW_ROWS)
    return found if rows.covered is None else {**found, f"in {COVERAGE:.0%} interval": rows.covered}


def _groups(rows: HeldOutRows) -> list[dict[str, Any]]:
    """Return the number of rows and the score of each group with rows."""
    counts, scores = np.bincount(rows.codes, minlength=len(rows.tasks)), rows.group_scores()
    return [
        {"group": group, "rows": count, rows.group_score: score if np.isfinite(score) else None}
        for group, count, score in zip(rows.tasks.tolist(), counts.tolist(), scores.tolist(), strict=True)
        if count
    ]


def read_labelled(path: str, saved: SavedModel, form: TextFormat) -> tuple[DataFrame, list[str]]:
    """Return the rows that have all groups and a target, and a note on the others."""
    schema: Any = saved.schema
    texts = [column.name for column in schema.columns if column.kind == "text"]
    form = form._replace(decimal=schema.encoder.decimal)
    frame = read_table(path, schema.task_names, schema.target_names, form, texts)
    with in_file(path):
        check_names(frame.columns, [*schema.target_names, *schema.task_names])
        # Raises for invalid cells before rows are left out, while row numbers are those of the file.
        schema.targets(frame), schema.encode(frame)
        frame, notes = with_labels(frame, schema.task_names, schema.target_names)
        return frame, notes + [f"{unseen_warning(*found)}." for found in schema.encoder.unseen(frame).items()]


def run_effects(arguments: Namespace, terminal: Terminal) -> None:
    """Print the levels and slopes of groups, from the largest level to the smallest."""
    separator = None if arguments.out is None else check_output(arguments.out)
    saved = load_model(arguments.model)
    model, schema = saved.model, saved.schema
    if not hasattr(model, "task_effects"):
        raise ValueError(f"{type(model).__name__} has no effects of groups: fit Kin, the default model")
    names = [] if schema is None else schema.task_names
    if arguments.task is not None and arguments.task not in names:
        raise ValueError(f"--task {arguments.task}: this model has the groupings {listing(names)}")
    number = 0 if arguments.task is None else names.index(arguments.task)
    table, unit = effects_in_units(saved, number)
    table.index.name = names[number] if names else table.index.name
    table = table.sort_values("level", ascending=False)
    if separator is not None:
        with open_output(arguments.out) as file:
            table.to_csv(file, sep=separator, lineterminator="\n")
    if arguments.out == STDOUT:
        return
    terminal.say(
        f"Levels of {len(table)} groups relative to the average group, in units of {unit}, with 90% intervals"
        f"{'; slopes with standard errors' if 'slope of' in ' '.join(table) else ''}."
    )
    titles = {"level": "level", "low": "from", "high": "to", "raw_level": "without pooling"}
    errors = table.filter(regex="^standard_error").max().replace(0.0, 1.0)  # small for large units, or slopes per day
    digits = {name: max(3, 1 - int(np.floor(np.log10(error)))) for name, error in errors.items()}
    cells = {title: [as_text(v, digits["standard_error"]) for v in table[name]] for name, title in titles.items()}
    for name in table.columns[table.columns.str.startswith("slope of ")]:
        error = name.replace("slope", "standard_error", 1)
        cells[name] = [" ± ".join(as_text(v, digits[error]) for v in pair) for pair in table[[name, error]].to_numpy()]
    rows = list(map(list, zip(map(str, table.index), map(str, table["rows"]), *cells.values(), strict=True)))
    terminal.table(["group", "rows", *cells], rows if arguments.all else shorten(rows))


def run_report(arguments: Namespace, terminal: Terminal) -> None:
    from ..report.report import report_of_files

    check_writable(arguments.out, arguments.test, *arguments.models)
    models = [load_with_schema(path, arguments) if arguments.test else load_model(path) for path in arguments.models]
    test = read_labelled(arguments.test, models[0], text_format(arguments))[0] if arguments.test else None
    with in_file(arguments.test, test) if arguments.test else nullcontext():
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
