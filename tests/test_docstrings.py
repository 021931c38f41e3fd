"""Docstrings of the reference document exactly the parameters of the signatures."""

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from numpydoc.validate import validate

DOCS = Path(__file__).parents[1] / "docs"
LISTED = re.findall(r"^   ([A-Za-z_.]+)$", (DOCS / "api.rst").read_text(), flags=re.MULTILINE)
# The methods that the page of a class shows.
TEMPLATE = (DOCS / "_templates" / "autosummary" / "class.rst").read_text()
SHOWN = re.findall(r'"(\w+)"', TEMPLATE.split("set ours = ")[1].split("%}")[0])
# No docstring; parameters that are missing, unknown, in another order. A type says it all where it is "as for `fit`".
CODES = {"GL08", "PR01", "PR02", "PR03"}


def find(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def documented() -> Iterator[str]:
    """Everything that the reference lists, and its methods; a method that classes inherit appears once."""
    seen = set()
    for name in (f"kernelkin.{path}" for path in LISTED):
        yield name
        members = dict(inspect.getmembers(find(name), inspect.isroutine)) if inspect.isclass(find(name)) else {}
        for method in SHOWN:
            function = getattr(members.get(method), "__func__", members.get(method))
            if function is None or not function.__module__.startswith("kernelkin"):
                continue
            # What scikit-learn makes available under a condition is wrapped anew for every class.
            if inspect.unwrap(function) not in seen:
                seen.add(inspect.unwrap(function))
                yield f"{name}.{method}"


@pytest.mark.parametrize("name", list(documented()))
def test_parameters_are_documented(name):
    assert not [text for code, text in validate(name)["errors"] if code in CODES]
