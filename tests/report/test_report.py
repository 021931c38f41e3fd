"""What a report says, before a page draws it."""

import html
import json
import os
import pickle
import re
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.metrics import confusion_matrix, r2_score

import kernelkin
from kernelkin import (
    KinClassifier,
    KinRegressor,
    MKMTRLClassifier,
    MKMTRLRegressor,
    MKMTRLRegressorCV,
    STLClassifier,
    STLRegressor,
    linear_kernels,
)
from kernelkin.paper import LassoRegressor, OLSRegressor
from kernelkin.relations import sharing_report
from kernelkin.relations.baselines import LINEAR
from kernelkin.relations.sharing import NEW_GROUPS, NEW_ROWS
from kernelkin.report import report_of_files
from kernelkin.report.content import effect_rows
from kernelkin.report.report import _json, vega_script
from kernelkin.storage import SavedModel
from kernelkin.tables.schema import TableSchema
from report.conftest import HOSTILE, made_relations, make_table

rng = np.random.default_rng(0)
X, TASKS = rng.normal(size=(60, 2)), np.repeat(["a", "b", "c"], 20)
Y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=60)
MODEL = MKMTRLRegressor(C=10).fit(X, Y, tasks=TASKS)
NEW = rng.normal(size=(30, 2))
NEW_TASKS, NEW_Y = np.repeat(["a", "b", "c"], 10), np.sin(2 * NEW[:, 0])


def content(report):
    (model,) = report.models
    return model


def test_given_rows_are_scored_as_the_model_scores_them():
    found = content(MODEL.report(X=NEW, y=NEW_Y, tasks=NEW_TASKS))["evaluation"]
    lost = NEW_Y - MODEL.predict(NEW, NEW_TASKS)
    assert found["score"] == "RMSE" and found["question"] == "new rows of known groups"
    assert_allclose(found["task_score"], [np.sqrt(np.mean(lost[t == NEW_TASKS] ** 2)) for t in "abc"], rtol=1e-5)
    assert found["n_rows"] == 30 and found["test_rows"] == [10, 10, 10]
    centred = np.concatenate([NEW_Y[t == NEW_TASKS] - NEW_Y[t == NEW_TASKS].mean() for t in "abc"])
    scores = {name: value for name, value, _, _ in found["overall"]}
    assert list(scores) == ["RMSE", "R²", "R² within groups"]
    assert_allclose(scores["RMSE"], np.sqrt(np.mean(lost**2)), rtol=1e-5)
    assert_allclose(scores["R²"], r2_score(NEW_Y, NEW_Y - lost), rtol=1e-5)
    assert_allclose(scores["R² within groups"], 1 - (lost**2).sum() / ((centred**2).sum() * 10 / 9), rtol=1e-5)
    assert all(low < value < high for _, value, low, high in found["overall"])
    ends = MODEL.predict_interval(NEW, NEW_TASKS)
    assert_allclose(found["covered"], ((ends[:, 0] <= NEW_Y) & (ends[:, 1] >= NEW_Y)).mean(), rtol=1e-5)


def test_without_rows_each_training_row_is_predicted_without_itself():
    model = MKMTRLRegressor(C=10).fit(X, Y, tasks=TASKS)
    model.predict_interval(X[:1], TASKS[:1])  # the held-out values are kept for later
    sample = content(model.report())["evaluation"]["sample"]
    assert_allclose(sample["actual"], Y, rtol=1e-5)
    held = MKMTRLRegressor(C=10).fit(X, Y, tasks=TASKS).uncertainty_.held_out()[0]
    assert_allclose(sample["predicted"], np.concatenate(held)[:, 0], rtol=1e-4, atol=1e-6)
    assert r2_score(Y, model.predict(X, TASKS)) > r2_score(Y, sample["predicted"]) + 0.01


@pytest.mark.parametrize("form", ["long", "wide"])
def test_rows_of_a_mixed_model_are_those_of_its_folds(form):
    y = Y if form == "long" else np.column_stack([Y, 100 + Y])
    model = KinRegressor(cv=3, random_state=0).fit(X, y, tasks=TASKS if form == "long" else None)
    found, held = content(model.report()), model.held_out_
    evaluation, order = found["evaluation"], np.argsort(TASKS, kind="stable")
    expected = held.values if form == "wide" else held.values[order]
    assert_allclose(evaluation["sample"]["predicted"], expected.ravel(order="F"), rtol=1e-4, atol=1e-4)
    low, high = (np.reshape(evaluation["sample"][end], expected.shape, order="F") for end in ("low", "high"))
    ratio = (high - low) / 2 / (held.deviations if form == "wide" else held.deviations[order])
    assert_allclose(ratio, model.functions_.scores.quantile(0.9) / model.functions_.scores.scale, rtol=5e-3)
    assert 0.85 <= evaluation["covered"] <= 1
    assert_allclose(sum(share for _, share in found["variance"]), 1, atol=2e-3)
    assert found["kernels"] is None and found["fit"]["members"]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_of_a_mixed_model_are_those_of_its_folds(n_classes):
    y = np.array(["no", "some", "yes"])[np.digitize(Y, np.quantile(Y, np.arange(1, n_classes) / n_classes))]
    model = KinClassifier(cv=3, random_state=0).fit(X, y, tasks=TASKS)
    found, held = content(model.report())["evaluation"], model.held_out_
    order = np.argsort(TASKS, kind="stable")
    best = held.values.argmax(axis=1) if n_classes > 2 else (held.values[:, 0] > 0.5).astype(int)
    assert found["sample"]["predicted"] == best[order].tolist()
    assert np.sum(found["confusion"]) == 60
    assert_allclose(np.trace(found["confusion"]) / 60, (model.classes_[best] == y).mean())


def test_a_model_without_held_out_values_says_what_to_pass():
    MODEL.predict_interval(X[:1], TASKS[:1])
    copied = pickle.loads(pickle.dumps(MODEL))
    message = (
        r"this MKMTRLRegressor has no held-out values, because it was copied or loaded from a file: pass "
        r"labelled rows that were not used in fit, as report\(X=..., y=..., tasks=...\)"
    )
    with pytest.raises(ValueError, match=message):
        copied.report()
    with pytest.raises(ValueError, match="a report on given rows needs both X and y, and tasks as for predict"):
        copied.report(X=NEW)
    assert content(copied.report(X=NEW, y=NEW_Y, tasks=NEW_TASKS))["evaluation"]["n_rows"] == 30


def test_tasks_with_few_rows_have_no_score_of_their_own():
    few = np.arange(0, 30, 5)
    found = content(MODEL.report(X=NEW[few], y=NEW_Y[few], tasks=NEW_TASKS[few]))["evaluation"]
    assert found["task_score"] == found["task_error"] == [None] * 3 and found["overall"][0][1] > 0


def test_rows_of_wide_targets_and_of_a_task_column():
    wide = np.column_stack([Y, -Y])
    wide[0, 1] = np.nan
    found = content(MKMTRLRegressor().fit(X, wide).report(X=X, y=wide))["evaluation"]
    assert found["test_rows"] == [60, 59] and found["score"] == "R²"
    table = pd.DataFrame({"x": X[:, 0], "t": TASKS})
    found = content(MKMTRLRegressor(task_column="t").fit(table, Y).report(X=table, y=Y))
    assert found["tasks"] == ["a", "b", "c"] and [e["name"] for e in found["drivers"]["effects"]] == ["x"]
    with pytest.raises(ValueError, match="X has 60 rows, but y has 59"):
        MODEL.report(X=X, y=Y[1:], tasks=TASKS)


def test_classes_are_counted_and_probabilities_are_in_bins():
    y = np.where(Y > 0, "yes", "no")
    model = MKMTRLClassifier(C=10).fit(X, y, tasks=TASKS)
    new = np.where(NEW_Y > 0, "yes", "no")
    found = content(model.report(X=NEW, y=new, tasks=NEW_TASKS))["evaluation"]
    p = model.predict_proba(NEW, NEW_TASKS)
    assert found["confusion"] == confusion_matrix(new, model.classes_[p.argmax(axis=1)]).tolist()
    assert found["classes"] == ["no", "yes"]
    stated, happened, rows = np.transpose(found["reliability"])
    assert rows.sum() == 30
    assert_allclose(np.average(happened, weights=rows), (new == "yes").mean())
    assert_allclose(np.average(stated, weights=rows), model.predict_proba(NEW, NEW_TASKS)[:, 1].mean())
    assert content(model.report())["evaluation"]["n_rows"] == 60


def test_the_effect_of_a_column_of_a_linear_model_is_its_coefficient():
    model = OLSRegressor().fit(X, 3 * X[:, 0] - X[:, 1])
    found = content(model.report())["drivers"]
    assert [effect["name"] for effect in found["effects"]] == ["x0", "x1"]
    for effect, slope in zip(found["effects"], (3, -1), strict=True):
        values = np.array(effect["values"])
        assert_allclose(np.diff(effect["mean"][0]) / np.diff(values), slope, rtol=1e-3)
        assert_allclose(effect["change"], abs(slope) * np.ptp(values), rtol=1e-3)
        # No row differs from another.
        assert_allclose(effect["low"], effect["mean"], atol=1e-4)


def test_columns_of_a_table_are_those_that_a_person_would_set(few):
    found = content(report_of_files([few]))["drivers"]
    effects = {effect["name"]: effect for effect in found["effects"]}
    assert set(effects) == {"age (years)", "sex", "public", "tested on"}
    days = effects["tested on"]
    assert days["kind"] == "date" and "2024-01-01" <= days["values"][0] < days["values"][-1] < "2025-12-31"
    assert effects["sex"]["values"] == ["boy", "girl"] and effects["public"]["values"] == ["no", "yes"]
    assert 8 < effects["age (years)"]["values"][0] < 12 < effects["age (years)"]["values"][-1] < 16
    assert 2 < np.diff(effects["public"]["mean"][0]) < 6  # 4 in the data


def test_predictions_of_the_grid_are_those_of_the_model(searched):
    """The sliders stop where predictions were computed: at these values, with the other columns as in one row."""
    grid = content(report_of_files([searched]))["drivers"]["grid"]
    columns, (mean,) = grid["columns"], np.array(grid["mean"])
    assert grid["groups"] == [0, 1, 2, -1] and mean.shape[1] == np.prod([len(one["values"]) for one in columns])
    names = [one["name"] for one in columns]
    assert "age (years)" in names
    effects = [effect["name"] for effect in content(report_of_files([searched]))["drivers"]["effects"]]
    assert [name for name, _ in grid["typical"]] == [name for name in effects if name not in names]
    table = make_table(3, 14)
    encoded = searched.schema.encode(table)
    near = table.iloc[[np.square(encoded - encoded.mean(axis=0)).sum(axis=1).argmin()]]
    shown = {name: {"yes": True, "no": False}.get(value, value) for name, value in grid["typical"]}
    assert shown and all(near[name].item() == value for name, value in shown.items())
    for place, values in ((0, [one["values"][0] for one in columns]), (-1, [one["values"][-1] for one in columns])):
        set_to = {one["name"]: value for one, value in zip(columns, values, strict=True)}
        set_to = {name: value == "yes" if name == "public" else value for name, value in set_to.items()}
        row = near.assign(**{n: pd.Timestamp(v) if n == "tested on" else v for n, v in set_to.items()})
        rows = pd.concat([row.assign(school=task) for task in ("school 1", "school 2", "school 3", "new")])
        assert_allclose(mean[:, place], searched.predict(rows), rtol=1e-4)
        ends = np.stack([np.array(grid[end])[:, place] for end in ("low", "high")], axis=1)
        assert_allclose(ends, searched.predict_interval(rows, grid["coverage"]), rtol=1e-4)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_curves_of_classes_are_means_of_their_probabilities(n_classes):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"size": rng.uniform(-2, 2, 42), "kind": rng.choice(["red", "green", "blue"], 42)})
    table["day"] = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.permutation(42) * 7, unit="D")
    names, tasks = np.array(["high", "low", "medium"])[-n_classes:], np.arange(42) % 3
    y = names[np.digitize(table["size"] + (table["kind"] == "red"), np.arange(n_classes - 1) - 0.3)]
    model = KinClassifier(cv=2, random_state=0).fit(table, y, tasks=tasks)
    found = content(model.report())["drivers"]
    # Each row once, in each group in turn.
    X, codes = effect_rows(model)
    encoded = model.encoder_.transform(table)
    order = [int(np.abs(encoded - row).sum(axis=1).argmin()) for row in X]
    assert sorted(order) == list(range(42)) and np.bincount(codes).tolist() == [14] * 3
    used, expected = table.iloc[order], ["low", "medium", "high"] if n_classes == 3 else ["probability of medium"]
    assert sorted(found["outputs"]) == sorted(expected) and len(found["effects"]) == 3
    for effect in found["effects"]:
        # All days in the table are Sundays; along a curve, rows keep their day of the week.
        values = pd.to_datetime(effect["values"]) if effect["kind"] == "date" else pd.Index(effect["values"])
        at = [v for v, value in enumerate(values) if effect["kind"] != "date" or value.weekday() == 6]
        for v in (at[0], at[-1]):
            p = model.predict_proba(used.assign(**{effect["name"]: values[v]}), codes).mean(axis=0)
            assert_allclose([curve[v] for curve in effect["mean"]], p[-1:] if n_classes == 2 else p, rtol=1e-4)
    if n_classes == 3:
        for part in (*(effect["mean"] for effect in found["effects"]), found["grid"]["mean"]):
            assert_allclose(np.sum(part, axis=0), 1, atol=1e-5)
    # The columns that classes depend on change their probabilities most.
    assert {effect["name"] for effect in found["effects"][:2]} == {"size", "kind"}


def test_curves_over_dates_keep_the_day_of_the_week_of_the_rows():
    """A curve shows trend and season; with 80 dates, days of the week would make it a saw."""
    days = pd.DataFrame({"day": pd.date_range("2024-01-01", periods=140)})
    y = 5.0 * (np.arange(140) % 7 == 6) + 0.1 * np.random.default_rng(0).normal(size=140)
    model = KinRegressor(cv=2, random_state=0).fit(days, y, tasks=np.arange(140) % 2)
    monday, sunday = model.predict(days.iloc[[70, 76]], tasks=[0, 0])
    (effect,) = content(model.report())["drivers"]["effects"]
    assert sunday - monday > 3 and len(effect["values"]) == 80 and np.ptp(effect["mean"]) < 1


def test_three_classes_of_a_model_of_the_paper_have_curves():
    found = content(STLClassifier(C=10).fit(X, np.digitize(X[:, 0], [-0.5, 0.5])).report())["drivers"]
    assert found["outputs"] == ["0", "1", "2"] and [effect["name"] for effect in found["effects"]] == ["x0", "x1"]
    means = np.array(found["effects"][0]["mean"])
    assert_allclose(means.sum(axis=0), 1, atol=1e-5)
    assert (np.diff(means[[2, 0]])[:, ::3] * [[1], [-1]] > 0).all()


def test_curves_of_groups_are_means_over_the_same_rows(searched):
    (effect,) = [e for e in content(report_of_files([searched]))["drivers"]["effects"] if e["name"] == "age (years)"]
    assert effect["groups"] == [0, 1, 2] and np.shape(effect["curves"]) == (3, len(effect["values"]))
    # The curves of three schools that share one function are close to their mean.
    assert np.abs(np.array(effect["curves"]) - effect["mean"]).max() < 0.5 * np.ptp(effect["mean"])


def test_a_model_of_the_paper_has_no_intervals_of_new_groups():
    model = MKMTRLRegressor(couplings="common", unknown_tasks="common").fit(X, Y, tasks=TASKS)
    names = np.where(NEW_TASKS == "a", "new", NEW_TASKS)
    sharing = sharing_report(model, X, Y, TASKS, baselines=[LINEAR], cv=2, random_state=0)
    assert sharing.comparisons[NEW_ROWS].covered is not None and sharing.comparisons[NEW_GROUPS].covered is None
    rows = content(model.report(X=NEW, y=NEW_Y, tasks=names))["evaluations"]
    for known, new in (rows, content(model.report(sharing=sharing))["evaluations"]):
        assert known["question"] == NEW_ROWS and new["question"] == NEW_GROUPS
        assert new["covered"] is None and new["error"] > 0 and "low" not in new["sample"]
        assert 0 < known["covered"] <= 1 and len(known["sample"]["low"]) == known["n_rows"]
    ends = model.predict_interval(NEW[names != "new"], names[names != "new"])
    assert_allclose(np.sort(rows[0]["sample"]["low"]), np.sort(ends[:, 0]), rtol=1e-4)


def test_a_table_with_new_groups_scores_them_apart(searched):
    table = make_table(4, 9, seed=5)
    found = content(searched.report(table=table))["evaluations"]
    assert [(part["question"], part["n_rows"]) for part in found] == [
        ("new rows of known groups", 27),
        ("groups never seen", 9),
    ]
    assert [name for name, *_ in found[1]["overall"]] == ["RMSE", "R²"]


def test_what_is_the_same_for_all_groups_is_said_once(many):
    found = content(report_of_files([many]))
    assert len(found["kernels"]["shares"]) == len(found["kernels"]["names"])


@pytest.mark.parametrize(
    ("make", "reason"),
    [(lambda: MKMTRLRegressor("precomputed").fit((X @ X.T)[:, :, None], Y, tasks=TASKS), "the model keeps no rows")],
)
def test_a_page_without_effects_says_why(make, reason):
    found = content(make().report())["drivers"]
    assert not found["effects"] and found["reason"].startswith(reason)


def test_says_what_the_model_says(few):
    found, model = content(report_of_files([few])), few.model
    assert found["title"] == "mark by school" and found["tasks"][0] == HOSTILE
    shares = model.kernel_weights_ / model.kernel_weights_.sum(axis=1, keepdims=True)
    assert_allclose(found["kernels"]["shares"], shares.mean(axis=0), atol=5e-4)
    assert found["relation"] is None
    assert_allclose(found["fit"]["relative"], model.duality_gap_ / model.objective_, rtol=1e-5)
    assert len(found["fit"]["history"]) == model.n_iter_
    assert found["model"]["parameters"] == {"couplings": "common", "tol": "0.01"}
    ours, alone, trees = found["comparisons"][0]["models"]
    assert (ours["ours"], alone["sign"], trees["sign"]) == (True, 1, 0) and trees["gain"] == [0.01, -0.05, 0.06]


def test_curves_of_groups_surround_their_mean(forty):
    """Few rows are used for the curves of many groups, yet their mean is that over all rows."""
    for effect in content(report_of_files([forty]))["drivers"]["effects"]:
        assert len(effect["curves"]) == 30
        assert_allclose(np.mean(effect["curves"], axis=0), effect["mean"][0], atol=0.1)


def test_relations_are_those_that_were_tested(related):
    found, tested = content(report_of_files([related]))["relation"], related.about["relations"]
    assert found["groups"] == [0, 1, 0]
    assert_allclose(found["matrix"], [[1, 0.3], [0.3, 1]], atol=5e-4)
    assert found["text"] == str(tested)
    assert "Likeness between clusters: 0.30. Compared" in found["text"]
    assert "Likeness between clusters: -0.40 to 0.30. Compared" in str(made_relations([0, 1, 2], list("abc")))


def test_a_labelled_table_in_place_of_the_rows_that_were_held_out(few):
    table = make_table(3, 9, seed=5, first=HOSTILE)
    found = content(few.report(table=table))["evaluation"]
    assert found["n_rows"] == 27 and found["source"] == "a labelled table passed to this report"
    rows = table[table["school"] == "school 2"]
    expected = np.sqrt(np.mean((rows["mark"] - few.predict(rows)) ** 2))
    assert_allclose(found["task_score"][found["tasks"].index("school 2")], expected, rtol=1e-5)


def test_a_saved_mixed_model_without_a_test_shows_its_folds_in_the_units_of_the_table(searched):
    found = content(report_of_files([replace(searched, about={})]))["evaluation"]
    assert_allclose(found["sample"]["actual"], make_table(3, 14)["mark"], rtol=1e-5)
    assert 0.5 < found["overall"][1][1] < 1 and 0.8 <= found["covered"] <= 1


def test_two_models_must_predict_the_same(few, nineteen):
    assert [model["name"] for model in report_of_files([few, few], names=["a.kin", "b/c.kin"]).models] == [
        "a.kin",
        "c.kin",
    ]
    with pytest.raises(ValueError, match="'a', 'b' predict different things \\('mark' and 'passed'\\)"):
        report_of_files([few, nineteen], names=["a", "b"])
    with pytest.raises(ValueError, match="a report shows one model, or two side by side, not 3"):
        report_of_files([few] * 3, names=["a", "b", "c"])


def test_every_kind_of_model_has_a_report(tmp_path):
    search = MKMTRLRegressorCV(grid={"mu": [0.1, 1.0]}, cv=2)
    for model in (search, LassoRegressor(), STLRegressor()):
        report = model.fit(X, Y, tasks=TASKS).report(tmp_path / "r.html")
        page = (tmp_path / "r.html").read_text(encoding="utf-8")
        assert page == report.html and f"<title>{type(model).__name__}: 3 tasks</title>" in page
        assert f'"version":"{kernelkin.__version__}"' in page
        assert content(report)["drivers"]["effects"]


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        ("m.kin", TypeError, "a report needs a fitted model or the result of load_model, not str"),
        (Ridge().fit(X, Y), TypeError, "a report needs a model of kernelkin, not Ridge"),
        (MKMTRLRegressor(), NotFittedError, "This MKMTRLRegressor instance is not fitted yet"),
    ],
)
def test_anything_else_is_refused_in_plain_words(model, error, message):
    with pytest.raises(error, match=message):
        report_of_files([SavedModel(model)])


def test_nothing_of_the_user_can_end_the_script_or_the_frame(few):
    report = replace(report_of_files([few]), title=HOSTILE)
    assert report.html.count("<img src=x") == 0
    (text,) = re.findall(r'<script type="application/json" id="content">(.*?)</script>', report.html, re.DOTALL)
    assert json.loads(text) == {"title": HOSTILE, "models": report.models}
    assert "\u2028" not in _json({"a": "\u2028"})
    (page,) = re.fullmatch(
        r'<iframe title="[^"]*" srcdoc="([^"]*)" style="[^"]*"></iframe>', report._repr_html_()
    ).groups()
    assert html.unescape(page) == report.html


def test_the_page_asks_for_nothing(few):
    page = report_of_files([few]).html
    assert "default-src 'none'" in page
    own = page.replace(vega_script(), "")
    assert not re.findall(r"""\s(?:src|href)\s*=\s*["'](?!#)|url\(|@import|https?://""", own)
    assert len(own) < 250_000
    assert "University of Washington Interactive Data" in page  # the licence


def test_the_script_is_made_once_and_kept(tmp_path, monkeypatch):
    import vl_convert

    made = []
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda snippet: made.append(snippet) or "x = '</script>';")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for _ in range(2):
        vega_script.cache_clear()
        assert vega_script().endswith("x = '<\\/script>';")
    assert len(made) == 1
    (tmp_path / "kernelkin").rename(tmp_path / "other")
    (tmp_path / "kernelkin").write_text("no folder")
    vega_script.cache_clear()
    assert vega_script().endswith("x = '<\\/script>';") and len(made) == 2
    # Neither a folder that cannot be made, nor a user without a home, is an error.
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/proc/none")
    vega_script.cache_clear()
    assert vega_script().endswith("x = '<\\/script>';") and len(made) == 3
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    vega_script.cache_clear()
    assert vega_script().endswith("x = '<\\/script>';") and len(made) == 4
    assert sorted(tmp_path.rglob("*")) == before
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    vega_script.cache_clear()
    with pytest.raises(ImportError, match=r"a report needs vl-convert-python: install kernelkin\[cli\]"):
        vega_script()
    vega_script.cache_clear()


def test_of_many_columns_those_with_the_largest_effects_are_shown():
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(80, 15)), np.repeat(["a", "b"], 40)
    y = X @ np.r_[2.0, np.full(13, 0.1), 3.0] + 0.1 * rng.normal(size=80)
    shown = report_of_files([SavedModel(MKMTRLRegressor(linear_kernels()).fit(X, y, tasks))]).models[0]["drivers"]
    names = [effect["name"] for effect in shown["effects"]]
    assert len(names) == 12 and names[:2] == ["x14", "x0"]
    # The grid of predictions is over the first of them, and no larger than its limit.
    assert [column["name"] for column in shown["grid"]["columns"]] == names[:3]
    sizes = [len(column["values"]) for column in shown["grid"]["columns"]]
    assert len(shown["grid"]["mean"][0][0]) == np.prod(sizes) and 2 * np.prod(sizes) <= 12_000 and min(sizes) > 3


def test_effects_of_more_groups_than_rows_are_over_groups_in_random_order_and_some_of_all_levels():
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(400), 2)
    X, level = rng.integers(0, 30, size=(800, 1)), np.linspace(-5.0, 5.0, 400)
    model = KinRegressor(cv=2, random_state=0).fit(X, level[tasks] + 0.1 * X[:, 0] + rng.normal(size=800), tasks=tasks)
    codes = effect_rows(model)[1]
    assert len(np.unique(codes)) == len(codes) < 400 and abs(level[codes].mean()) < 0.5 < level[codes].std()
    (effect,) = model.report().models[0]["drivers"]["effects"]
    # The groups with the lowest and the highest levels are among them, and steps between levels are even.
    drawn = np.sort(np.array(model.task_effects()["level"])[effect["groups"]])
    assert drawn[0] == model.task_effects()["level"].min() and drawn[-1] == model.task_effects()["level"].max()
    assert abs(drawn.mean()) < 0.5
    # Whole numbers stay whole.
    assert all(value == round(value) for value in effect["values"])


def test_a_date_of_small_effect_has_an_effect_and_a_slider():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(80, 4)), columns=list("abcd"))
    y = table.sum(axis=1) + 0.1 * rng.normal(size=80)
    table["day"] = pd.date_range("2024-01-01", periods=80)
    shown = KinRegressor(cv=2).fit(table, y, tasks=np.arange(80) % 4).report().models[0]["drivers"]
    assert "day" in [effect["name"] for effect in shown["effects"][3:]]
    assert [column["name"] for column in shown["grid"]["columns"]][2:] == ["day"]


@pytest.mark.parametrize("form", ["exposure", "offset"])
def test_counts_are_predicted_at_the_median_exposure(form):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"ward": np.arange(120) % 4, "age": rng.normal(size=120), "years": rng.uniform(20, 40, 120)})
    frame["falls"] = rng.poisson(frame["years"] * np.exp(0.3 * frame["age"] - 1))
    typical = frame["years"].median()
    if form == "offset":
        frame["years"], typical = np.log(frame["years"]), np.log(frame["years"]).median()
    schema = TableSchema.fit(frame, "ward", "falls", regression=True, standardise=False, **{form: "years"})
    model = KinRegressor(loss="poisson", cv=2, random_state=0)
    model.fit(schema.encode_table(frame), schema.targets(frame), tasks=schema.tasks(frame), **schema.options(frame))
    found = content(report_of_files([SavedModel(model, schema)]))
    grid, (effect,) = found["drivers"]["grid"], found["drivers"]["effects"]
    words, at = found["drivers"]["quantity"].split(" = ")
    assert words == "falls at years" and float(at) == pytest.approx(typical, rel=0.005)
    assert found["data"]["exposure"] == "years"
    asked = pd.DataFrame({"age": grid["columns"][0]["values"], "years": typical})
    codes = np.zeros(len(asked), dtype=int)
    expected = model.predict(schema.encode_table(asked), tasks=codes, **schema.options(asked))
    assert_allclose(grid["mean"][0][0], expected, rtol=1e-3)
    ends = model.predict_interval(schema.encode_table(asked), tasks=codes, **schema.options(asked))
    assert_allclose(np.transpose([grid["low"][0], grid["high"][0]]), ends)
    assert 3 < np.mean(effect["mean"]) < 30
