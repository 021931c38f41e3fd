"""The size of the library: these figures may go down, and not up. `python -m docs.call_path` prints them."""

import ast
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from docs.call_path import ROOT, counts, imports, module_name

CEILINGS = {
    "files": 125,
    "lines": 25_970,
    "dataclasses": 82,
    "public names": 27,
    "import chain": 18,
    "MK-MTRL, functions": 128,
    "MK-MTRL, files": 25,
    "Kin, functions": 200,
    "Kin, files": 24,
    "kernelkin fit, functions": 483,
    "kernelkin fit, files": 52,
}

# Data flow from the first line to the last: a module imports modules of lines above its own, and of its own package.
ORDER = (
    ("exceptions",),
    ("files", "progress", "compiled", "decompositions", "calibration", "engines"),
    ("data",),
    ("kernels",),
    ("memory", "parameters", "tables", "datasets"),
    ("estimators",),
    ("mixed", "paper"),
    ("kin",),
    ("registry",),
    ("relations",),
    ("storage",),
    ("plots",),
    ("report",),
    ("cli",),
)
# Imports against the order, by the package or module that has them. This list only shrinks.
EXCEPTIONS = {
    "estimators": {"report"},  # the method `report` makes a page
    "storage": {"report"},
}
RANK = {name: rank for rank, names in enumerate(ORDER) for name in names}


@pytest.mark.filterwarnings("ignore")
def test_the_library_grows_no_larger():
    found = counts()
    assert found.keys() == CEILINGS.keys()
    assert not {name: figure for name, figure in found.items() if figure > CEILINGS[name]}


def test_the_contributing_page_has_these_figures():
    page = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
    table = page.partition("<!--counts-->")[2].partition("<!--/counts-->")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ") and line != "| | |"]
    assert {name: int(figure.replace(",", "")) for name, figure in rows} == CEILINGS


def test_modules_import_what_stands_before_them():
    against: dict[str, set[str]] = {}
    for path in ROOT.rglob("*.py"):
        own = module_name(path).partition(".")[2].partition(".")[0]
        for name in imports(path, functions=True):
            other = name.partition(".")[2].partition(".")[0]
            if own and other and own != other and own != "__main__" and RANK[other] >= RANK[own]:
                against.setdefault(own, set()).add(other)
    assert against == EXCEPTIONS


def test_no_two_classes_have_one_name():
    names = [
        node.name
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    ]
    assert not {name for name in names if names.count(name) > 1}
