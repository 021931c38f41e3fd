"""What can be checked of the documentation without building it: `make docs` checks the rest."""

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [*DOCS.glob("*.md"), *DOCS.glob("guide/*.md"), *DOCS.glob("cases/*.md")]


def exists(page, target):
    """A link to a file, to a page without its ending, or to what the gallery makes of an example."""
    path = (page.parent / target.split("#")[0]).resolve()
    if path.is_relative_to(DOCS / "gallery"):
        name = path.stem.removeprefix("sphx_glr_").rstrip("0123456789").rstrip("_")
        return path.stem == "index" or (ROOT / "examples" / f"{name}.py").exists()
    return path.exists() or path.with_suffix(".md").exists()


def links(page):
    text = page.read_text()
    return [*re.findall(r"\]\(([^)\s]+)\)", text), *re.findall(r"^(?:```{image}|:target:) (\S+)", text, re.MULTILINE)]


def test_links_point_to_existing_files():
    pages = [*PAGES, *DOCS.glob("results/**/README.md"), ROOT / "paper/paper.md"]
    local = [(page, link) for page in pages for link in links(page) if not link.startswith(("http", "#"))]
    assert len(local) > 50
    assert not [f"{page.name}: {link}" for page, link in local if not exists(page, link)]


def test_every_page_is_in_a_table_of_contents():
    listed = set()
    for page in PAGES:
        for block in re.findall(r"```{toctree}\n(.*?)```", page.read_text(), re.DOTALL):
            entries = [line for line in block.splitlines() if line and not line.startswith(":")]
            listed |= {(page.parent / entry).resolve().with_suffix(".md") for entry in entries}
    assert {page.resolve() for page in PAGES} - {DOCS / "index.md"} <= listed


def test_every_object_of_the_reference_is_in_an_example():
    """Then its page lists examples, and the example links to the page: both are made from these names."""
    names = re.findall(r"^   ([A-Za-z_.]+)$", (DOCS / "api.rst").read_text(), flags=re.MULTILINE)
    examples = [path.read_text() for path in ROOT.glob("examples/plot_*.py")]
    assert len(names) > 60
    assert not [name for name in names if not any(re.search(shown(name), text, re.MULTILINE) for text in examples)]


def shown(name):
    """A pattern of a name in code that imports it, or of a link to it in text."""
    *_, last = name.split(".")
    imported, used = rf"^from kernelkin.* import .*\b{last}\b", rf"\bkk\.(\w+\.)?{last}\b"
    return rf"({imported})|({used})|(:(class|func):`~kernelkin\.{re.escape(name)}`)"


def test_the_gallery_orders_all_examples():
    spec = importlib.util.spec_from_file_location("gallery_order", DOCS / "gallery_order.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    examples = {path.stem.removeprefix("plot_") for path in ROOT.glob("examples/plot_*.py")}
    assert set(module.ORDER) == examples
