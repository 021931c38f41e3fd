import json
import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge

import kernelkin
from kernelkin import (
    AverageRegressor,
    LassoRegressor,
    MeanRegressor,
    MKMTRLRegressor,
    MKMTRLRegressorCV,
    MultiTaskCV,
    SavedModel,
    TaskRelations,
    sharing_report,
)
from kernelkin.app.report import render_report, write_report
from kernelkin.app.report.content import report_content

rng = np.random.default_rng(0)
X, TASKS = rng.normal(size=(40, 2)), np.repeat(["a", "b"], 20)
Y = X[:, 0]


def test_content_equals_the_attributes_of_the_model(few):
    content, model = report_content(few), few.model
    assert content["title"] == "mark by school"
    assert content["tasks"] == ["school 1", "school 2", "school 3"]
    shares = model.kernel_weights_ / model.kernel_weights_.sum(axis=1, keepdims=True)
    assert_allclose(content["kernels"]["shares"], shares, atol=5e-4)
    assert content["relation"] == {"tested": False}
    assert content["parts"]["names"] == ["common", "own"]
    assert_allclose(content["parts"]["shares"], model.part_shares_[:, ::-1], atol=5e-4)
    assert_allclose(content["certificate"]["relative"], model.duality_gap_ / model.objective_, rtol=1e-5)
    assert len(content["certificate"]["history"]) == model.n_iter_ and content["certificate"]["weights"]
    assert content["model"]["parameters"] == {"couplings": "common", "min_rank": "2", "tol": "0.01"}
    assert content["data"]["columns"][1]["values"] == ["boy", "girl"]


def test_relations_are_those_that_were_tested(related):
    found, tested = report_content(related)["relation"], related.about["relations"]
    assert found["structured"] and found["groups"] == tested["groups"] == [0, 1, 0]
    assert_allclose(found["matrix"], TaskRelations.from_dict(tested).likeness, atol=5e-4)
    assert found["text"].startswith("Structure found (p = ")
    assert sorted(found["order"]) == [0, 1, 2]


def test_pairs_of_very_many_tasks_are_left_out(crowd, crowd_relations):
    found = report_content(replace(crowd, about={"relations": crowd_relations.to_dict()}))["relation"]
    assert found["matrix"] is found["order"] is None
    assert found["groups"] == crowd_relations.groups.tolist()
    assert len(render_report(crowd)) < 1_000_000


def test_scores_are_those_of_the_model_s_tasks_in_its_order(many):
    content = report_content(many)
    ours, average, single = content["scores"]["columns"]
    assert [column["name"] for column in content["scores"]["columns"]] == ["MK-MTRL", "average kernel", "single-task"]
    numbers = [int(name.split()[1]) for name in content["tasks"]]
    assert_allclose(ours["values"], [0.5 + (n - 1) / 1000 for n in numbers])
    assert_allclose(average["values"], [0.5 - (n - 1) / 1000 for n in numbers])
    assert single["values"][content["tasks"].index("school 1")] is None


def test_the_recommendation_is_shown(few):
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(40, 2)), np.repeat([0, 1], 20)
    report = sharing_report(MeanRegressor(), X, X[:, 0], tasks, ablations=["pooled"], cv=2, n_repeats=1)
    found = report_content(replace(few, about={**few.about, "sharing": report.to_dict()}))["scores"]["verdict"]
    assert found == report.verdict and found.startswith("Recommendation: use the pooled model")
    assert report_content(few)["scores"]["verdict"] == ""


def test_what_a_model_has_not_is_left_out():
    average = report_content(SavedModel(AverageRegressor().fit(X, Y, tasks=TASKS)))
    assert average["scores"] is average["parts"] is average["data"] is average["rows"] is None
    assert average["relation"] == {"tested": False} and not average["certificate"]["weights"]
    linear = report_content(SavedModel(LassoRegressor().fit(X, Y, tasks=TASKS)))
    assert linear["kernels"] is linear["certificate"] is None
    one = report_content(SavedModel(MKMTRLRegressor().fit(X, Y)))
    assert one["relation"] is None
    assert one["tasks"] == ["0"]


def test_many_kernels_are_grouped():
    kernels = [f"view{v}" for v in range(9)]
    model = MKMTRLRegressor().fit(X, Y, tasks=TASKS)
    model.kernel_names_ = np.array([f"{view}: rbf({b} x median)" for view in kernels for b in range(5)])
    model.kernel_weights_ = rng.uniform(size=(2, 45))
    content = report_content(SavedModel(model))["kernels"]
    assert content["names"] == kernels
    assert content["count"] == 45
    assert_allclose(np.sum(content["shares"], axis=1), 1, atol=5e-3)


def test_the_page_holds_everything_and_asks_for_nothing(few, tmp_path):
    write_report(few, tmp_path / "r.html", title="</script><b>x</b>")
    page = (tmp_path / "r.html").read_text()
    assert "default-src 'none'" in page
    fetched = re.findall(r"""(?:src|href)\s*=|url\(|@import|https?://(?!www\.w3\.org/2000/svg)""", page)
    assert not fetched
    (text,) = re.findall(r'<script type="application/json" id="content">(.*?)</script>', page, re.DOTALL)
    assert json.loads(text) == report_content(few, title="</script><b>x</b>")
    assert page.count("<b>x</b>") == 0
    assert render_report(few, title="</script><b>x</b>") == page


def test_a_fitted_model_needs_no_file_and_no_schema(tmp_path):
    search = MKMTRLRegressorCV(grid={"mu": [0.1, 1.0]}, cv=2).fit(X, Y, tasks=TASKS)
    for model in (MKMTRLRegressor().fit(X, Y, tasks=TASKS), search, MultiTaskCV(MKMTRLRegressor(), {"mu": [1.0]})):
        fitted = model if hasattr(model, "tasks_") else model.fit(X, Y, tasks=TASKS)
        write_report(fitted, tmp_path / "r.html")
        page = (tmp_path / "r.html").read_text()
        assert f"<title>{type(model).__name__}: 2 tasks</title>" in page
        assert f'"version":"{kernelkin.__version__}"' in page


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        ("m.skops", TypeError, "a report needs a fitted model or what load_model gives, not str"),
        (Ridge().fit(X, Y), TypeError, "a report needs a model of kernelkin, not Ridge"),
        (MKMTRLRegressor(), NotFittedError, "This MKMTRLRegressor instance is not fitted yet"),
    ],
)
def test_anything_else_is_refused_in_plain_words(model, error, message):
    with pytest.raises(error, match=message):
        render_report(model)
