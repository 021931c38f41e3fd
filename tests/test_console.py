"""The commands of the guide print what the page shows, with numbers to about two digits."""

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
    """Lines in alphabetical order, because tasks with equal scores may change places, without seconds and spaces."""
    lines = [re.sub(r"(±[\d.]+(?: +-?[\d.]+)+) +[\d.]+$", r"\1", line) for line in text.splitlines()]
    return "\n".join(sorted(" ".join(line.split()) for line in lines))


def numbers(text):
    return [float(number) / (100 if percent else 1) for number, percent in NUMBER.findall(text)]


@pytest.mark.parametrize("path", console.PAGES, ids=lambda path: path.stem)
def test_commands_print_what_the_page_shows(tmp_path, path):
    page = path.read_text()
    shown, found = comparable(page), comparable(console.rerun(page, tmp_path))
    assert NUMBER.sub("#", found) == NUMBER.sub("#", shown), "run python docs/console.py"
    # On another machine, fits end at other weights within the tolerance.
    assert numbers(found) == pytest.approx(numbers(shown), rel=0.05, abs=0.02), "run python docs/console.py"
