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
    found = load_model(folder / "number.kin").about["evaluations"][0]
    actual, predicted, low, high = (np.array(found["sample"][n]) for n in ("actual", "predicted", "low", "high"))
    assert set(actual.round(2)) <= set(sales.sales)
    assert ((low < predicted) & (predicted < high)).all()
    assert found["covered"] == pytest.approx(((low <= actual) & (actual <= high)).mean(), rel=1e-5)
    assert found["n_rows"] == len(actual) == 120 and found["score"] == "RMSE"
    # The table of the terminal and the page have the same scores.
    scores = load_model(folder / "number.kin").about["sharing"].comparisons["new rows of known groups"].scores
    assert {name: value for name, value, *_ in found["overall"]} == pytest.approx(scores["MK-MTRL"], rel=1e-4)
    own = [np.sqrt(np.mean((actual - predicted)[np.array(found["sample"]["task"]) == t] ** 2)) for t in range(3)]
    assert found["task_score"] == pytest.approx(own, rel=1e-4)


def test_probabilities_of_held_out_rows_are_in_bins(folder):
    (found,) = load_model(folder / "class.kin").about["evaluations"]
    stated, happened, count = np.array(found["reliability"]).T
    assert found["classes"] == ["no", "yes"] and [name for name, *_ in found["overall"]] == [
        "log loss",
        "AUC",
        "accuracy",
    ]
    assert (np.diff(stated) >= 0).all() and count.sum() == found["n_rows"] == 120
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
