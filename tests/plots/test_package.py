import subprocess
import sys

import pytest

from kernelkin.plots import DISPLAYS


@pytest.mark.parametrize("display", DISPLAYS.values(), ids=DISPLAYS)
def test_every_display_follows_the_convention(display):
    assert display.__name__.endswith("Display")
    assert callable(display.from_estimator)
    assert "ax" in display.plot.__annotations__


def test_matplotlib_is_imported_only_when_something_is_drawn():
    code = "import sys, kernelkin.plots; print(*sys.modules)"
    imported = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert "kernelkin.plots" in imported and "matplotlib" not in imported


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"install kernelkin\[plot\]"):
        DISPLAYS["convergence"]([1.0], [1.0], [0.1]).plot()
