import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from kernelkin import (
    AverageClassifier,
    AverageRegressor,
    KinClassifier,
    KinRegressor,
    MKMTRLRegressor,
    MKMTRLRegressorCV,
    STLRegressor,
    TwoStageMKMTRLRegressor,
    sharing_report,
)
from kernelkin.paper import IKLRegressor
from kernelkin.paper.model_selection import MultiTaskCV
from kernelkin.relations import SharingReport
from kernelkin.relations.baselines import BOOSTING, KIN, LINEAR, ONE_FOR_ALL, SEPARATE, make_baselines
from kernelkin.relations.scores import Gain, as_text
from kernelkin.relations.sharing import LATER_ROWS, NEW_GROUPS, NEW_ROWS, PARALLEL_ROWS, Comparison
from kernelkin.storage.values import dump, load

QUICK = {"cv": 3, "random_state": 0, "new_groups": False}


def one_function(n_tasks=8, n_rows=10, seed=0):
    rng = np.random.default_rng(seed)
    tasks = np.repeat(np.arange(n_tasks), n_rows)
    X = rng.normal(size=(len(tasks), 2))
    return X, np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=len(tasks)), tasks


def made_report(scores, gains, name=KIN):
    """A report with these R² and gains (mean, low, high)."""
    found = {other: {"RMSE": 1.0, "R²": value, "R² within groups": 0.1} for other, value in scores.items()}
    gained = {other: Gain(*ends) for other, ends in gains.items()}
    compared = Comparison("5 folds inside groups", np.array([10, 10]), found, gained)
    makers = {KIN: "`kernelkin fit`, or kernelkin.KinRegressor", LINEAR: "kernelkin.relations.LinearMixedModel"}
    return SharingReport(name, makers, np.array(["a", "b"]), {NEW_ROWS: compared})


def test_sharing_pays_where_tasks_are_one_function_with_few_rows():
    X, y, tasks = one_function()
    report = sharing_report(MKMTRLRegressor(C=10.0, couplings="common"), X, y, tasks, baselines=[SEPARATE], **QUICK)
    found = report.comparisons[NEW_ROWS]
    assert found.gains[SEPARATE].sign == 1 and found.test_rows.tolist() == [10] * 8
    assert report.verdict.startswith(
        "Recommendation: MKMTRLRegressor (`kernelkin fit --model MK-MTRL`, or kernelkin.MKMTRLRegressor): R² "
    )
    assert list(found.scores[SEPARATE]) == ["RMSE", "R²", "R² within groups"]


def test_kin_is_recommended_to_models_that_share_nothing():
    X, y, tasks = one_function(12, 6)
    report = sharing_report(AverageRegressor(C=10.0), X, y, tasks, baselines=[KIN], name="AVG", **QUICK)
    assert report.verdict.startswith("Recommendation: Kin (`kernelkin fit`, or kernelkin.KinRegressor): R² ")
    assert report.makers["AVG"] == "`kernelkin fit --model AVG`, or kernelkin.AverageRegressor"


def test_every_model_of_a_comparison_has_its_class_and_command():
    X, y, tasks = one_function(3, 8)
    others = {"alone": STLRegressor(), "searched": MultiTaskCV(IKLRegressor(), cv=2)}
    others |= {"linear": make_baselines(False, [LINEAR])[LINEAR], "online": TwoStageMKMTRLRegressor(n_rounds=20)}
    report = sharing_report(AverageRegressor(), X, y, tasks, baselines=others, **QUICK)
    assert report.makers == {
        "AverageRegressor": "`kernelkin fit --model AVG`, or kernelkin.AverageRegressor",
        "alone": "`kernelkin fit --model STL`, or kernelkin.STLRegressor",
        "searched": "`kernelkin fit --model IKL --cv`, or kernelkin.paper.IKLRegressor",
        "linear": "kernelkin.relations.LinearMixedModel",
        "online": "`kernelkin fit --model 'Two-stage MK-MTRL'`, or kernelkin.TwoStageMKMTRLRegressor",
    }


def test_the_verdict_follows_r2_over_all_rows_and_its_interval():
    ahead = made_report({KIN: 0.6, LINEAR: 0.4}, {LINEAR: (0.2, 0.1, 0.3)})
    assert ahead.verdict == (
        "Recommendation: Kin (`kernelkin fit`, or kernelkin.KinRegressor): R² 0.600; a linear mixed model "
        "(kernelkin.relations.LinearMixedModel) has 0.400 (gain of Kin +0.200, 95% interval +0.100 to +0.300)."
    )
    both = {KIN: 0.607, LINEAR: 0.6, BOOSTING: 0.5}
    level = made_report(both, {LINEAR: (0.007, -0.01, 0.02), BOOSTING: (0.1, 0.05, 0.2)})
    assert level.verdict.startswith("Recommendation: Kin (") and level.verdict.endswith(
        "within chance: either will do."
    )
    behind = made_report({KIN: 0.5, LINEAR: 0.6}, {LINEAR: (-0.1, -0.2, -0.05)})
    assert behind.verdict.startswith("Recommendation: a linear mixed model (kernelkin.relations.LinearMixedModel): ")
    either = made_report({KIN: 0.59, LINEAR: 0.6}, {LINEAR: (-0.009, -0.05, 0.05)})
    assert either.verdict.startswith("Recommendation: Kin (") and "LinearMixedModel) has 0.600" in either.verdict
    assert either.verdict.endswith("either will do.")
    other = made_report({KIN: 0.4, LINEAR: 0.6}, {LINEAR: (-0.2, -0.5, 0.1)})
    assert other.verdict.startswith("Recommendation: a linear mixed model (") and other.verdict.endswith("chance.")
    none = made_report({KIN: -0.1, LINEAR: -0.2}, {LINEAR: (0.1, 0.05, 0.2)})
    assert none.verdict == "Recommendation: the mean; no model predicts better."
    lines = str(level).splitlines()
    assert [line.split("  ")[0] for line in lines[1:5]] == ["model", KIN, LINEAR, BOOSTING]


def test_groups_of_one_row_stay_in_training_and_whole_groups_are_left_out():
    X, y, tasks = one_function(5, 6)
    X, y, tasks = np.vstack([X, X[:2]]), np.append(y, y[:2]), np.append(tasks, [7, 8])
    report = sharing_report(KinRegressor(cv=2, random_state=0), X, y, tasks, baselines=[LINEAR, SEPARATE], cv=2)
    assert report.comparisons[NEW_ROWS].test_rows.tolist() == [6] * 5 + [0, 0]
    never = report.comparisons[NEW_GROUPS]
    assert never.test_rows.tolist() == [6] * 5 + [1, 1]
    # A separate model has no answer for a new group; the share within groups says little.
    assert list(never.scores) == [KIN, LINEAR] and list(never.scores[KIN]) == ["RMSE", "R²"]
    assert "For groups never seen: " in report.verdict
    with pytest.raises(ValueError, match="no group has enough rows"):
        sharing_report(KinRegressor(), X[:4], y[:4], np.arange(4))


def test_predictions_are_those_of_fits_without_the_row():
    """The linear mixed model as a model that the test can fit itself."""
    from kernelkin.relations import LinearMixedModel

    X, y, tasks = one_function(3, 8)
    days = np.tile(np.arange(8)[::-1], 3)
    report = sharing_report(AverageRegressor(), X, y, tasks, baselines=[LINEAR], time_column=days, **QUICK)
    later = days >= 6
    model = LinearMixedModel().fit(X[~later], y[~later], tasks[~later])
    error = np.sqrt(np.mean((model.predict(X[later], tasks[later]) - y[later]) ** 2))
    found = report.comparisons[LATER_ROWS]
    assert found.test_rows.tolist() == [2, 2, 2]
    assert_allclose(found.scores[LINEAR]["RMSE"], error)
    # Rows of one time are on the same side, whatever their order.
    tied = np.minimum(days // 2, 2)  # 2, 2, 2, 2, 1, 1, 0, 0
    order = np.random.default_rng(0).permutation(24)
    for part in (slice(None), order):
        data = X[part], y[part], tasks[part]
        found = sharing_report(AverageRegressor(), *data, baselines=[LINEAR], time_column=-tied[part], **QUICK)
        assert found.comparisons[LATER_ROWS].test_rows.tolist() == [2, 2, 2]
        with pytest.raises(ValueError, match=r"no group has enough rows to hold one out: .* too few different times"):
            sharing_report(AverageRegressor(), *data, baselines=[LINEAR], time_column=tied[part], **QUICK)
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "day": days})
    for given, column in ((table, "day"), (table, 2), (table.to_numpy(), 2)):
        named = sharing_report(AverageRegressor(), given, y, tasks, baselines=[LINEAR], time_column=column, **QUICK)
        assert named.comparisons[LATER_ROWS].test_rows.tolist() == [2, 2, 2]
    dates = [f"{3 * day + 1:02d}.{1 + day % 2:02d}.2024" for day in range(8)]
    order = np.argsort(np.argsort([f"{text[6:]}{text[3:5]}{text[:2]}" for text in dates]))
    table["when"] = np.tile(dates, 3)
    named = sharing_report(AverageRegressor(), X, y, tasks, baselines=[LINEAR], time_column=table["when"], **QUICK)
    kept = np.tile(order, 3) < 6
    model = LinearMixedModel().fit(X[kept], y[kept], tasks[kept])
    error = np.sqrt(np.mean((model.predict(X[~kept], tasks[~kept]) - y[~kept]) ** 2))
    assert_allclose(named.comparisons[LATER_ROWS].scores[LINEAR]["RMSE"], error)
    for times, message in {
        "text": (["early", "late"] * 12, "time_column has no numbers or dates: it is text"),
        "missing": ([None, *days[1:]], "time_column has 1 missing values"),
        "short": (days[:5], "X has 24 rows, but time_column has 5"),
    }.values():
        with pytest.raises(ValueError, match=message):
            sharing_report(AverageRegressor(), X, y, tasks, time_column=times)
    with pytest.raises(ValueError, match="time_column='week' is not a column of X, which has 'a', 'b', 'day', 'when'"):
        sharing_report(AverageRegressor(), table, y, tasks, time_column="week")


def test_classes_have_log_loss_auc_and_accuracy():
    X, y, tasks = one_function(4, 12)
    labels = np.where(y > 0, "yes", "no")
    report = sharing_report(KinClassifier(cv=2, random_state=0), X, labels, tasks, baselines=[LINEAR], **QUICK)
    scores = report.comparisons[NEW_ROWS].scores
    assert list(scores[KIN]) == ["log loss", "AUC", "accuracy"] and scores[KIN]["log loss"] < 0.69
    difference = scores[LINEAR]["log loss"] - scores[KIN]["log loss"]
    assert_allclose(report.comparisons[NEW_ROWS].gains[LINEAR].mean, difference)
    assert "kernelkin.KinClassifier): log loss" in report.verdict


def test_targets_that_are_columns_count_alike_whatever_their_units():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    Y = np.column_stack([np.sin(2 * X[:, 0]), np.sin(2 * X[:, 0]) + X[:, 1]]) + 0.1 * rng.normal(size=(40, 2))
    model = KinRegressor(cv=2, random_state=0)
    reports = [sharing_report(model, X, Y * units, baselines=[LINEAR], **QUICK) for units in (1.0, np.array([1, 1e4]))]
    found = [report.comparisons[NEW_ROWS].scores for report in reports]
    assert reports[0].comparisons[NEW_ROWS].test_rows.tolist() == [40, 40]
    for name in (KIN, LINEAR):
        assert_allclose(found[0][name]["R²"], found[1][name]["R²"], rtol=5e-3)
    # Held-out rows are in the units of the targets.
    small, large = (report.comparisons[NEW_ROWS].rows for report in reports)
    for first, second in ((small.y, large.y), (small.values, large.values), (small.ends.T, large.ends.T)):
        assert np.median(np.abs(second / np.array([1, 1e4])[small.codes] - first)) < 0.05
    assert min(small.covered, large.covered) > 0.8
    labels = (Y > 0).astype(int)
    report = sharing_report(AverageClassifier(), X, labels, baselines=[ONE_FOR_ALL], **QUICK)
    assert np.isfinite(report.comparisons[NEW_ROWS].scores[ONE_FOR_ALL]["AUC"])


def test_tables_task_columns_searches_and_several_groupings():
    X, y, tasks = one_function(4, 8)
    table = pd.DataFrame({"shop": [f"s{t}" for t in tasks], "x": X[:, 0], "day": ["Mon", "Tue"] * 16})
    report = sharing_report(KinRegressor(task_column="shop", cv=2), table, y, baselines=[ONE_FOR_ALL], **QUICK)
    assert report.tasks.tolist() == ["s0", "s1", "s2", "s3"]
    searched = MKMTRLRegressorCV(cv=2, random_state=0)
    assert sharing_report(searched, X, y, tasks, baselines=[SEPARATE], **QUICK).name == "MKMTRLRegressorCV"
    groupings = pd.DataFrame({"shop": tasks, "year": np.tile([1, 2], 16)})
    report = sharing_report(KinRegressor(cv=2), X, y, groupings, baselines=[LINEAR], **QUICK)
    assert np.isfinite(report.comparisons[NEW_ROWS].scores[LINEAR]["R²"])


def test_time_is_limited_and_progress_is_shown(capsys):
    X, y, tasks = one_function(4, 10)
    model = MKMTRLRegressor(C=10.0, couplings="common", unknown_tasks="common")
    seen = []
    options = {**QUICK, "new_groups": True, "time_column": 0, "callback": lambda *given: seen.append(given)}
    report = sharing_report(model, X, y, tasks, baselines=[SEPARATE], time_limit=1e-9, **options)
    assert len(seen) == 2 + 2 * 4 and seen[0] == (0, "new rows of known groups")
    assert seen[1][1] == "new rows of known groups, fold 1 of 3, MKMTRLRegressor"
    # The finished share of the work grows to four of seven folds: new groups were not begun, later rows were asked for.
    # A separate model for each of 4 groups costs 0.016 of the other model, and has no folds of new groups.
    shares = [share for share, _ in seen]
    assert shares == sorted(shares)
    np.testing.assert_allclose(shares[-1], 4 * 1.016 / (4 * 1.016 + 3))
    assert list(report.comparisons) == [NEW_ROWS, LATER_ROWS]
    assert "Not compared for lack of time: groups never seen (`sharing_report` has no limit)." in str(report)
    sharing_report(model, X, y, tasks, baselines=[SEPARATE], verbose=1, **QUICK)
    assert capsys.readouterr().err.startswith("[1/1] does sharing help")


def test_the_report_does_not_depend_on_the_number_of_processes():
    X, y, tasks = one_function(6, 50)
    options = {**QUICK, "baselines": [SEPARATE, ONE_FOR_ALL]}
    one, two = (sharing_report(AverageRegressor(C=10.0, n_jobs=n), X, y, tasks, **options) for n in (1, 2))
    assert len(y) in PARALLEL_ROWS
    assert str(one) == str(two)


def test_intervals_cover_the_true_gain():
    covered, of_groups = [], []
    codes = np.repeat(np.arange(6), 40)
    for seed in range(100):
        rng = np.random.default_rng(seed)
        gain = Gain.of(0.3 + rng.normal(size=240), codes, by_group=False)
        covered.append(gain.low <= 0.3 <= gain.high)
        level = rng.normal(size=6)[codes]
        gain = Gain.of(0.3 + level + 0.1 * rng.normal(size=240), codes, by_group=True)
        of_groups.append(gain.low <= 0.3 <= gain.high)
    # A constant moves the interval, and groups of one row are rows.
    for by_group in (True, False):
        difference = level + rng.normal(size=240)
        moved = np.subtract(Gain.of(difference + 1.0, codes, by_group), Gain.of(difference, codes, by_group))
        np.testing.assert_allclose(moved, 1.0)
    one = Gain.of(difference, np.arange(240), by_group=True)
    np.testing.assert_allclose(one, Gain.of(difference, codes, by_group=False))
    assert 88 <= sum(covered) <= 100
    assert 82 <= sum(of_groups) <= 99


def test_saved_and_read_again():
    X, y, tasks = one_function(3, 8)
    report = sharing_report(AverageRegressor(), X, y, tasks, baselines=[SEPARATE], **QUICK)
    read = load(*dump(report.without_rows()))
    assert str(read) == str(report)
    scaled = sharing_report(AverageRegressor(), X, y, tasks, baselines=[SEPARATE], target_scale=10.0, **QUICK)
    rmse = [each.comparisons[NEW_ROWS].scores[SEPARATE]["RMSE"] for each in (report, scaled)]
    assert_allclose(rmse[1], 10 * rmse[0])


def test_impossible_arguments_are_refused():
    X, y, tasks = one_function(3, 8)
    with pytest.raises(ValueError, match="no baseline is named 'pooled'; there are: a separate model"):
        sharing_report(AverageRegressor(), X, y, tasks, baselines=["pooled"])
    with pytest.raises(ValueError, match="pass tasks"):
        sharing_report(AverageRegressor(), X, y)
    with pytest.raises(ValueError, match="two groups or more: pass tasks"):
        sharing_report(AverageRegressor(), X, y, np.zeros(24))
    with pytest.raises(ValueError, match="cannot compare precomputed kernels"):
        sharing_report(AverageRegressor("precomputed"), np.ones((24, 24, 2)), y, tasks)


def test_intervals_of_held_out_rows_and_offsets_of_counts():
    X, _, tasks = one_function(8, 10)
    rng = np.random.default_rng(1)
    offset = rng.uniform(0.0, 3.0, 80)
    counts = rng.poisson(np.exp(offset + 0.5 * X[:, 0]))
    model = KinRegressor(loss="poisson", cv=2, random_state=0)
    report = sharing_report(model, X, counts, tasks, baselines=[LINEAR], offset=offset, **QUICK)
    found = report.comparisons[NEW_ROWS]
    low, high = found.rows.ends.T
    assert found.covered == np.mean((low <= found.rows.y) & (found.rows.y <= high)) > 0.8
    # The linear model has the likelihood and the offsets, too, and the truth is linear.
    assert min(found.scores[KIN]["R²"], found.scores[LINEAR]["R²"]) > 0.8
    assert report.makers[LINEAR] == "kernelkin.relations.LinearMixedModel(loss='poisson')"
    assert json.loads(json.dumps(report.to_dict()))["comparisons"][NEW_ROWS]["rows"] is None
    assert f"The 90% intervals of Kin contain {found.covered:.0%} of these rows." in str(report)


@pytest.mark.parametrize("text", [False, True])
def test_models_without_offsets_have_them_as_a_column(text):
    X, _, tasks = one_function(6, 6)
    rng = np.random.default_rng(1)
    offset = rng.uniform(0.0, 3.0, 36)
    counts = rng.poisson(np.exp(offset))
    columns = pd.DataFrame({"x": X[:, 0], "word": np.where(X[:, 1] > 0, "a", "b")}) if text else X
    model, others = KinRegressor(loss="poisson", cv=2, random_state=0), {"squared": KinRegressor(cv=2, random_state=0)}
    if not text:
        others["average"] = AverageRegressor()
    for baselines in ([LINEAR], others):
        report = sharing_report(model, columns, counts, tasks, baselines=baselines, offset=offset, **QUICK)
        for name, scores in report.comparisons[NEW_ROWS].scores.items():
            assert scores["R²"] > (0.3 if name != "average" else -np.inf), name
    with pytest.raises(ValueError, match="X has 36 rows, but offset has 5"):
        sharing_report(model, columns, counts, tasks, offset=offset[:5], **QUICK)


def test_columns_of_y_keep_their_names():
    X, y, _ = one_function(2, 12)
    targets = pd.DataFrame({"p": y[:12], "q": y[12:], "r": y[:12] + y[12:]})
    model = KinRegressor(cv=2, random_state=0, task_features=pd.DataFrame({"size": [1.0, 2.0, 3.0]}, index=list("pqr")))
    report = sharing_report(model, X[:12], targets, baselines=[], **QUICK)
    assert report.tasks.tolist() == ["p", "q", "r"]


def test_columns_of_time_and_folds_that_cannot_be_are_refused():
    X, y, tasks = one_function(4, 6)
    for column in ("when", 7):
        with pytest.raises(ValueError, match=f"time_column={column!r} is not a column of X, which has 0, 1"):
            sharing_report(AverageRegressor(), X, y, tasks, time_column=column)
    with pytest.raises(ValueError, match="cv must be 2 or more, got 1"):
        sharing_report(AverageRegressor(), X, y, tasks, cv=1)


def test_classes_that_nothing_predicts_have_no_model_recommended():
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(90, 3)), np.repeat(np.arange(6), 15)
    y = rng.choice(["a", "b", "c"], p=[0.6, 0.3, 0.1], size=90)
    report = sharing_report(KinClassifier(cv=2), X, y, tasks, baselines=[SEPARATE, BOOSTING], **QUICK)
    found = report.comparisons[NEW_ROWS]
    shares = np.unique(found.rows.y, return_counts=True)[1] / len(found.rows.y)
    assert found.constant == pytest.approx(shares @ np.log(shares))
    assert min(scores["log loss"] for scores in found.scores.values()) > -found.constant
    assert report.verdict == "Recommendation: the shares of the classes; no model predicts better."


def test_large_scores_are_written_without_exponents():
    values = [0.12345, 12.3456, 123.456, 1234.56, 12345.6, 1234567.8]
    assert [as_text(value) for value in values] == ["0.123", "12.346", "123.5", "1235", "12346", "1234568"]


def test_small_errors_have_four_digits_so_that_models_differ():
    assert [as_text(value, name="RMSE") for value in (0.0068571, 0.07, 1.5, 4.567e-7)] == [
        *("0.006857", "0.07000", "1.500", "4.567e-07")
    ]
    X, y, tasks = one_function(4, 10)
    report = sharing_report(AverageRegressor(), X, y, tasks, baselines=[LINEAR], target_scale=1e-3, **QUICK)
    scores = [each["RMSE"] for each in report.comparisons[NEW_ROWS].scores.values()]
    assert all(score < 0.01 and f"{score:#.4g}" in str(report) for score in scores)


def test_a_baseline_can_be_the_model_and_groups_without_test_rows_are_counted():
    X, y, tasks = one_function(5, 6)
    X, y, tasks = np.vstack([X, X[:2]]), np.append(y, y[:2]), np.append(tasks, [7, 8])
    model = make_baselines(False, [LINEAR])[LINEAR]
    report = sharing_report(model, X, y, tasks, baselines=[KIN], cv=2, random_state=0)
    assert report.comparisons[NEW_ROWS].covered is None
    assert "30 test rows of 5 groups; 2 have too few rows (2 folds inside groups)" in str(report)


def test_groups_of_two_rows_stay_in_training_where_a_model_needs_two():
    X, y, tasks = one_function(4, 6)
    X, y, tasks = np.vstack([X, X[:2]]), np.append(y, y[:2]), np.append(tasks, [7, 7])
    quick = {**QUICK, "cv": 2}
    for others, rows in (([LINEAR], 2), ({"alone": STLRegressor()}, 0)):
        report = sharing_report(KinRegressor(cv=2, random_state=0), X, y, tasks, baselines=others, **quick)
        assert report.comparisons[NEW_ROWS].test_rows.tolist() == [6] * 4 + [rows]


def test_the_only_row_of_a_class_in_a_group_is_tested_unless_a_model_needs_it():
    """Without such rows, the hardest ones, scores of groups with few rows would be too good."""
    rng = np.random.default_rng(0)
    tasks, X = np.append(np.repeat(np.arange(10), 4), 10), rng.normal(size=(41, 1))
    y = np.append(np.tile([0, 0, 1, 2], 10), 0)
    report = sharing_report(KinClassifier(cv=2), X, y, tasks, baselines=[LINEAR], **QUICK)
    assert report.comparisons[NEW_ROWS].test_rows.tolist() == [4] * 10 + [0]
    report = sharing_report(AverageClassifier(), X[:-1], y[:-1], tasks[:-1], baselines=[LINEAR], **QUICK)
    assert report.comparisons[NEW_ROWS].test_rows.tolist() == [2] * 10
