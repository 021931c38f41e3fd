"""Write the tables of the README and of the paper from what the repository holds: `python -m docs.readme`.

The comparison on real data comes from docs/comparison.md, the demo from docs/demo.json, results of the paper from
docs/results/*/results.json, and what the example prints from running it. `--demo` repeats the demo and draws its
picture.
"""

import doctest
import json
import re
import subprocess
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
README, PAPER = DOCS.parent / "README.md", DOCS.parent / "paper" / "paper.md"
DEMO, DEMO_PAGE, PICTURE = DOCS / "demo.json", DOCS / "demo.md", DOCS / "images" / "demo.png"
# Data of the demo, training rows of a group, and how often they are drawn.
DEMO_RUNS = (("fertility", 4, 5), ("elnino", 4, 5), ("grunfeld", 4, 5))
# Columns of docs/comparison.md, and what the README calls them.
CONTENDERS = {
    "Kin": "**KinRegressor, KinClassifier**",
    "mixed model": "linear mixed model",
    "GPBoost": "GPBoost",
    "LightGBM, pooled": "LightGBM, group as category",
    "ridge, group indicators": "ridge, group indicators",
}
# Names of contenders in Sigrist's comparison, whose published figures are taken.
PEERS = {
    "mixed model": "linear mixed model",
    "GPBoost": "GPBoost",
    "LightGBM, pooled": "LightGBM, groups as categories",
}


def fill(text: str) -> str:
    """The README with its tables made anew; each is between <!--name--> and <!--/name-->."""
    return _fill(text, {"demo": demo_sentence(), "real": real_data(), "results": results()})


def _fill(text: str, tables: dict[str, str]) -> str:
    for name, table in tables.items():
        pattern = rf"(<!--{name}-->\n\n).*?(\n\n<!--/{name}-->)"
        text, count = re.subn(pattern, lambda match, table=table: match[1] + table + match[2], text, flags=re.DOTALL)
        assert count == 1, f"there are {count} tables named {name}"
    return text


def demo_sentence(link: str = "docs/demo.md") -> str:
    """What the picture shows, with the means over draws."""
    run = next(run for run in json.loads(DEMO.read_text()) if run["data"] == "fertility")
    means = {name: float(np.mean(errors)) for name, errors in run["rmse"].items()}
    other = min((name for name in means if name != "Kin"), key=lambda name: means[name])
    return (
        f"Births per woman in {run['groups']} countries, {run['rows']} random years of each known, others predicted. "
        f"Mean RMSE of {run['draws']} draws: KinRegressor {means['Kin']:.2f}; {other} {means[other]:.2f}; a linear "
        f"mixed model {means['a linear mixed model']:.2f}; scikit-learn's gradient boosting "
        f"{means['gradient boosting']:.2f} "
        f"([why these data, and two others]({link}))."
    )


def demo_table() -> str:
    """A row for each model, a column for each data set of the demo; the best in bold."""
    runs = json.loads(DEMO.read_text())
    columns = ["RMSE", *(f"{run['data']}: {run['groups']} groups, {run['rows']} rows each" for run in runs)]
    means = [{name: float(np.mean(errors)) for name, errors in run["rmse"].items()} for run in runs]
    order = sorted(means[0], key=lambda name: means[0][name])
    rows = tuple((name, *(f"{mean[name]:.3g}" for mean in means)) for name in order)
    bold = {
        (i, 1 + j) for i, name in enumerate(order) for j, mean in enumerate(means) if mean[name] == min(mean.values())
    }
    return Table(tuple(columns), rows, frozenset(bold)).markdown()


def real_data() -> str:
    """A row for each contender: its loss relative to Kin, in known groups and later, and the sets where it is best."""
    columns = ["", "14 data sets, 3 to 12 rows a group: loss relative to Kin", "best on", "later rows, 6 sets: loss"]
    many = list(many_rows().values())
    columns += many_rows()
    grouped, later = losses("grouped"), losses("later")
    shown = list(CONTENDERS)
    best = [min(shown, key=lambda name: row[name]) for row in grouped.values()]
    rows = []
    for name, title in CONTENDERS.items():
        behind = [
            f"{np.exp(np.mean([np.log(row[name] / row['Kin']) for row in suite.values()])):.2f}"
            if all(name in row for row in suite.values())
            else "-"
            for suite in (grouped, later)
        ]
        rows.append((title, behind[0], str(best.count(name)), behind[1], *(each.get(name, "-") for each in many)))
    note = "\n\nWages and ratings: Kin was run here; the other figures are as published." if many else ""
    return Table(tuple(columns), tuple(rows)).markdown() + note


def many_rows() -> dict[str, dict[str, str]]:
    """Mean squared errors of contenders in Sigrist's comparison, by a title; nothing if its results are not stored."""
    file = DOCS / "results" / "sigrist" / "results.json"
    if not file.exists():
        return {}
    from experiments.sigrist import PUBLISHED as OTHERS

    units, found = json.loads(file.read_text()), {}
    for setting, title in (("wages", "wages: MSE"), ("insteval", "ratings: MSE")):
        runs = {
            unit["run"]: float(np.mean(list(unit["scores"].values()))) for unit in units if unit["setting"] == setting
        }
        if runs:
            theirs = {name: np.mean([OTHERS[setting][PEERS[name]][run] for run in runs]) for name in PEERS}
            means = {"Kin": np.mean(list(runs.values()))} | theirs
            found[title] = {name: f"{mean:.4f}" for name, mean in means.items()}
    return found


def losses(suite: str) -> dict[str, dict[str, float]]:
    """Losses by data set and contender, from a table of docs/comparison.md."""
    text = (DOCS / "comparison.md").read_text()
    table = text.split(f"<!-- {suite} -->")[1].split(f"<!-- end of {suite} -->")[0].strip().splitlines()
    cells = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in table]
    sets = [row for row, line in zip(cells[2:], table[2:], strict=True) if not line.startswith("| *")]
    return {row[0]: dict(zip(cells[0][1:], map(float, row[1:]), strict=True)) for row in sets}


def repeat_demo() -> None:
    """Run the demo on all data; the picture is that of `make demo`."""
    from examples.demo import main

    stored, command = [], ["git", "rev-parse", "--short=7", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    with TemporaryDirectory() as folder:
        for data, rows, draws in DEMO_RUNS:
            main(["-o", folder, "--data", data, "--rows", str(rows), "--draws", str(draws)])
            stored.append(json.loads((Path(folder) / "results.json").read_text()))
            stored[-1].pop("seconds")
            stored[-1]["commit"] = commit
        main(["-o", folder])
        _shrink(Path(folder) / "demo.png", PICTURE)
    DEMO.write_text(json.dumps(stored, indent=1) + "\n")


def _shrink(source: Path, target: Path) -> None:
    """Copy a picture with few colours, so that the file is small."""
    from PIL import Image

    Image.open(source).convert("RGB").quantize(64).save(target, optimize=True)


def results() -> str:
    """A row for each figure that the paper has of its model, with ours beside."""
    columns = ("", "MK-MTRL, paper", "MK-MTRL here", "Kin", "best of the others")
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
            arrow = "↑" if protocol.metric.larger_is_better else "↓"
            yield [
                (f"[{protocol.title}](docs/results/{name}/README.md), {setting.name}; "
                 f"{protocol.metric.name} {arrow}", False),
                (protocol.paper[setting.name, PUBLISHED].split(" ±")[0], False),
                *((show(here[m], protocol.metric).split(" ±")[0], here[m].bold) for m in (PUBLISHED, ours)),
                (f"{best} {show(best_cell, protocol.metric).split(' ±')[0]}", best_cell.bold),
            ]  # fmt: skip


def _best(protocol: Protocol, cells: dict[str, Cell], names: set[str]) -> tuple[str, Cell]:
    sign = 1 if protocol.metric.larger_is_better else -1
    return max(((name, cells[name]) for name in names & set(cells)), key=lambda item: sign * item[1].mean)


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
    PAPER.write_text(_fill(PAPER.read_text(), {"real": real_data(), "demo": demo_sentence("../docs/demo.md")}))
    DEMO_PAGE.write_text(_fill(DEMO_PAGE.read_text(), {"table": demo_table()}))
    README.write_text(Example(fill(README.read_text())).text)
