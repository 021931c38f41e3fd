"""The examples in docstrings and in the documentation run, and print what is written there."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest

import kernelkin

ROOT = Path(__file__).parents[1]
FOLDERS = ("docs", "docs/guide")
PAGES = [page for folder in FOLDERS for page in sorted(ROOT.glob(f"{folder}/*.md")) if ">>>" in page.read_text()]
# The modules a user imports from.
PUBLIC = ("datasets", "exceptions", "paper", "plots")


def named(path: str) -> Any:
    """The object at `kernelkin.plots.TaskScoresDisplay` or `kernelkin.all_models`."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


# Section of the reference -> what it lists.
TITLES_AND_TEXTS = re.split(r"^(.+)\n-+$", (ROOT / "docs" / "api.rst").read_text(), flags=re.MULTILINE)[1:]
SECTIONS = {
    title: [f"kernelkin.{path}" for path in re.findall(r"^   ([A-Za-z_.]+)$", text, flags=re.MULTILINE)]
    for title, text in zip(TITLES_AND_TEXTS[::2], TITLES_AND_TEXTS[1::2], strict=True)
}
OBJECTS = {name: named(name) for names in SECTIONS.values() for name in names}


def failures(test: doctest.DocTest) -> str:
    """Run all examples of a test: what those printed that went wrong."""
    report: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    runner.run(test, out=report.append)
    return "".join(report) if runner.failures else ""


@pytest.fixture(autouse=True)
def _no_figures_left(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def failures_of_docstring(name: str) -> str:
    found = doctest.DocTestFinder(recurse=False).find(OBJECTS[name], name, globs={})
    if found and found[0].examples:
        return failures(found[0])
    if isinstance(OBJECTS[name], type) and issubclass(OBJECTS[name], Exception):
        return ""
    # A regressor may leave the example to its classifier, and what others use or return to theirs.
    twin, last = name.replace("Regressor", "Classifier"), re.compile(rf"\b{name.rpartition('.')[2]}\b")
    others = (other.__doc__ or "" for path, other in OBJECTS.items() if path != name)
    is_shown = (twin != name and twin in OBJECTS) or any(">>>" in text and last.search(text) for text in others)
    return "" if is_shown else f"{name} has no example"


@pytest.mark.parametrize("section", SECTIONS)
def test_docstrings_of_a_section_of_the_reference(section):
    """What is printed names the object and the line."""
    assert SECTIONS[section]
    assert not "".join(failures_of_docstring(name) for name in SECTIONS[section])


def test_docstrings_that_are_not_public():
    """Those of the reference are tested above."""
    modules = [m.name for m in pkgutil.walk_packages(kernelkin.__path__, "kernelkin.") if "__main__" not in m.name]
    public = {name.split(".")[-1] for name in OBJECTS}
    found = [t for m in modules for t in doctest.DocTestFinder().find(importlib.import_module(m)) if t.examples]
    others = [test for test in found if not public & set(test.name.split("."))]
    assert others
    assert not "".join(map(failures, others))


def test_reference_lists_every_public_object():
    modules = [kernelkin, *(importlib.import_module(f"kernelkin.{name}") for name in PUBLIC)]
    listed = {name.split(".")[-1] for name in OBJECTS}
    missing = {f"{m.__name__}.{name}" for m in modules for name in m.__all__ if name not in listed}
    assert not missing, f"add to docs/api.rst: {missing}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_of_a_page(page):
    # A fence is no part of what an example prints.
    text = page.read_text().replace("```", "\n")
    assert not failures(doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0))
