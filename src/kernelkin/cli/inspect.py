"""`kernelkin inspect` and `kernelkin report`: describe a saved model in the terminal or as an HTML page."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import nullcontext
from typing import Any

from ..data.arrays import listing
from ..facts import changed_parameters, relative_gap
from ..files import check_writable
from ..relations.analysis import TaskRelations
from ..relations.sharing import SharingReport
from .evaluation import as_text, shorten
from .problem import add_format_arguments, in_file, text_format
from .score import read_labelled
from .terminal import Terminal

HELP = "describe a saved model: its kind, data, scores, kernels and certificate"
EXAMPLES = "  kernelkin inspect sales.kin\n  kernelkin inspect sales.kin --all"
REPORT_HELP = "write an HTML file, usable offline, that shows how well a saved model predicts and why"
REPORT_EXAMPLES = (
    "  kernelkin report sales.kin -o report.html\n"
    "  kernelkin report sales.kin --test later.csv -o report.html\n"
    "  kernelkin report old.kin new.kin --test later.csv -o comparison.html"
)


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a file saved by `kernelkin fit`")
    parser.add_argument("--all", action="store_true", help="show every task, even if there are many")


def run(arguments: Namespace, terminal: Terminal) -> None:
    from ..storage.model_files import load_model

    saved = load_model(arguments.model)
    model, about = saved.model, saved.about
    terminal.say(f"{type(model).__name__}, saved by kernelkin {saved.version}")
    for title, text in facts(saved):
        terminal.say(f"  {title:<12} {text}")
    columns = _columns(model, about)
    if columns:
        rows = [list(row) for row in zip(map(str, model.tasks_.tolist()), *columns.values(), strict=True)]
        terminal.say()
        terminal.table(["task", *columns], rows if arguments.all else list(shorten(rows)))


def facts(saved: Any) -> list[tuple[str, str]]:
    """Return titles and texts that describe a saved model."""
    model, schema, about = saved.model, saved.schema, saved.about
    found = []
    if schema is not None:
        found.append(("target", f"{schema.target!r}, {'a number' if schema.regression else 'a class'}"))
        tasks = f"{len(model.tasks_)} tasks: {listing(model.tasks_, 5)}"
        found.append(("task", f"{schema.task!r}, {tasks}" if schema.task is not None else f"every target; {tasks}"))
        names = listing([column.name for column in schema.columns], 6)
        found.append(("features", f"{len(schema.features)} from {len(schema.columns)} columns: {names}"))
        found.append(("fitted to", f"{schema.n_rows} rows"))
    else:
        found.append(("tasks", listing(model.tasks_, 5)))
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
    if "evaluation" in about:
        rows, overall = about["evaluation"]["test_rows"], about["evaluation"]["overall"]
        kind = next(iter(next(iter(overall.values()))))
        scores = "; ".join(f"{name} {as_text(scores[kind])}" for name, scores in overall.items())
        found.append(("test", f"{kind} on {rows} held-out rows: {scores}"))
    if "comparisons" in about.get("sharing", {}):
        found.append(("sharing", SharingReport.from_dict(about["sharing"]).verdict))
    if "relations" in about:
        found.append(("relations", TaskRelations.from_dict(about["relations"]).headline()))
    if "command" in about:
        found.append(("made by", about["command"]))
    return found


def _columns(model: Any, about: dict[str, Any]) -> dict[str, list[str]]:
    """Return the columns of the table of tasks, by title."""
    tasks, found = model.tasks_.tolist(), {}
    if "task_rows" in about:
        counts = dict(map(tuple, about["task_rows"]))
        found["rows"] = [str(counts.get(task, "")) for task in tasks]
    if "evaluation" in about:
        evaluation = about["evaluation"]
        own = dict(zip(evaluation["tasks"], next(iter(evaluation["scores"].values())), strict=True))
        found[evaluation["score"]] = [as_text(own.get(task)) for task in tasks]
    if hasattr(model, "kernel_weights_"):
        found["largest kernel"] = [
            f"{model.kernel_names_[weights.argmax()]} {weights.max() / (weights.sum() or 1.0):.0%}"
            for weights in model.kernel_weights_
        ]
    if getattr(model, "couplings_", ()) and hasattr(model, "part_shares_"):
        found["shared"] = [f"{1 - own:.0%}" for own in model.part_shares_[:, 0]]
    return found


def add_report_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "models", nargs="+", metavar="MODEL", help="file saved by `kernelkin fit`, or two files to compare"
    )
    parser.add_argument("-o", "--out", required=True, metavar="HTML", help="the file to write")
    parser.add_argument("--test", metavar="FILE", help="labelled table to test on, instead of the rows held out by fit")
    parser.add_argument("--title", help="title of the page (default: the target and the task)")
    add_format_arguments(parser)


def run_report(arguments: Namespace, terminal: Terminal) -> None:
    from ..report.report import report_of_files
    from ..storage.model_files import load_model

    if len(arguments.models) > 2:
        raise ValueError(f"a report shows one model, or two side by side, not {len(arguments.models)}")
    check_writable(arguments.out)
    models = [load_model(path) for path in arguments.models]
    test = None if arguments.test is None else _read_test(arguments, models)
    with in_file(arguments.test) if arguments.test else nullcontext():
        report = report_of_files(models, names=arguments.models, test=test, title=arguments.title)
    report.save(arguments.out)
    terminal.say(f"Wrote {arguments.out}: open it in a browser.")


def _read_test(arguments: Namespace, models: list[Any]) -> Any:
    """Return the labelled table, without rows that have no task or no target."""
    for path, saved in zip(arguments.models, models, strict=True):
        if saved.schema is None:
            raise ValueError(f"--test: {path} was saved without the schema of a table")
    return read_labelled(arguments.test, models[0], text_format(arguments))[0]
