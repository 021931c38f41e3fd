"""The page in a real browser. Nothing is installed here: without Chromium these tests are skipped."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import kernelkin
from kernelkin import KinClassifier
from kernelkin.relations.baselines import BOOSTING, SEPARATE
from kernelkin.report import report_of_files
from kernelkin.tables.schema import TableSchema
from report.browser import CHROMIUM, DRIVER, WHY_NOT, Browser
from report.conftest import HOSTILE, made_relations, make_table

pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason=WHY_NOT)
PHONE, DESKTOP, WALL = 360, 1280, 2560
PAGE = Path(kernelkin.__file__).parent / "report" / "page"
# How light a colour is, by the formula of WCAG.
LIGHT = """
const parts = text => text.match(/[\\d.]+/g).map(Number);
const power = c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
const light = ([r, g, b]) => 0.2126 * power(r / 255) + 0.7152 * power(g / 255) + 0.0722 * power(b / 255);
"""
# The lowest contrast of any text with what it stands on.
CONTRAST = """
const under = e => {
  const found = parts(getComputedStyle(e).backgroundColor);
  return found.length === 3 || !e.parentElement ? found : under(e.parentElement);
};
const ink = e => parts(getComputedStyle(e)[e.ownerSVGElement ? "fill" : "color"]);
const hasText = e => [...e.childNodes].some(node => node.nodeType === 3 && node.data.trim());
// Text inside coloured cells chooses its own colour.
const shown = [...document.querySelectorAll("body *")].filter(e =>
  hasText(e) && e.getClientRects().length && !e.disabled && !e.closest("script, style, .mark-text"));
return Math.min(...shown.map(e => {
  const [a, b] = [light(ink(e)), light(under(e))];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}));
"""
# What is wider than the page, or than the picture that it is part of.
CUT_OFF = """
const wide = [...document.querySelectorAll("main *")].filter(e => !e.closest(".scroll, .hidden, option, svg *")
  && e.getBoundingClientRect().right > document.documentElement.clientWidth + 1).map(e => e.outerHTML.slice(0, 60));
const cut = [...document.querySelectorAll(".chart")].filter(e => e.scrollWidth > e.clientWidth + 1);
return [...wide, ...cut.map(e => e.parentElement.id)];
"""
# Texts of pictures that are on each other, outside of their picture, shortened, or hard to tell from their cell. A halo
# is the same text in the same place.
TANGLED = """
const box = e => e.getBoundingClientRect(), of = e => `${e.closest("figure").querySelector("h3").textContent}: `;
const texts = [...document.querySelectorAll(".chart svg text")].filter(e =>
  e.textContent.trim() && box(e).width > 1 && +getComputedStyle(e).opacity);
const found = texts.filter(e => {
  const [a, b] = [box(e), box(e.closest("svg"))];
  return a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 2 || a.bottom > b.bottom + 2
    || e.textContent.endsWith("…");
}).map(e => of(e) + e.textContent + " is cut");
for (const [i, e] of texts.entries()) for (const other of texts.slice(i + 1)) {
  const [a, b] = [box(e), box(other)];
  const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
  const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
  if (across > 1 && down > 3 && !(e.textContent === other.textContent && Math.abs(a.x - b.x) < 1))
    found.push(`${of(e)}${e.textContent} is on ${other.textContent}`);
}
for (const e of document.querySelectorAll(".chart .mark-text text")) {
  const {x, y, width, height} = box(e), [h, v] = [x + width / 2, y + height / 2];
  const cell = [...e.closest("svg").querySelectorAll(".mark-rect path")].find(one => {
    const b = box(one);
    return b.left < h && h < b.right && b.top < v && v < b.bottom;
  });
  if (!cell) continue;
  const [a, b] = [e, cell].map(one => light(parts(getComputedStyle(one).fill)));
  if ((Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5) found.push(`${of(e)}${e.textContent} is hard to read`);
}
return found;
"""
UNNAMED = """
return [...document.querySelectorAll("button, input, select, svg, output, nav, section, iframe")].filter(e =>
  e.getClientRects().length && !e.ariaLabel && !e.textContent.trim() && !e.labels?.length
  && !e.getAttribute("aria-labelledby")).map(e => e.outerHTML.slice(0, 80));
"""
# Files that would be downloaded, by name.
CATCH = """
window.saved = {};
HTMLAnchorElement.prototype.click = function () { window.saved[this.download] = decodeURIComponent(this.href); };
"""
CLASSES = np.array(["below what is expected", "as expected of this age", "well above the level of the class"])
# Where screenshots go that somebody wants to look at.
SHOTS = os.environ.get("KERNELKIN_SCREENSHOTS")


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory, few, related, nineteen, many, searched, forty):
    folder = tmp_path_factory.mktemp("pages")
    clusters = made_relations(np.arange(19) % 3, nineteen.model.tasks_)
    nineteen = replace(nineteen, about={**nineteen.about, "relations": clusters})
    made = {"few": [related], "nineteen": [nineteen], "forty": [forty], "many": [many], "searched": [searched]}
    made["two"] = [few, searched]
    for name, models in made.items():
        report_of_files(models, names=[f"{i}.kin" for i in range(len(models))]).save(folder / f"{name}.html")
    report_of_files([searched], test=other_schools()).save(folder / "new.html")
    table = make_table(5, 14)
    levels = np.digitize(table.pop("mark") + 2 * table.pop("passed").eq("yes"), [46, 54])
    table["subsidy"] = np.arange(len(table)) % 2
    table["kind"] = np.array(["public", "private", "church", "other"])[np.arange(len(table)) % 4]
    model = KinClassifier(cv=2, random_state=0).fit(table.drop(columns="school"), CLASSES[levels], table["school"])
    model.report(folder / "three.html")
    species = np.array([f"species number {k}" for k in range(10)])[np.arange(70) % 10]
    KinClassifier(cv=2, random_state=0).fit(table[["age (years)"]], species, table["school"]).report(
        folder / "ten.html"
    )
    return folder


def other_schools():
    """Five schools, none of which is in the table of a fit."""
    return make_table(5, 7).assign(school=lambda frame: frame.school.str.replace("school", "other"))


def show(browser, path, width=DESKTOP, theme="light"):
    """Open a page and wait until its pictures are drawn."""
    browser.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
    browser.open(path, width)
    assert browser.wait("return document.documentElement.dataset.ready") == "yes"


# Each page at two widths and in both themes; each width with two pages and in both themes.
SHOWN = [
    ("few", PHONE, "light"),
    ("few", DESKTOP, "dark"),
    ("nineteen", DESKTOP, "light"),
    ("nineteen", WALL, "dark"),
    ("many", WALL, "light"),
    ("many", PHONE, "dark"),
    ("three", PHONE, "light"),
    ("three", DESKTOP, "dark"),
    ("ten", PHONE, "dark"),
    ("ten", DESKTOP, "light"),
]


def assert_readable(browser, width):
    """Nothing is cut off, all text stands out, everything has a name and every picture is drawn."""
    assert browser.console() == []
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.run(CUT_OFF) == []
    assert browser.run(LIGHT + CONTRAST) >= 4.5
    assert browser.run(LIGHT + TANGLED) == []
    assert browser.run(UNNAMED) == []
    assert browser.run("return document.querySelectorAll('.chart:empty').length") == 0


@pytest.mark.parametrize(("name", "width", "theme"), [*SHOWN, ("two", PHONE, "dark")])
def test_fits_the_width_and_can_be_read_in_both_themes(browser, pages, name, width, theme):
    show(browser, pages / f"{name}.html", width, theme)
    if SHOTS:
        browser.screenshot(Path(SHOTS) / f"{name}-{width}-{theme}.png")
    assert_readable(browser, width)


def test_the_first_screen_has_the_answer_and_names_stay_text(browser, pages):
    show(browser, pages / "few.html")
    (verdict,) = browser.texts(".verdict")
    assert verdict == "Not clearly better than gradient boosting"
    models = browser.texts("#answer .role-axis-label text")
    # Long names are in several lines, as many as the font needs.
    assert [name.replace(" ", "") for name in models[-3:]] == [
        "MK-MTRL",
        *(n.replace(" ", "") for n in (BOOSTING, SEPARATE)),
    ]
    assert browser.texts(".figures dt")[:3] == ["RMSE", "R²", "Gain over gradient boosting"]
    assert browser.texts(".figures dd")[2].startswith("+0.010")
    ends = browser.run(
        "return [...document.querySelectorAll('#answer > *')].map(e => e.getBoundingClientRect().bottom)"
    )
    assert max(ends) < 900

    assert browser.run("return document.querySelectorAll('img').length") == 0
    assert browser.run("return document.title") == "mark by school"
    assert HOSTILE in browser.texts("#tasks tbody th")


def test_a_mixed_model_shows_shares_of_variance(browser, pages):
    show(browser, pages / "searched.html", PHONE)
    assert_readable(browser, PHONE)
    assert any("of the variation is between the levels of groups" in text for text in browser.texts("#groups h3"))
    # The name of a slider is above it.
    heights = (
        "const [name, slider] = [...e.children].map(c => c.getBoundingClientRect()); return slider.top - name.bottom"
    )
    gaps = f"return [...document.querySelectorAll('.what-if label')].map(e => {{ {heights} }})"
    assert min(browser.run(gaps)) >= 0
    # A slider moves the prediction to that of the next value.
    predicted = "return document.querySelector('.what-if output').textContent"
    before = browser.run(predicted)
    browser.run("document.querySelector('.what-if input').focus()")
    browser.press("ArrowRight")
    assert "90% interval" in before and browser.run(predicted) != before
    assert any("compared by the mean loss of held-out rows" in text for text in browser.texts("#fit p"))


def test_three_classes_have_curves_and_probabilities_of_each(browser, pages):
    show(browser, pages / "three.html")
    effects = "[...document.querySelectorAll('#drivers figure')].find(f => f.innerText.includes('Effect of each'))"
    legend = browser.run(f"return [...{effects}.querySelectorAll('.role-legend-label text')].map(e => e.textContent)")
    assert sorted(legend) == sorted(CLASSES)
    colours = f"new Set([...{effects}.querySelectorAll('.mark-line path')].map(e => getComputedStyle(e).stroke)).size"
    assert browser.run(f"return {colours}") == 3
    # Without a comparison, the scores of few groups are bars with their names.
    names = browser.texts("#answer .role-axis-label text")
    assert [name for name in names if name.startswith("school")] and browser.texts("#answer .mark-rect path")
    shown = browser.texts(".what-if output div")
    assert [text.partition("% ")[2] for text in shown] == sorted(CLASSES)
    assert sum(float(text.partition("%")[0]) for text in shown) == pytest.approx(100, abs=0.2)
    browser.run("document.querySelector('.what-if input').focus()")
    browser.press("ArrowRight")
    assert browser.texts(".what-if output div") != shown


def test_marks_of_classes_are_in_their_bands_above_their_name(browser, pages):
    show(browser, pages / "three.html")
    # Left and right end of each band and mark, with its colour, and of the picture of the column.
    found = browser.run("""
const ends = e => { const b = e.getBoundingClientRect(); return [b.left, b.right, e.getAttribute("fill")]; };
return [...document.querySelectorAll("#drivers [class*=concat_][class*=_group]")].map(g => [
  ends(g.querySelector("path.background")), [...g.querySelectorAll(".mark-rect path")].map(ends),
  [...g.querySelectorAll(".mark-symbol path")].map(ends),
  [...g.querySelectorAll(".role-axis-label text")].map(e => e.textContent)]).filter(([_, bands]) => bands.length);
""")
    # Texts of two and of four values, a truth value, and a number that is zero or one: no line is drawn through it.
    assert sorted(len(bands) // 3 for _, bands, _, _ in found) == [2, 2, 2, 4]
    assert any(names[:2] == ["0", "1"] for *_, names in found)
    for (left, right, _), bands, marks, _ in found:
        slot = (right - left) / (len(bands) // 3)
        assert len(marks) == len(bands)
        for k, (band, mark) in enumerate(zip(bands, marks, strict=True)):
            # Classes in turn, each with all names.
            start = left + slot * (k % (len(bands) // 3))
            assert band[2] == mark[2] and band[0] < (mark[0] + mark[1]) / 2 < band[1]
            assert start <= band[0] and band[1] <= start + slot + 1


def test_titles_of_effects_are_at_their_pictures(browser, pages):
    show(browser, pages / "few.html", WALL)
    panels = "[...document.querySelectorAll('#drivers [class*=concat_][class*=_group]')]"
    gap = "g.querySelector('path.background').getBoundingClientRect().top - title.getBoundingClientRect().bottom"
    gaps = browser.run(
        f"return {panels}.map(g => {{ const title = g.querySelector('.role-title text'); return {gap} }})"
    )
    # Numbers, texts, truth values and dates alike.
    assert len(gaps) == 4 and gaps == pytest.approx([gaps[0]] * 4, abs=1) and 0 < gaps[0] < 9


def test_right_and_wrong_cells_of_groups_differ_in_colour(browser, pages):
    show(browser, pages / "three.html")
    cells = "[...document.querySelectorAll('#tasks .mark-rect path')]"
    # Each cell says its classes to screen readers.
    found = browser.run(f"return {cells}.map(e => [e.getAttribute('aria-label'), e.getAttribute('fill')])")
    fills = {True: set(), False: set()}
    for label, fill in found:
        named = dict(part.split(": ", 1) for part in label.split("; "))
        fills[named["actual"] == named["predicted"]].add(fill)
    assert len(fills[True]) == len(fills[False]) == 1 and fills[True] != fills[False]


def test_groups_without_scores_have_no_pictures(browser, pages, forty):
    few = make_table(40, 2, seed=3)
    report_of_files([forty], test=few).save(pages / "unscored.html")
    show(browser, pages / "unscored.html")
    assert browser.run("return document.querySelectorAll('#tasks figure, #tasks select').length") == 0
    assert "No group has 5 test rows, the fewest for a score of its own." in browser.texts("#tasks p")
    assert browser.texts("#tasks thead th") == ["group", "level"]
    assert_readable(browser, DESKTOP)


def test_groups_that_were_not_in_the_fit_have_their_own_scores(browser, pages):
    show(browser, pages / "new.html")
    # The comparison was on other rows than the scores, and says so.
    assert browser.texts(".figures dd")[2].endswith("5 folds inside groups")
    assert sorted(browser.texts("#tasks tbody th")) == [f"other {n}" for n in range(1, 6)]
    # Levels are those of the groups of the fit.
    assert browser.texts("#tasks thead th") == ["group", "RMSE", "mean absolute error"]
    titles = browser.texts("#tasks figure text")
    assert all(any(f"other {n}" in text for text in titles) for n in range(1, 6))
    assert not any("school" in text for text in titles)
    assert browser.console() == []


def test_hundreds_of_tasks_are_paged_and_searched(browser, pages):
    show(browser, pages / "many.html")
    # School 2 is before school 10, in the table and among the groups of the sliders.
    assert browser.texts("#tasks tbody th") == [f"school {n}" for n in range(1, 26)]
    assert browser.texts("dl.facts dd")[3].startswith("school 1, school 2, school 3,")
    offered = [int(name.removeprefix("school ")) for name in browser.texts(".what-if option") if name[0] == "s"]
    assert offered == sorted(offered) and len(offered) == 60
    assert "1 to 12 of 400 groups" in browser.texts("#tasks [role=status]")[0]
    browser.type(".task-search", "School 39")
    assert "1 to 11 of 11 groups that match (of 400)" in browser.texts("#tasks [role=status]")[0]
    assert sorted(browser.texts("#tasks tbody th")) == ["school 39", *(f"school {n}" for n in range(390, 400))]
    titles = browser.wait(
        "const t = [...document.querySelectorAll('#tasks .role-row-header text, #tasks .role-column-header text,"
        " #tasks text')].map(e => e.textContent).filter(s => s.startsWith('school'));"
        "return t.length && t.every(s => s.startsWith('school 39')) ? t : null"
    )
    assert "school 390" in titles[0] or len(titles) >= 11
    browser.type(".task-search", "nowhere")
    assert browser.texts("#tasks [role=status]")[0] == "No group has this name."
    assert browser.console() == []


def test_levels_of_many_groups_are_found_by_name(browser, pages):
    show(browser, pages / "forty.html")
    search, status, names = "#groups input", "#groups [role=status]", "#groups .role-axis-label text"
    shown = [text for text in browser.texts(names) if text.startswith(("school", "…"))]
    # A row says how many groups are left out in between.
    assert len(shown) == 31 and shown[15] == "… 10 more"
    browser.type(search, "nowhere")
    assert browser.texts(status) == ["No group has this name."]
    assert browser.run("return document.querySelectorAll('#groups .chart:not([hidden])').length") == 1
    browser.type(search, "school")
    assert browser.texts(status) == ["The first 30 of 40 groups that match."]
    browser.type(search, "school 1")
    assert browser.texts(status) == [""]
    browser.wait(
        f"return [...document.querySelectorAll('{names}')].filter(e => e.textContent[0] === 's').length === 11"
    )
    assert browser.console() == []


def test_likeness_of_two_clusters_is_said_once(browser, pages):
    show(browser, pages / "few.html")
    assert "Likeness between clusters: 0.30." in browser.texts("#relations p")[0]
    assert browser.run("return document.querySelectorAll('#relations figure').length") == 0
    show(browser, pages / "nineteen.html")
    assert "Likeness" not in browser.texts("#relations p")[0]
    assert browser.run("return document.querySelectorAll('#relations figure').length") == 1
    # School 3 is before school 12.
    assert browser.texts("#relations td.left")[0].startswith("school 1; school 3; school 6; school 9; school 12;")


def test_columns_and_how_they_were_read_fit_a_phone(browser, pages, searched):
    frame = make_table(3, 14).rename(columns={"age (years)": "age_at_the_last_examination_in_years"})
    schema = TableSchema.fit(frame.drop(columns="passed"), "school", "mark", regression=True)
    report_of_files([replace(searched, schema=schema)]).save(pages / "columns.html")
    show(browser, pages / "columns.html", PHONE)
    inner = "const e = document.querySelector('#about .scroll'); return [e.scrollWidth, e.clientWidth]"
    assert browser.run(inner)[0] <= browser.run(inner)[1]
    assert "age_at_the_last_examination_in_years" in browser.texts("#about tbody th")


def test_numbers_and_names_are_written_for_readers(browser, pages):
    show(browser, pages / "few.html")
    source = "".join((PAGE / name).read_text() for name in ("dom.js", "charts.js", "drivers.js"))
    asked = "return [[-197, 291], [-2.3, 2.6], [0.011, 0.012], [4, 4]].map(roundNumbers)"
    expected = [[-100, 0, 100, 200], [-2, -1, 0, 1, 2], [0.011, 0.0112, 0.0114, 0.0116, 0.0118, 0.012], [4]]
    assert browser.run(source + asked) == [pytest.approx(each) for each in expected]
    # A year has no separator of thousands, and the last digits of a score are shown even if they are zeros.
    asked = "return [[1960, 2011], [500, 30000]].map((values) => isShort({ kind: 'number', values }))"
    assert browser.run(source + asked) == [True, False]
    assert browser.run(source + "return [51.96, 45.3, 12345.6].map(scoreText('RMSE'))") == ["51.96", "45.30", "12,346"]
    # Models whose errors are small differ, too.
    asked = "return [0.0068571, 0.0074162].map(scoreText('RMSE'))"
    assert browser.run(source + asked) == ["0.006857", "0.007416"]
    # What rounds to zero has no sign.
    asked = "return [score(-0.0001), signed(-0.0001), signed(0.0001), signed(0.02), minus('of -0.000 to +0.021')]"
    expected = ["0.000", "0.000", "0.000", "+0.020", "of 0.000 to +0.021"]
    assert browser.run(source + asked) == expected
    # Names are broken by the width that they have on the page, and no character is lost.
    name = "Hospital WWWWWWWWWWWWWWWWWWWW of iiiiiiiiiiiiiiiiiiii"
    lines = browser.run(source + "return wrap(arguments[0], 120).split('\\n')", name)
    assert "".join(lines).replace(" ", "") == name.replace(" ", "") and lines[-1].endswith("iiiiiiiiiiiiiiiiiiii")
    assert max(browser.run(source + "return arguments[0].map((line) => textWidth(line))", lines)) <= 120


def test_sorting_by_keyboard_puts_missing_scores_last(browser, pages):
    show(browser, pages / "nineteen.html")
    browser.run("document.querySelector('#tasks thead button').focus()")
    browser.press("Enter")
    natural = [f"school {t + 1}" for t in range(19)]
    assert browser.texts("#tasks tbody th") == natural
    browser.press(" ")
    assert browser.texts("#tasks tbody th") == natural[::-1]
    assert browser.run("return document.activeElement.closest('th').ariaSort") == "descending"


def test_tables_and_pictures_can_be_downloaded(browser, pages, few):
    show(browser, pages / "few.html")
    browser.run(CATCH)
    for label in ("Download Predicted and actual as SVG", "Download Predicted and actual as PNG"):
        browser.run(f"document.querySelector('[aria-label=\"{label}\"]').click()")
    browser.run("document.querySelector('[aria-label=\"Download the table All groups as CSV\"]').click()")
    saved = browser.wait("return Object.keys(window.saved).length === 3 ? window.saved : null")
    assert saved["predicted-and-actual.svg"].startswith("data:image/svg+xml;charset=utf-8,<svg")
    assert saved["predicted-and-actual.png"].startswith("data:image/png;base64,")
    lines = saved["groups.csv"].partition(",")[2].split("\r\n")
    # All groups have as many rows, so there is no column of them.
    assert lines[0].startswith("group,RMSE,mean absolute error") and len(lines) == 5
    assert lines[1].startswith('"</script><img src=x onerror=""document')
    scores = few.about["evaluations"][0]["task_score"]
    assert [float(line.split(",")[1]) for line in lines[2:4]] == scores[1:]


def test_the_theme_can_be_switched_and_printed(browser, pages):
    show(browser, pages / "few.html", theme="light")
    ground = "return getComputedStyle(document.body).backgroundColor"
    light = browser.run(ground)
    browser.click("#theme")
    assert browser.run(ground) != light and browser.texts("#theme") == ["Light theme"]
    browser.devtools("Emulation.setEmulatedMedia", media="print")
    assert browser.run(ground) == "rgb(255, 255, 255)"
    hidden = "return ['#sections', '.tools', '.downloads'].map(s => document.querySelector(s).getClientRects().length)"
    assert browser.run(hidden) == [0, 0, 0]
    browser.devtools("Emulation.setEmulatedMedia", media="")


def test_two_models_are_side_by_side(browser, pages):
    show(browser, pages / "two.html")
    assert_readable(browser, DESKTOP)
    if SHOTS:
        browser.screenshot(Path(SHOTS) / "two.png")
    assert browser.texts("#answer .of-model > h3") == ["0.kin", "1.kin"]
    tops = browser.run(
        "return [...document.querySelectorAll('#answer .of-model')].map(e => e.getBoundingClientRect().top)"
    )
    assert tops[0] == tops[1]
    assert "Of 2 groups, 1.kin is better in " in browser.texts("#answer")[0]
