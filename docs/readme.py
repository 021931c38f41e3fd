"""Write the tables and the picture of the README from what the repository holds: `python -m docs.readme`.

Results come from docs/results/*/results.json, speed from docs/performance.md, the picture and what the example prints
from running it.
"""

import doctest
import json
import re
from collections.abc import Iterator
from pathlib import Path

from experiments import Protocol, find_protocol
from experiments.rows import OURS, PUBLISHED
from experiments.store import Result
from experiments.summary import Cell, summarise
from experiments.tables import Table, show

DOCS = Path(__file__).parent
README = DOCS.parent / "README.md"
PICTURE = DOCS / "images" / "relationship.png"


def fill(text: str) -> str:
    """The README with its tables made anew; each is between <!--name--> and <!--/name-->."""
    for name, table in {"results": results(), "speed": speed()}.items():
        pattern = rf"(<!--{name}-->\n\n).*?(\n\n<!--/{name}-->)"
        text, count = re.subn(pattern, lambda match, table=table: match[1] + table + match[2], text, flags=re.DOTALL)
        assert count == 1, f"the README has {count} tables named {name}"
    return text


def results() -> str:
    """A row for each figure that the paper has of its model, with ours beside."""
    columns = ("", "the paper's MK-MTRL", "the same, here", OURS, "best of the others", "runs")
    found = [row for file in sorted(DOCS.glob("results/*/results.json")) for row in _rows(file)]
    bold = frozenset((i, j) for i, row in enumerate(found) for j, cell in enumerate(row) if cell[1])
    return Table(columns, tuple(tuple(cell[0] for cell in row) for row in found), bold).markdown()


def _rows(file: Path) -> Iterator[list[tuple[str, bool]]]:
    """Rows of texts, each with whether it is in bold."""
    name = file.parent.name
    protocol, units = find_protocol(name), [Result(**unit) for unit in json.loads(file.read_text())]
    cells = summarise(protocol, units)
    for setting in protocol.settings:
        if (setting.name, PUBLISHED) in protocol.paper and (setting.name, OURS) in cells:
            here = {model: cell for (place, model), cell in cells.items() if place == setting.name}
            best, best_cell = _best(protocol, here, {m.name for m in protocol.models(setting) if m.role == "baseline"})
            kind = "more" if protocol.metric.larger_is_better else "less"
            yield [
                (f"[{protocol.title}](docs/results/{name}/README.md), {setting.name}; {protocol.metric.name}, "
                 f"{kind} is better", False),
                (protocol.paper[setting.name, PUBLISHED], False),
                *((show(here[m], protocol.metric), here[m].bold) for m in (PUBLISHED, OURS)),
                (f"{best} {show(best_cell, protocol.metric)}", best_cell.bold),
                (str(here[OURS].runs), False),
            ]  # fmt: skip


def _best(protocol: Protocol, cells: dict[str, Cell], names: set[str]) -> tuple[str, Cell]:
    sign = 1 if protocol.metric.larger_is_better else -1
    return max(((name, cells[name]) for name in names & set(cells)), key=lambda item: sign * item[1].mean)


def speed() -> str:
    """Every table of docs/performance.md that has a column "times ours", without our own row."""
    rows, heading, columns = [], "", []
    for line in (DOCS / "performance.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("## "):
            heading, columns = line.removeprefix("## "), []
        elif line.startswith("|") and "times ours" in cells:
            columns = cells
        elif line.startswith("|") and columns and not set(cells[0]) <= {"-"}:
            row = dict(zip(columns, cells, strict=True))
            if row["times ours"] != "1":
                rows.append((heading, row[""], row["times ours"]))
    return Table(("problem", "contender", "time, kernelkin's = 1"), tuple(rows)).markdown()


class Example(doctest.DocTestRunner):
    """The example of the README: its variables, and its text with what it prints now."""

    def __init__(self, text: str) -> None:
        super().__init__(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE)
        self.text = text
        test = doctest.DocTestParser().get_doctest(text.replace("```", "\n"), {}, README.name, str(README), 0)
        self.variables = test.globs
        self.run(test, clear_globs=False)

    def report_failure(self, out: object, test: object, example: doctest.Example, got: str) -> None:
        self.text = self.text.replace(example.want, got, 1)


if __name__ == "__main__":
    example = Example(fill(README.read_text()))
    README.write_text(example.text)
    example.variables["picture"].figure_.savefig(PICTURE, dpi=80)
