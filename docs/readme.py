"""Write the tables and the example of the README from what the repository holds: `python -m docs.readme`.

Results come from docs/results/*/results.json, speed from docs/performance.md, the comparison from docs/demo.json, and
what the example prints from running it. `--demo` repeats the comparison, which takes minutes, and draws its picture.
"""

import doctest
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from experiments import Protocol, find_protocol
from experiments.rows import PUBLISHED
from experiments.store import Result
from experiments.summary import Cell, summarise
from experiments.tables import Table, show

DOCS = Path(__file__).parent
README = DOCS.parent / "README.md"
DEMO, PICTURE = DOCS / "demo.json", DOCS / "images" / "shops.png"
# Training days of a shop, and how often shops are drawn.
DEMO_RUNS = ((15, 5), (150, 2))
REAL_EXAMPLE = "landmine"


def fill(text: str) -> str:
    """The README with its tables made anew; each is between <!--name--> and <!--/name-->."""
    tables = {"demo": comparison(), "real": real_example(), "results": results(), "speed": speed()}
    for name, table in tables.items():
        pattern = rf"(<!--{name}-->\n\n).*?(\n\n<!--/{name}-->)"
        text, count = re.subn(pattern, lambda match, table=table: match[1] + table + match[2], text, flags=re.DOTALL)
        assert count == 1, f"the README has {count} tables named {name}"
    return text


def comparison() -> str:
    """A row for each model of the demo, the best first; a column for each number of days."""
    runs = json.loads(DEMO.read_text())
    columns = ["R² on other days"]
    for run in runs:
        draws = "one draw" if run["n_draws"] == 1 else f"mean of {run['n_draws']} draws"
        columns.append(f"{run['n_shops']} shops, {run['n_days']} days each ({draws})")
    scores = {name: [run["scores"][name] for run in runs] for name in runs[0]["scores"]}
    order = sorted(scores, key=lambda name: -np.mean(scores[name][0]))
    best = [max(np.mean(run["scores"][name]) for name in scores) for run in runs]
    bold = {(i, 1 + j) for i, name in enumerate(order) for j, run in enumerate(scores[name]) if np.mean(run) == best[j]}
    rows = tuple((name, *(f"{np.mean(run):.2f}" for run in scores[name])) for name in order)
    return Table(tuple(columns), rows, frozenset(bold)).markdown()


def repeat_demo() -> None:
    """Run the demo for all numbers of days; the picture is that of the first."""
    from kernelkin.cli.demo import run_demo
    from kernelkin.cli.terminal import Terminal

    stored = []
    for days, draws in DEMO_RUNS:
        with TemporaryDirectory() as folder:
            run_demo(Terminal(), folder, n_days=days, n_draws=draws)
            stored.append(json.loads((Path(folder) / "results.json").read_text()))
            if days == DEMO_RUNS[0][0]:
                _shrink(Path(folder) / "shops.png", PICTURE)
        stored[-1].pop("seconds")
    DEMO.write_text(json.dumps(stored, indent=1) + "\n")


def _shrink(source: Path, target: Path) -> None:
    """Copy a picture with few colours, so that the file is small."""
    from PIL import Image

    Image.open(source).convert("RGB").quantize(64).save(target, optimize=True)


def real_example() -> str:
    """A sentence on the first setting of a real data set: ours, one machine per task, and the best of the others."""
    protocol = find_protocol(REAL_EXAMPLE)
    units = [Result(**unit) for unit in json.loads((DOCS / "results" / REAL_EXAMPLE / "results.json").read_text())]
    setting = next(setting for setting in protocol.settings if (setting.name, PUBLISHED) in protocol.paper)
    cells = {model: cell for (place, model), cell in summarise(protocol, units).items() if place == setting.name}
    names = {model.name for model in protocol.models(setting) if model.role == "baseline"}
    best, best_cell = _best(protocol, cells, names)
    ours, alone = (show(cells[name], protocol.metric) for name in (str(protocol.ours), "STL"))
    fields = (
        f"On real data: {protocol.title.lower()}, 19 fields with {setting.name.split(',')[0]} each, mean "
        f"{protocol.metric.name} of ten runs: {ours}; one support vector machine per field {alone}; the best of the "
        f"other multi-task models, {best}, {show(best_cell, protocol.metric)} "
        f"([all results](docs/results/{REAL_EXAMPLE}/README.md))."
    )
    return f"{fields} {molecules_example()}"


def molecules_example() -> str:
    """A sentence on the assays of ToxCast: shared parts, and what is run on fingerprints otherwise."""
    protocol = find_protocol("toxcast")
    units = [Result(**unit) for unit in json.loads((DOCS / "results" / "toxcast" / "results.json").read_text())]
    setting = protocol.settings[0].name
    cells = {model: cell for (place, model), cell in summarise(protocol, units).items() if place == setting}
    ours, machines, forest, boosting = (
        show(cells[name], protocol.metric)
        for name in (str(protocol.ours), "SVM, Morgan", "random forest, Morgan", "gradient boosting, Morgan")
    )
    return (
        "Activity of 8,579 molecules in assays, seven labels of ten missing, several fingerprints and what assays "
        f"share: AUC {ours} on 60 of 617 assays; one support vector machine per assay on one fingerprint {machines}, "
        f"random forest {forest}, gradient boosting {boosting} ([ToxCast](docs/results/toxcast/README.md))."
    )


def results() -> str:
    """A row for each figure that the paper has of its model, with ours beside."""
    columns = ("", "MK-MTRL in the paper", "MK-MTRL here", "KinRegressor, KinClassifier", "best of the others", "runs")
    found = [row for file in sorted(DOCS.glob("results/*/results.json")) for row in _rows(file)]
    bold = frozenset((i, j) for i, row in enumerate(found) for j, cell in enumerate(row) if cell[1])
    return Table(columns, tuple(tuple(cell[0] for cell in row) for row in found), bold).markdown()


def _rows(file: Path) -> Iterator[list[tuple[str, bool]]]:
    """Rows of texts, each with whether it is in bold."""
    name = file.parent.name
    protocol, units = find_protocol(name), [Result(**unit) for unit in json.loads(file.read_text())]
    cells, ours = summarise(protocol, units), str(protocol.ours)
    for setting in protocol.settings:
        if (setting.name, PUBLISHED) in protocol.paper and (setting.name, ours) in cells:
            here = {model: cell for (place, model), cell in cells.items() if place == setting.name}
            best, best_cell = _best(protocol, here, {m.name for m in protocol.models(setting) if m.role == "baseline"})
            kind = "more" if protocol.metric.larger_is_better else "less"
            yield [
                (f"[{protocol.title}](docs/results/{name}/README.md), {setting.name}; {protocol.metric.name}, "
                 f"{kind} is better", False),
                (protocol.paper[setting.name, PUBLISHED], False),
                *((show(here[m], protocol.metric), here[m].bold) for m in (PUBLISHED, ours)),
                (f"{best} {show(best_cell, protocol.metric)}", best_cell.bold),
                (str(here[ours].runs), False),
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
    return Table(("problem", "method", "run time relative to kernelkin"), tuple(rows)).markdown()


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
    if "--demo" in sys.argv:
        repeat_demo()
    README.write_text(Example(fill(README.read_text())).text)
