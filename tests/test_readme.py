import importlib.util
import math
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")


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


def test_the_example_prints_what_it_says(readme):
    example = readme.Example((ROOT / "README.md").read_text())
    assert example.failures == 0, "run python -m docs.readme"


@pytest.mark.parametrize("page, words", [("README.md", 900), ("paper/paper.md", 1500)])
def test_it_is_short(page, words):
    assert len((ROOT / page).read_text().split()) <= words


def test_the_tables_of_the_paper_are_those_of_the_stored_results(readme):
    text = (ROOT / "paper/paper.md").read_text()
    assert readme.real_data() in text and readme.demo_sentence("../docs/demo.md") in text, "run python -m docs.readme"


def test_losses_relative_to_kin_are_those_of_the_comparison(readme):
    losses = readme.losses("grouped")
    assert len(losses) == 14
    assert losses["radon"]["mixed model"] == 0.844
    first, second, *_ = readme.real_data().splitlines()[2:]
    assert first.split("|")[2].strip() == "1.00"
    ratios = [row["mixed model"] / row["Kin"] for row in losses.values()]
    assert f"{math.exp(sum(map(math.log, ratios)) / 14):.2f}" == second.split("|")[2].strip()


def test_the_table_of_the_demo_is_that_of_its_page(readme):
    assert readme.demo_table() in (ROOT / "docs/demo.md").read_text(), "run python -m docs.readme"


@pytest.mark.parametrize("page", PAGES)
def test_links_point_to_existing_files(page):
    targets = re.findall(r"\]\(([^)]+)\)", (ROOT / page).read_text())
    files = [target for target in targets if not target.startswith(("http", "#"))]
    assert all((ROOT / target.split("#")[0]).exists() for target in files), files


def test_contributing_names_what_the_code_has():
    """Names with an underscore or a capital inside, and files."""
    folders = ("src", "tests", "docs", "benchmarks", "experiments", "examples")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    others = (ROOT / name for name in ("pyproject.toml", "Makefile", "requirements-min.txt"))
    known = set(re.findall(r"\w+", " ".join(path.read_text() for path in [*files, *others])))
    spans = re.findall(r"`([^`\n]+)`", (ROOT / "CONTRIBUTING.md").read_text())
    pattern = r"\b(\w*[a-z]_\w+|_[a-z]\w+|[A-Z][a-z]+[A-Z]\w+)\b"
    named = {name for span in spans if "/" not in span for name in re.findall(pattern, span)}
    assert len(named) > 50
    assert not sorted(named - known)
    paths = {path for span in spans for path in re.findall(r"^[\w/]+\.py$", span)}
    assert len(paths) > 20
    assert not [path for path in paths if not any(str(file).endswith(f"/{path}") for file in files)]


def test_pictures_are_small():
    assert all(picture.stat().st_size < 100_000 for picture in ROOT.glob("docs/images/*.png"))


def test_the_make_targets_it_names_exist():
    text = "\n".join((ROOT / page).read_text() for page in PAGES)
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", text, flags=re.MULTILINE))
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert {"demo", "test"} <= named <= targets
