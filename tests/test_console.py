"""The console session of the guide prints what the page says, numbers to two digits or so."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Decimal numbers and percentages; whole numbers, such as those of rows, must be the same.
NUMBER = re.compile(r"([-+]?\d+\.\d+(?:e[-+]?\d+)?|\d+(?=%))(%?)")


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


console = load("console")


def comparable(text):
    """Its lines in alphabetical order, for tasks with equal scores may change places, without seconds and spaces."""
    lines = [re.sub(r"(±[\d.]+ +\d+) +[\d.]+$", r"\1", line) for line in text.splitlines()]
    return "\n".join(sorted(" ".join(line.split()) for line in lines))


def numbers(text):
    return [float(number) / (100 if percent else 1) for number, percent in NUMBER.findall(text)]


def test_commands_print_what_the_page_says(tmp_path):
    page = console.PAGE.read_text()
    said, found = comparable(page), comparable(console.rerun(page, tmp_path))
    assert NUMBER.sub("#", found) == NUMBER.sub("#", said), "run python docs/console.py"
    # Fits end within a tolerance, not at the same weights, where the machine is another.
    assert numbers(found) == pytest.approx(numbers(said), rel=0.05, abs=0.02), "run python docs/console.py"
