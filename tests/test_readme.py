import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")


@pytest.fixture(scope="module")
def readme():
    """The script that writes the README's tables."""
    spec = importlib.util.spec_from_file_location("readme", ROOT / "docs/readme.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_are_those_of_the_stored_results_whatever_is_changed_by_hand(readme):
    text = (ROOT / "README.md").read_text()
    row = next(line for line in text.splitlines() if line.startswith("| [Exam"))
    changed = text.replace(row, row.replace("0.", "1."))
    assert changed != text
    assert readme.fill(changed) == text, "run python -m docs.readme"


def test_speed_takes_every_contender_of_the_measurements(readme):
    rows = readme.speed().splitlines()[2:]
    assert sum("himalaya" in row for row in rows) >= 1
    assert sum("naive" in row for row in rows) >= 2


def test_the_example_prints_what_it_says(readme):
    example = readme.Example((ROOT / "README.md").read_text())
    assert example.failures == 0, "run python -m docs.readme"


def test_the_best_model_of_each_column_of_the_comparison_is_bold(readme):
    header, _, *rows = readme.comparison().splitlines()
    for column in range(2, header.count("|")):
        cells = [row.split("|")[column].strip() for row in rows]
        values = [float(cell.strip("*")) for cell in cells]
        assert max(values) == values[next(i for i, cell in enumerate(cells) if cell.startswith("**"))]


@pytest.mark.parametrize("page", PAGES)
def test_links_point_to_existing_files(page):
    targets = re.findall(r"\]\(([^)]+)\)", (ROOT / page).read_text())
    files = [target for target in targets if not target.startswith(("http", "#"))]
    assert all((ROOT / target.split("#")[0]).exists() for target in files), files


def test_pictures_are_small():
    assert all(picture.stat().st_size < 100_000 for picture in ROOT.glob("docs/images/*.png"))


def test_the_make_targets_it_names_exist():
    text = "\n".join((ROOT / page).read_text() for page in PAGES)
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", text, flags=re.MULTILINE))
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert {"demo", "test"} <= named <= targets
