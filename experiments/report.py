"""The files of an experiment: a page in Markdown, CSV, JSON, and the figure where the paper has one."""

from __future__ import annotations

import json
import os
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime

from kernelkin import __version__

from .figures import draw_sizes
from .protocol import Metric, Protocol
from .store import Folder, Result
from .summary import Cell, summarise, summarise_tasks
from .tables import Table, main_table, show, task_table, time_table, to_csv


def write_report(protocol: Protocol, results: Sequence[Result], folder: Folder, command: str) -> None:
    """Write all files of one experiment into a folder."""
    cells = summarise(protocol, results)
    folder.write("results.csv", to_csv(protocol, cells))
    folder.write("results.json", json.dumps([asdict(result) for result in results], indent=0, default=str))
    if protocol.draw is not None:
        folder.write("figure.png", protocol.draw(protocol, results))
    elif has_figure(protocol):
        folder.write("figure.png", draw_sizes(protocol, cells))
    folder.write("README.md", page(protocol, results, origin(protocol, results, command)))


def has_figure(protocol: Protocol) -> bool:
    """Whether the experiment has a figure of its own, or an error at enough sizes to draw it against them."""
    several = len({setting.size for setting in protocol.settings}) > 2
    return protocol.draw is not None or (several and not protocol.metric.larger_is_better)


def page(protocol: Protocol, results: Sequence[Result], made: str) -> str:
    """The page in Markdown; `made` is its paragraph on how the results were made."""
    cells = summarise(protocol, results)
    kind = "the more the better" if protocol.metric.larger_is_better else "the less the better"
    parts = [
        f"# {protocol.title}",
        protocol.introduction
        or f"{protocol.metric.name}, mean over tasks, {kind}; mean and standard error over runs. Bold: the best, and "
        "those that a paired t-test (5%) cannot distinguish from it. Beside them the paper's own figures.",
        main_table(protocol, cells).markdown(),
        *goal_lines(protocol, cells),
        *(further_table(protocol, results, metric).markdown() for metric in protocol.further),
        protocol.remarks,
        *protocol.sections(results),
    ]
    if has_figure(protocol):
        parts.append(f"![{protocol.metric.name} against training rows](figure.png)")
    if protocol.task_setting is not None and any(result.setting == protocol.task_setting for result in results):
        tasks = task_table(protocol, summarise_tasks(protocol, results)).markdown()
        parts += [f"## Each task ({protocol.task_setting})", tasks]
    parts += ["## Run times", "Processor time of cross-validation and fit.", time_table(protocol, cells).markdown()]
    parts += ["## How it was made", made, *_solver_notes(results)]
    return "\n\n".join(parts) + "\n"


def further_table(protocol: Protocol, results: Sequence[Result], metric: Metric) -> Table:
    """The table of one of the further metrics."""
    other = replace(protocol, metric=metric, paper={})
    judged = [replace(result, scores={"": result.figures[metric.name]}) for result in results]
    return main_table(other, summarise(other, judged))


def goal_lines(protocol: Protocol, cells: Mapping[tuple[str, str], Cell]) -> list[str]:
    """Whether the goals are met, and which models beat ours by more than a standard error."""
    models = {model.name: model for setting in protocol.settings for model in protocol.models(setting)}
    ours = protocol.ours
    better = (lambda a, b: a >= b) if protocol.metric.larger_is_better else (lambda a, b: a <= b)
    lines = []
    for goal in protocol.goals:
        cell = cells.get((goal.setting, ours or ""))
        if cell is not None:
            outcome = "met" if better(cell.mean, goal.value) else f"missed by {abs(cell.mean - goal.value):.4f}"
            lines.append(f"- {goal.setting}: goal {goal.value:g} ({goal.source}), {ours} {cell.mean:.4f}: {outcome}.")
    for setting in protocol.settings:
        own = cells.get((setting.name, ours or ""))
        if own is None or not protocol.goals:
            continue
        beaten_by = [
            f"{name} ({show(cells[setting.name, name], protocol.metric)})"
            for name, model in models.items()
            if model.role not in ("ours", "part") and (setting.name, name) in cells
            if _ahead(cells[setting.name, name], own, protocol.metric.larger_is_better)
        ]
        if beaten_by:
            lead = "more than a standard error better" if own.runs > 1 else "better, in one run,"
            lines.append(f"- {setting.name}: {lead} than {ours}: {', '.join(beaten_by)}.")
    return ["\n".join(lines)] if lines else []


def _ahead(other: Cell, own: Cell, larger_is_better: bool) -> bool:
    lead = other.mean - own.mean if larger_is_better else own.mean - other.mean
    error = own.error if own.runs > 1 else 0.0
    return lead > max(error, 1e-12)


def origin(protocol: Protocol, results: Sequence[Result], command: str) -> str:
    """Command, version, date, number of runs, processor time and machine."""
    runs = Counter((result.setting, result.model) for result in results)
    fewest, most = min(runs.values()), max(runs.values())
    counted = f"{most} run{'s' if most > 1 else ''}" if fewest == most else f"{fewest} to {most} runs"
    if is_unfinished(protocol, runs):
        counted += f" (the protocol has {protocol.runs}; the same command goes on from here)"
    seconds = sum(result.seconds for result in results)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"`{command}` with kernelkin {__version__} on {datetime.now(UTC):%Y-%m-%d}: {counted} of each model, "
        f"{seconds / 60:.0f} minutes of processor time in all, on a machine with {os.cpu_count()} cores and "
        f"{memory:.0f} GB of memory, Python {platform.python_version()}."
    )


def is_unfinished(protocol: Protocol, runs: Mapping[tuple[str, str], int]) -> bool:
    """Whether some (setting, model) has fewer runs than the protocol has for it."""
    wanted = {
        (setting.name, model.name): min(
            limit for limit in (protocol.runs, setting.runs, model.runs) if limit is not None
        )
        for setting in protocol.settings
        for model in protocol.models(setting)
    }
    return any(count < wanted.get(key, protocol.runs) for key, count in runs.items())


def _solver_notes(results: Sequence[Result]) -> list[str]:
    """Warnings and ranks, which are part of the result."""
    counts: Counter[tuple[str, str]] = Counter()
    units = Counter(result.model for result in results)
    for result in results:
        for name in result.warnings:
            counts[result.model, name] += 1
    lines = [f"- {model}: {name} in {n} of {units[model]} runs." for (model, name), n in sorted(counts.items())]
    gaps: dict[str, float] = {}
    for result in results:
        if result.relative_gap is not None:
            gaps[result.model] = max(gaps.get(result.model, 0.0), result.relative_gap)
    lines += [f"- {model}: largest relative duality gap of a fit {gap:.1e}." for model, gap in gaps.items()]
    return ["## Solvers", "\n".join(lines)] if lines else []
