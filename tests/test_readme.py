import importlib.util
import re
from pathlib import Path

import matplotlib
import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")


@pytest.fixture(scope="module")
def example():
    """The variables of the example, which must have printed what the README says."""
    matplotlib.use("Agg")
    spec = importlib.util.spec_from_file_location("draw", ROOT / "docs/images/draw.py")
    draw = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(draw)
    yield draw.run_readme()
    matplotlib.pyplot.close("all")


def test_the_picture_shows_the_three_groups(example):
    groups = example["data"].groups[example["picture"].order_]
    assert np.count_nonzero(np.diff(groups)) == 2
    R, same = example["picture"].correlation, np.equal.outer(*[example["data"].groups] * 2)
    assert R[same].min() > R[~same].max()


@pytest.mark.parametrize("page", PAGES)
def test_links_to_files_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)]+)\)", (ROOT / page).read_text())
    files = [target for target in targets if not target.startswith(("http", "#"))]
    assert all((ROOT / target).exists() for target in files), files


def test_pictures_are_small():
    assert all(picture.stat().st_size < 100_000 for picture in ROOT.glob("docs/images/*.png"))


def test_the_make_targets_it_names_exist():
    text = "\n".join((ROOT / page).read_text() for page in PAGES)
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", text, flags=re.MULTILINE))
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert {"demo", "test"} <= named <= targets
