"""The console session of the guide prints what the page says, numbers to two digits or so."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NUMBER = re.compile(r"[-+]?\d+\.\d+(?:e[-+]?\d+)?")


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


console = load("console")


def without_seconds(text):
    """What a comparison says of time differs from run to run."""
    return re.sub(r"(±[\d.]+ +\d+) +[\d.]+$", r"\1", text, flags=re.MULTILINE)


def test_commands_print_what_the_page_says(tmp_path):
    page = console.PAGE.read_text()
    said, found = without_seconds(page), without_seconds(console.rerun(page, tmp_path))
    assert NUMBER.sub("#", found) == NUMBER.sub("#", said), "run python docs/console.py"
    numbers = [[float(number) for number in NUMBER.findall(text)] for text in (found, said)]
    # A certificate or a rounded share may differ by more than rounding, where the machine is another.
    assert numbers[0] == pytest.approx(numbers[1], rel=0.05, abs=0.02), "run python docs/console.py"
