"""The order of the tests; and where those run that are the same for all array libraries and devices."""

from __future__ import annotations

import os

import pytest

from kernelkin.paper.grams.operator import Arrays

# Tests start Python some fifty times: without bytecode each process would compile the package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Files with tests that take a minute: begun last, one of them would run while other processes have nothing left to do.
LONG = ("test_console.py", "test_readme.py")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.name not in LONG)


@pytest.fixture
def device():
    """A device of torch, for the parameter `device` of estimators: a GPU where there is one."""
    torch = pytest.importorskip("torch")
    return "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(params=["numpy", "torch"])
def arrays(request):
    """Where the arrays of solvers are."""
    return Arrays() if request.param == "numpy" else Arrays(request.getfixturevalue("device"))
