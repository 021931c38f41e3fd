import sys

import pytest

from kernelkin import plots


@pytest.mark.parametrize("name", plots.__all__)
def test_every_display_follows_the_convention(name):
    display = getattr(plots, name)
    assert display.__name__.endswith("Display")
    assert callable(display.from_estimator)
    assert "ax" in display.plot.__annotations__


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"install kernelkin\[plot\]"):
        plots.ConvergenceDisplay([1.0], [1.0], [0.1]).plot()
