"""The page in a real browser. Nothing is installed here: without Chromium these tests are skipped."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from app.report.browser import CHROMIUM, DRIVER, WHY_NOT, Browser
from kernelkin.app.report import write_report
from kernelkin.io import SavedModel

pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason=WHY_NOT)
DESKTOP, PHONE = 1200, 390
COLOURS = """
const canvas = document.querySelector("#kernel-map");
return new Set(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data).size;
"""
# The lowest contrast of any text with what it stands on, by the formula of WCAG.
CONTRAST = """
const parts = text => text.match(/[\\d.]+/g).map(Number);
const power = c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const light = ([r, g, b]) => 0.2126 * power(r / 255) + 0.7152 * power(g / 255) + 0.0722 * power(b / 255);
const under = e => {
  const found = parts(getComputedStyle(e).backgroundColor);
  return found.length === 3 || !e.parentElement ? found : under(e.parentElement);
};
const ink = e => parts(getComputedStyle(e)[e.ownerSVGElement ? "fill" : "color"]);
const hasText = e => [...e.childNodes].some(node => node.nodeType === 3 && node.data.trim());
return Math.min(...[...document.querySelectorAll("main *")].filter(hasText).map(e => {
  const [a, b] = [light(ink(e)), light(under(e))];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}));
"""
# Of the schools of the fixture `related`: the first and the third are one group.
LIKENESS = np.array([[1.0, 0.3, 1.0], [0.3, 1.0, 0.3], [1.0, 0.3, 1.0]])
# Where screenshots go that somebody wants to look at.
SHOTS = os.environ.get("KERNELKIN_SCREENSHOTS")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory, few, related, many, crowd, crowd_relations):
    folder = tmp_path_factory.mktemp("pages")
    crowded = replace(crowd, about={**crowd.about, "relations": crowd_relations.to_dict()})
    for name, saved in {"few": related, "many": many, "crowd": crowded, "bare": SavedModel(few.model)}.items():
        write_report(saved, folder / f"{name}.html")
    return folder


def names(browser):
    return browser.run("return [...document.querySelectorAll('#tasks tr')].map(row => row.dataset.task)")


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
@pytest.mark.parametrize("name", ["few", "many", "bare"])
def test_renders_without_errors_and_fits_the_width(browser, pages, name, width):
    browser.open(pages / f"{name}.html", width)
    assert browser.run("return document.documentElement.dataset.ready") == "yes"
    assert browser.console() == []
    assert browser.run("return document.documentElement.scrollWidth") <= width
    sections = browser.texts("section h2")
    assert "Kernel weights of each task" in sections
    assert "Shared and own parts of each task" in sections
    assert browser.run(COLOURS) > 3
    if SHOTS:
        browser.screenshot(Path(SHOTS) / f"{name}-{width}.png")


def test_sorting_by_any_column_both_ways(browser, pages):
    browser.open(pages / "many.html", DESKTOP)
    natural = [f"school {t + 1}" for t in range(139)]
    assert names(browser) == natural
    browser.click("thead button", 0)
    assert names(browser) == natural
    browser.click("thead button", 0)
    assert names(browser) == natural[::-1]
    headings = browser.texts("thead button")
    browser.click("thead button", headings.index("MK-MTRL"))
    assert names(browser)[:2] == ["school 139", "school 138"]
    browser.click("thead button", headings.index("average kernel"))
    assert names(browser)[:2] == ["school 1", "school 2"]
    assert browser.run("return document.querySelectorAll('th[aria-sort=descending]').length") == 1


def test_tasks_without_a_score_come_last_whichever_way(browser, pages):
    browser.open(pages / "few.html", DESKTOP)
    place = browser.texts("thead button").index("single-task")
    for _ in range(2):
        browser.click("thead button", place)
        assert names(browser)[-1] == "school 1"


def test_search_narrows_the_table_and_the_parts(browser, pages):
    browser.open(pages / "many.html", DESKTOP)
    browser.type("#search", "School 13")
    expected = {"school 13", *(f"school {n}" for n in range(130, 140))}
    assert set(names(browser)) == expected
    assert browser.texts("#count") == ["11 of 139 tasks"]
    shown = "return [...document.querySelectorAll('#parts .row')].filter(r => r.offsetParent).map(r => r.dataset.task)"
    assert set(browser.run(shown)) == expected
    browser.type("#search", "nowhere")
    assert names(browser) == []
    assert browser.console() == []


def test_a_task_shows_its_kernels_and_relatives(browser, pages, few):
    browser.open(pages / "few.html", PHONE)
    assert browser.texts(".detail h3") == []
    browser.click("#tasks tr", 1)
    kernels, group, parts = browser.texts(".detail h3")
    assert kernels == "Kernels of school 2"
    assert group == "Group of school 2"
    assert "Differs from all other tasks." in browser.texts(".detail p")
    assert parts == "Parts of school 2"
    own = few.model.part_shares_[1, 0]
    assert browser.texts(".detail b")[-1] == f"{int(100 * round(own, 3) + 0.5)}%"


@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_very_many_tasks_are_shown_one_at_a_time(browser, pages, crowd, width):
    browser.open(pages / "crowd.html", width)
    assert browser.console() == []
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert "too many tasks to draw all pairs" in browser.texts("#relation-section")[0]
    assert browser.run("return document.querySelector('#relation-map')") is None
    browser.type("#search", "school 401")
    assert names(browser) == ["school 401"]
    browser.click("#tasks tr")
    assert browser.texts(".detail h3")[1] == "Group of school 401"
    assert " more." in browser.texts(".detail p")[0]
    if SHOTS:
        browser.screenshot(Path(SHOTS) / f"crowd-{width}.png")


def test_everything_can_be_done_by_keyboard(browser, pages, few):
    browser.open(pages / "few.html", DESKTOP)
    label = "return document.activeElement.textContent"
    # The page has the keyboard once something on it was clicked, not as soon as it is shown.
    browser.click("#search")
    browser.press("Tab", 1)
    assert browser.run(label).startswith("Task")
    browser.press("Enter", 2)
    assert names(browser) == ["school 3", "school 2", "school 1"]
    headings = len(browser.texts("thead button"))
    browser.press("Tab", headings)
    assert browser.run(label) == "school 3"
    browser.press(" ")
    assert browser.texts(".detail h3")[0] == "Kernels of school 3"
    assert browser.run("return document.activeElement.getAttribute('aria-expanded')") == "true"
    browser.run("document.querySelector('#relation-map').focus()")
    browser.press("ArrowRight")
    place = [few.model.tasks_.tolist().index(name) for name in browser.texts("#tip div")[0].split(" and ")]
    assert place[0] != place[1]
    assert browser.texts("#tip div")[1] == f"likeness {LIKENESS[*place]:.2f}"
    browser.press("Tab")
    assert browser.run("return document.querySelector('#tip').hidden")


@pytest.mark.parametrize("name", ["few", "bare"])
def test_text_stands_out_and_pictures_and_fields_have_names(browser, pages, name):
    browser.open(pages / f"{name}.html", DESKTOP)
    assert browser.run(CONTRAST) >= 4.5
    unnamed = "return [...document.querySelectorAll('canvas, svg, input, select')].filter(e => !e.ariaLabel).length"
    assert browser.run(unnamed) == 0


def test_hovering_over_a_cell_shows_its_value(browser, pages, few):
    browser.open(pages / "few.html", DESKTOP)
    size = browser.run("const c = document.querySelector('#relation-map'); return [c.clientWidth, c.clientHeight]")
    browser.hover("#relation-map", size[0] - 5, 5)
    tip = browser.texts("#tip div")
    pair = tip[0].split(" and ")
    i, j = (few.model.tasks_.tolist().index(name) for name in pair)
    assert i != j
    word, value = tip[1].split()
    # The page has rounded once already.
    assert word == "likeness" and float(value) == pytest.approx(LIKENESS[i, j], abs=0.006)
    browser.hover("#relation-map", -20, 5)
    assert browser.run("return document.querySelector('#tip').hidden")


def test_heatmaps_can_be_put_in_another_order(browser, pages):
    browser.open(pages / "many.html", DESKTOP)
    picture = "return document.querySelector('#kernel-map').toDataURL()"
    before = browser.run(picture)
    browser.run(
        "const s = document.querySelector('#kernels-section select'); s.value = 1; s.dispatchEvent(new Event('change'))"
    )
    assert browser.run(picture) != before
    assert browser.console() == []
