"""The examples in docstrings and in the documentation run, and print what is written there."""

import doctest
import importlib
import os
import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest

import kernelkin

ROOT = Path(__file__).parents[1]
PAGES = [page for folder in ("docs", "docs/guide", "docs/howto") for page in sorted(ROOT.glob(f"{folder}/*.md"))]
# The modules a user imports from.
PUBLIC = ("datasets", "exceptions", "plots")


def named(path: str) -> Any:
    """The object that the reference means by `plots.TaskScoresDisplay` or `all_models`."""
    module, _, name = f"kernelkin.{path}".rpartition(".")
    return getattr(importlib.import_module(module), name)


LISTED = re.findall(r"^   ([A-Za-z_.]+)$", (ROOT / "docs" / "api.rst").read_text(), flags=re.MULTILINE)
OBJECTS = {f"kernelkin.{path}": named(path) for path in LISTED}
# The registry of displays, which the tests run over.
REGISTRY = "kernelkin.plots.DISPLAYS"
NEEDS_FILES = pytest.mark.skipif("KERNELKIN_DATA" not in os.environ, reason="KERNELKIN_DATA is not set")


def failures(test: doctest.DocTest) -> str:
    """Run all examples of a test: what those printed that went wrong."""
    report: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    runner.run(test, out=report.append)
    return "".join(report) if runner.failures else ""


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
    assert not failures(found[0])


def test_docstrings_that_are_not_public():
    """Those of the reference have a test each, above."""
    modules = [m.name for m in pkgutil.walk_packages(kernelkin.__path__, "kernelkin.") if "__main__" not in m.name]
    public = {name.split(".")[-1] for name in OBJECTS}
    found = [t for m in modules for t in doctest.DocTestFinder().find(importlib.import_module(m)) if t.examples]
    others = [test for test in found if not public & set(test.name.split("."))]
    assert others
    assert not "".join(map(failures, others))


def test_reference_lists_every_public_object():
    modules = [kernelkin, *(importlib.import_module(f"kernelkin.{name}") for name in PUBLIC)]
    listed = {name.split(".")[-1] for name in OBJECTS}
    missing = {f"{m.__name__}.{name}" for m in modules for name in m.__all__ if name not in listed} - {REGISTRY}
    assert not missing, f"add to docs/api.rst: {missing}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page(page):
    # A fence is no part of what an example prints.
    text = page.read_text().replace("```", "\n")
    assert not failures(doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0))
