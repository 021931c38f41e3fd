"""What `kernelkin fit` keeps for the report, and `kernelkin report`."""

import json
import re

import numpy as np
import pytest

from kernelkin import load_model


def contents(path):
    (text,) = re.findall(r'<script type="application/json" id="content">(.*?)</script>', path.read_text(), re.DOTALL)
    return json.loads(text)["models"]


def test_held_out_rows_are_kept_in_the_units_of_the_table(folder, sales):
    evaluation = load_model(folder / "number.kin").about["evaluation"]
    found = evaluation["report"]
    actual, predicted, low, high = (np.array(found["sample"][n]) for n in ("actual", "predicted", "low", "high"))
    assert set(actual.round(2)) <= set(sales.sales)
    assert ((low < predicted) & (predicted < high)).all()
    assert found["covered"] == pytest.approx(((low <= actual) & (actual <= high)).mean(), rel=1e-5)
    assert found["n_rows"] == len(actual) == evaluation["test_rows"]
    # The table of the terminal and the page have the same scores.
    assert found["task_score"] == pytest.approx(evaluation["scores"]["MK-MTRL"], rel=1e-4)


def test_probabilities_of_held_out_rows_are_in_bins(folder):
    evaluation = load_model(folder / "class.kin").about["evaluation"]
    stated, happened, count = np.array(evaluation["report"]["reliability"]).T
    assert evaluation["report"]["classes"] == ["no", "yes"]
    assert (np.diff(stated) >= 0).all() and count.sum() == evaluation["test_rows"]
    # Stratified: half of the held-out rows are of each class.
    np.testing.assert_allclose(happened @ count / count.sum(), 0.5, atol=0.1)


def test_a_page_with_a_headline(run, folder, tmp_path):
    out = run("report", folder / "class.kin", "-o", tmp_path / "r.html", "--title", "Busy <shops> & more")
    assert "open it in a browser" in out
    assert "<title>Busy &lt;shops&gt; &amp; more</title>" in (tmp_path / "r.html").read_text()


def test_two_models_side_by_side_on_a_table(run, folder, tmp_path):
    page = tmp_path / "r.html"
    model = folder / "number.kin"
    run("report", model, model, "--test", folder / "sales.csv", "-o", page)
    first, second = contents(page)
    assert first["evaluation"] == second["evaluation"]
    assert first["evaluation"]["source"] == "a labelled table passed to this report"
    assert first["evaluation"]["n_rows"] == len((folder / "sales.csv").read_text().splitlines()) - 1


def test_what_cannot_be_shown_together_is_refused(run, folder, tmp_path):
    def refused(*models):
        return run("report", *models, "-o", tmp_path / "r.html", fails=True)

    number, classes = folder / "number.kin", folder / "class.kin"
    assert "predict different things ('sales' and 'busy')" in refused(number, classes)
    assert "a report shows one model, or two side by side, not 3" in refused(number, number, number)
