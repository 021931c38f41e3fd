"""Docstrings of the reference document exactly the parameters of the signatures."""

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def own_methods(name: str) -> Iterator[str]:
    """The methods of a class that its page shows, without those that scikit-learn documents."""
    members = dict(inspect.getmembers(find(name), inspect.isroutine)) if inspect.isclass(find(name)) else {}
    for method in SHOWN:
        function = getattr(members.get(method), "__func__", members.get(method))
        if function is not None and function.__module__.startswith("kernelkin"):
            yield f"{name}.{method}"


def test_parameters_are_documented():
    """Of what the reference lists, and of its methods."""
    parts = [part for path in LISTED for part in (f"kernelkin.{path}", *own_methods(f"kernelkin.{path}"))]
    assert len(parts) > len(LISTED) > 0
    errors = {part: [text for code, text in validate(part)["errors"] if code in CODES] for part in parts}
    assert not {part: texts for part, texts in errors.items() if texts}
