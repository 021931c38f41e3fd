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


def _torch(device):
    """torch, where it is installed and has the device."""
    torch = pytest.importorskip("torch")
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return torch


@pytest.fixture(params=["cpu", "cuda"])
def device(request):
    """A device of torch, for the parameter `device` of estimators."""
    _torch(request.param)
    return request.param


@pytest.fixture(params=["numpy", "torch", "torch-cuda"])
def arrays(request):
    """Where the arrays of solvers are."""
    if request.param == "numpy":
        return Arrays()
    device = "cuda" if request.param.endswith("cuda") else "cpu"
    _torch(device)
    return Arrays(device)
