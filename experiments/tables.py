"""Tables as text, Markdown and CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .protocol import Metric, Protocol
from .summary import Cell

BOLD, PLAIN = "\033[1m", "\033[0m"


@dataclass(frozen=True)
class Table:
    """Columns, rows of text, and the (row, column) positions in bold."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    bold: frozenset[tuple[int, int]] = frozenset()

    def text(self, colour: bool = False) -> str:
        """For a terminal: bold where it can show it, an asterisk where not."""
        marks = [[(i, j) in self.bold for j in range(len(self.columns))] for i in range(len(self.rows))]
        shown = [
            [cell + ("*" if mark and not colour else "") for cell, mark in zip(row, line, strict=True)]
            for row, line in zip(self.rows, marks, strict=True)
        ]
        widths = [max(map(len, column)) for column in zip(self.columns, *shown, strict=True)]
        head = _line(self.columns, widths)
        lines = [_line(row, widths, line if colour else ()) for row, line in zip(shown, marks, strict=True)]
        return "\n".join([head, "-" * len(head), *lines])

    def markdown(self) -> str:
        cells = [
            [f"**{cell}**" if (i, j) in self.bold else cell for j, cell in enumerate(row)]
            for i, row in enumerate(self.rows)
        ]
        return "\n".join("| " + " | ".join(row) + " |" for row in [self.columns, ["---"] * len(self.columns), *cells])


def _line(cells: Sequence[str], widths: Sequence[int], bold: Sequence[bool] = ()) -> str:
    padded = [cells[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True))]
    if bold:
        padded = [f"{BOLD}{cell}{PLAIN}" if mark else cell for cell, mark in zip(padded, bold, strict=True)]
    return "  ".join(padded)


def make_table(
    metric: Metric,
    corner: str,
    headings: Sequence[str],
    names: Sequence[str],
    cells: Mapping[tuple[str, str], Cell],
    paper: Mapping[tuple[str, str], str],
) -> Table:
    """A row for each name, a column for each heading, with the paper's figures beside where it has any.

    `cells` and `paper` have keys (heading, name).
    """
    columns, printed = [corner], {heading: any(key[0] == heading for key in paper) for heading in headings}
    for heading in headings:
        columns += [heading, "paper"] if printed[heading] else [heading]
    rows: list[tuple[str, ...]] = []
    bold = set()
    for name in names:
        row = [name]
        for heading in headings:
            cell = cells.get((heading, name))
            if cell is not None and cell.bold:
                bold.add((len(rows), len(row)))
            row.append("-" if cell is None else show(cell, metric))
            if printed[heading]:
                row.append(paper.get((heading, name), "-"))
        rows.append(tuple(row))
    return Table(tuple(columns), tuple(rows), frozenset(bold))


def show(cell: Cell, metric: Metric) -> str:
    mean = f"{cell.mean:.{metric.digits}f}"
    return mean if cell.runs < 2 else f"{mean} ± {cell.error:.{metric.digits}f}"


def main_table(protocol: Protocol, cells: Mapping[tuple[str, str], Cell]) -> Table:
    """Models by settings."""
    shown = [name for name in protocol.model_names(parts=False) if any(model == name for _, model in cells)]
    headings = [setting.name for setting in protocol.settings if any(key[0] == setting.name for key in cells)]
    return make_table(protocol.metric, protocol.metric.name, headings, shown, cells, protocol.paper)


def task_table(protocol: Protocol, cells: Mapping[tuple[str, str], Cell]) -> Table:
    """Tasks by models, as the paper has it."""
    models = [name for name in protocol.model_names() if any(model == name for _, model in cells)]
    tasks = list(dict.fromkeys(task for task, _ in cells))
    turned = {(model, task): cell for (task, model), cell in cells.items()}
    paper = {(model, task): figure for (task, model), figure in protocol.paper_tasks.items() if model in models}
    return make_table(protocol.metric, protocol.metric.name, models, tasks, turned, paper)


def time_table(protocol: Protocol, cells: Mapping[tuple[str, str], Cell]) -> Table:
    """Processor seconds for cross-validation and fit, on average over runs; where it was measured, memory too.

    With memory (the largest of all settings, in GiB) comes the number of runs.
    """
    names = [name for name in protocol.model_names(parts=False) if any(model == name for _, model in cells)]
    headings = [setting.name for setting in protocol.settings if any(key[0] == setting.name for key in cells)]
    rows = [
        (name, *(f"{cells[heading, name].seconds:.1f}" if (heading, name) in cells else "-" for heading in headings))
        for name in names
    ]
    if all(math.isnan(cell.memory) for cell in cells.values()):
        return Table(("seconds", *headings), tuple(rows))
    own = {name: [cell for (_, model), cell in cells.items() if model == name] for name in names}
    further = [(f"{max(cell.memory for cell in own[name]) / 1024:.1f}", str(own[name][0].runs)) for name in names]
    full = tuple((*row, *more) for row, more in zip(rows, further, strict=True))
    return Table(("seconds", *headings, "memory (GiB)", "runs"), full)


def to_csv(protocol: Protocol, cells: Mapping[tuple[str, str], Cell]) -> str:
    """One line for each (setting, model)."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["setting", "model", protocol.metric.name, "standard_error", "runs", "best", "paper", "seconds"])
    for (setting, model), cell in cells.items():
        paper = protocol.paper.get((setting, model), "")
        numbers = [f"{cell.mean:.6g}", f"{cell.error:.3g}", cell.runs, int(cell.bold)]
        writer.writerow([setting, model, *numbers, paper, f"{cell.seconds:.3g}"])
    return out.getvalue()
