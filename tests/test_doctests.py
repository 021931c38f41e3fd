"""The examples in docstrings and in the documentation: each runs, and says what it says there."""

import doctest
import importlib
import os
import pkgutil
from pathlib import Path
from typing import Any

import pytest

import kernelkin
from kernelkin import datasets, model_selection, plots

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted(ROOT.joinpath("docs").glob("*.md")), *sorted(ROOT.glob("docs/guide/*.md"))]
OBJECTS = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (kernelkin, datasets, model_selection, plots)
    for name in module.__all__
    if name != "DISPLAYS"
}
NEEDS_FILES = pytest.mark.skipif("KERNELKIN_DATA" not in os.environ, reason="KERNELKIN_DATA is not set")


def run(test: doctest.DocTest) -> None:
    """Run all examples of a test, and fail with what they printed."""
    report: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    runner.run(test, out=report.append)
    assert not runner.failures, "".join(report)


def with_files(names: Any) -> list:
    return [pytest.param(n, marks=NEEDS_FILES if n.startswith("kernelkin.datasets.load_") else ()) for n in names]


@pytest.fixture(autouse=True)
def _no_figures_left(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.mark.parametrize("name", with_files(OBJECTS))
def test_docstring(name):
    found = doctest.DocTestFinder(recurse=False).find(OBJECTS[name], name, globs={})
    assert found and found[0].examples, f"{name} has no example"
    run(found[0])


def test_docstrings_that_are_not_public():
    """Those of the reference have a test each, above."""
    modules = [m.name for m in pkgutil.walk_packages(kernelkin.__path__, "kernelkin.") if "__main__" not in m.name]
    public = {name.split(".")[-1] for name in OBJECTS}
    found = [t for m in modules for t in doctest.DocTestFinder().find(importlib.import_module(m)) if t.examples]
    for test in found:
        if not public & set(test.name.split(".")):
            run(test)


def test_reference_lists_every_public_object():
    listed = {line.split(".")[-1].strip() for line in (ROOT / "docs" / "api.rst").read_text().splitlines()}
    missing = [name for name in OBJECTS if name.split(".")[-1] not in listed]
    assert not missing, f"add to docs/api.rst: {missing}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page(page):
    # A fence is no part of what an example prints.
    text = page.read_text().replace("```", "\n")
    run(doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0))
