import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import roc_auc_score

from kernelkin import (
    AverageClassifier,
    AverageRegressor,
    KinRegressor,
    MKMTRLClassifier,
    MKMTRLRegressor,
    MKMTRLRegressorCV,
    SharingReport,
    gaussian_kernels,
    sharing_report,
)
from kernelkin.data import read_training
from kernelkin.relations.ablations import OURS, make_ablations
from kernelkin.relations.gains import HeldOutScores
from kernelkin.relations.splits import Split, held_out_values, repeated_folds

QUICK = {"n_repeats": 1, "cv": 3, "random_state": 0}


def one_function(n_tasks=8, n_rows=10, seed=0):
    rng = np.random.default_rng(seed)
    tasks = np.repeat(np.arange(n_tasks), n_rows)
    X = rng.normal(size=(len(tasks), 2))
    return X, np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=len(tasks)), tasks


def opposite_functions(n_rows=60, seed=0):
    rng = np.random.default_rng(seed)
    tasks = np.repeat(np.arange(4), n_rows)
    X = rng.normal(size=(len(tasks), 2))
    y = np.where(tasks % 2, 1, -1) * np.sin(2 * X[:, tasks.max() % 2]) + X[:, 1] * tasks
    return X, y + 0.2 * rng.normal(size=len(tasks)), tasks


def held_out(scores_of, y, metric="r2", min_rows=5):
    """Scores of values that are given: of each model, the values of each task."""
    tasks = np.repeat(np.arange(len(y)), [len(part) for part in y])
    X = np.zeros((len(tasks), 1))
    data = read_training(X, np.concatenate(y), tasks, None, classification=metric != "r2")
    tested = [np.ones(len(part), dtype=bool) for part in y]
    values = {name: [parts] for name, parts in scores_of.items()}
    return HeldOutScores(data, tested, values, metric, min_rows, np.random.RandomState(0))


def test_sharing_pays_where_tasks_are_one_function_with_few_rows():
    X, y, tasks = one_function()
    model = MKMTRLRegressor(C=10.0, couplings="common")
    report = sharing_report(model, X, y, tasks, ablations=["independent", "average"], **QUICK)
    assert report.gains["independent"].sign == 1
    assert report.verdict.startswith("Recommendation: MKMTRLRegressor; it is ahead of all")


def test_the_pooled_model_is_recommended_to_models_that_share_nothing():
    X, y, tasks = one_function(12, 6)
    report = sharing_report(AverageRegressor(C=10.0), X, y, tasks, ablations=["average", "pooled"], **QUICK)
    assert "use the pooled model" in report.verdict
    # The model itself as an ablation: no difference, and none is claimed.
    same = report.gains["average"]
    assert same.mean.tasks == same.low.tasks == same.high.tasks == 0 and same.sign == 0


def test_independent_models_are_recommended_where_tasks_have_nothing_in_common():
    X, y, tasks = opposite_functions()
    model = MKMTRLRegressor(C=0.01, couplings="common", sharing=1.0)
    report = sharing_report(model, X, y, tasks, ablations=["average", "pooled"], **QUICK)
    assert isinstance(str(report), str)
    independent = MKMTRLRegressor(C=10.0)
    against = sharing_report(independent, X, y, tasks, ablations=["pooled"], **QUICK)
    assert against.gains["pooled"].sign == 1


def test_no_model_is_recommended_where_none_predicts():
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(60, 2)), np.repeat(np.arange(6), 10)
    report = sharing_report(MKMTRLRegressor(), X, rng.normal(size=60), tasks, ablations=["average"], **QUICK)
    assert report.verdict == "Recommendation: the mean of each task; no model predicts better than that."


def test_tasks_with_few_test_rows_are_set_aside_and_counted():
    rng = np.random.default_rng(0)
    sizes = [3, 4, 20, 30]
    tasks = np.repeat(np.arange(4), sizes)
    X = rng.normal(size=(len(tasks), 2))
    y = X[:, 0] + 0.1 * rng.normal(size=len(tasks))
    report = sharing_report(AverageRegressor(), X, y, tasks, ablations=["single"], min_rows=5, **QUICK)
    assert report.used.tolist() == [False, False, True, True]
    assert report.test_rows.tolist() == sizes
    assert np.isnan(report.gains["single"].tasks[:2]).all()
    assert "50 test rows of 2 tasks, 2 with too few test rows set aside (3-fold" in str(report)


def test_means_over_tasks_and_rows_and_the_median_are_what_they_are_called():
    rng = np.random.default_rng(0)
    y = [rng.normal(size=n) for n in (10, 20, 90)]
    noise = [scale * rng.normal(size=len(part)) for scale, part in zip((0.1, 0.5, 1.0), y, strict=True)]
    found = held_out({OURS: y, "other": [part + e for part, e in zip(y, noise, strict=True)]}, y)
    expected = np.array([np.mean(e**2) / part.var() for e, part in zip(noise, y, strict=True)])
    gain = found.gain(OURS, "other", 0.95)
    assert gain.mean.tasks == pytest.approx(expected.mean())
    assert gain.mean.rows == pytest.approx(np.average(expected, weights=[10, 20, 90]))
    assert gain.mean.median == pytest.approx(np.median(expected))
    assert gain.low.tasks < gain.mean.tasks < gain.high.tasks


def test_intervals_cover_the_true_gain():
    """Two models whose squared errors differ by a known amount; 95% intervals hold it nearly as often."""
    covered = []
    for seed in range(15):
        rng = np.random.default_rng(seed)
        y = [rng.normal(size=40) for _ in range(6)]
        models = {OURS: 0.5, "other": 0.7}
        values = {name: [part + scale * rng.normal(size=40) for part in y] for name, scale in models.items()}
        found = held_out(values, y).gain(OURS, "other", 0.95)
        truth = np.mean([(0.7**2 - 0.5**2) / part.var() for part in y])
        covered.append(found.low.tasks <= truth <= found.high.tasks)
    assert sum(covered) >= 13


def test_gains_of_noisy_tasks_are_drawn_towards_the_mean():
    rng = np.random.default_rng(0)
    y = [rng.normal(size=n) for n in (6, 6, 6, 300, 300, 300)]
    values = {OURS: [part + 0.5 * rng.normal(size=len(part)) for part in y]}
    values["other"] = [part + 0.5 * rng.normal(size=len(part)) for part in y]
    found = held_out(values, y)
    raw, shrunk = found.scores[0] - found.scores[1], found.gain(OURS, "other", 0.95).tasks
    assert np.ptp(shrunk[:3]) < 0.5 * np.ptp(raw[:3])


def test_auc_is_scikit_learn_s():
    rng = np.random.default_rng(0)
    y = [np.array([0.0, 1.0] * 10), np.array([0.0, 0.0, 1.0, 1.0, 0.0, 1.0])]
    values = {OURS: [rng.normal(size=20), rng.normal(size=6)], "other": [rng.normal(size=20), rng.normal(size=6)]}
    found = held_out(values, y, "roc_auc")
    expected = [[roc_auc_score(part, v) for part, v in zip(y, values[name], strict=True)] for name in values]
    assert_allclose(found.scores, expected)


def test_rare_classes_are_scored_by_auc():
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(3), 40)
    X = rng.normal(size=(120, 2))
    y = X[:, 0] > 1.2
    report = sharing_report(MKMTRLClassifier(), X, y, tasks, ablations=["boosting"], **QUICK)
    assert report.score == "roc_auc" and all(0 <= s.tasks <= 1 for s in report.summaries.values())
    with pytest.raises(ValueError, match="scoring must be one of accuracy, roc_auc for this model, got 'r2'"):
        sharing_report(MKMTRLClassifier(), X, y, tasks, scoring="r2")


def test_wide_data_and_missing_labels():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    Y = np.column_stack([X[:, 0], -X[:, 0]]) + 0.1 * rng.normal(size=(40, 2))
    Y[:5, 0] = np.nan
    report = sharing_report(MKMTRLRegressor(C=10.0), X, Y, ablations=["average", "boosting"], **QUICK)
    assert report.test_rows.tolist() == [35, 40]
    assert report.summaries[OURS].tasks > 0.9


def test_every_row_is_predicted_by_models_that_did_not_see_it():
    X, y, tasks = one_function(3, 12)
    data = read_training(X, y, tasks, None, classification=False)
    folds = repeated_folds(data, 4, 2, classification=False, rng=np.random.RandomState(0))

    def memory(split: Split):
        """A model that knows its training rows by heart, and says 1 where it has seen a row."""
        train, test = split.columns(False)
        return np.array([float((train == row).all(axis=1).any()) for row in test])

    found = held_out_values(data, {"memory": memory}, folds=folds, ranks=False)
    assert all((values == 0).all() for repetition in found["memory"] for values in repetition)


def test_a_learning_curve_ends_where_sharing_stops_to_pay():
    X, y, tasks = one_function(6, 40)
    model = MKMTRLRegressor(C=10.0, couplings="common")
    report = sharing_report(model, X, y, tasks, ablations=["average"], curve_sizes=[4, 20], **QUICK)
    few, many = report.curve.gains
    assert few.sign == 1 and few.mean.tasks > many.mean.tasks
    assert report.curve.tasks.shape == (2, 6)
    assert "by training rows a task: 4: +" in str(report)


def test_learning_curves_of_rare_classes_have_a_row_of_each():
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(80, 2)), np.repeat([0, 1], 40)
    y = np.where(X[:, 0] > 1.0, "rare", "other")
    report = sharing_report(MKMTRLClassifier(), X, y, tasks, ablations=["average"], curve_sizes=[2, 4], **QUICK)
    assert report.curve.sizes.tolist() == [2, 4] and np.isfinite(report.curve.tasks).all()


def test_repetitions_end_with_the_time_and_the_report_says_so():
    X, y, tasks = one_function(4, 10)
    options = {"ablations": ["average"], "cv": 2, "n_repeats": 3, "random_state": 0}
    calls = []
    counted = {"callback": lambda *call: calls.append(call), **options}
    report = sharing_report(AverageRegressor(), X, y, tasks, time_limit=0.0, **counted)
    assert (report.n_repeats, report.cv) == (1, 2)
    # Only fits that are certain are counted: two models, two folds.
    assert [call[:2] for call in calls] == [(done, 4) for done in range(4)]
    assert str(report).startswith(
        "R² on 40 test rows of 4 tasks (2-fold cross-validation inside the training rows, 1 of 3 repetitions, for lack "
        "of time):"
    )
    calls.clear()
    report = sharing_report(AverageRegressor(), X, y, tasks, **counted)
    assert report.n_repeats == 3 and "training rows, 3 repetitions)" in str(report)
    # Two models, two folds, three repetitions.
    assert [call[:2] for call in calls] == [(done, 12) for done in range(12)]
    assert calls[-1][2] == "average, repetition 3 of 3"


def test_a_report_is_saved_and_read_again():
    import json

    X, y, tasks = one_function(4, [3, 10, 20, 30])
    report = sharing_report(AverageRegressor(), X, y, tasks, ablations=["single", "boosting"], **QUICK)
    read = SharingReport.from_dict(json.loads(json.dumps(report.to_dict())))
    assert str(read) == str(report) and "1 with too few test rows set aside" in str(read)
    assert_allclose(read.gains["single"].tasks, report.gains["single"].tasks)


def test_a_search_sees_which_encoded_columns_belong_together():
    """A table is encoded as in a fit: each fold has the origins of the columns."""
    import pandas as pd

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"day": rng.choice(["Mon", "Sat", "Sun"], 40), "size": rng.normal(size=40)})
    data = KinRegressor().training_data(frame, frame["size"].to_numpy(), np.repeat([0, 1], 20))
    folds = repeated_folds(data, 2, 1, classification=False, rng=np.random.RandomState(0))
    split = Split(data, folds[0][0], False)
    table = split.with_names(split.columns(False)[0])
    assert table.origins == data.feature_origins and len({origin for origin, _ in table.origins}) == 2
    assert table.n_rows == 20


def test_a_column_of_tasks_and_kernels_by_name_are_read_as_in_a_fit():
    import pandas as pd

    X, y, tasks = one_function(3, 12)
    frame = pd.DataFrame(X, columns=["a", "b"])
    kernels = gaussian_kernels((1.0,), columns=["a"])
    named = MKMTRLRegressor(kernels, task_column="shop")
    search = MKMTRLRegressorCV(kernels, grid={"C": [1.0]}, cv=2, task_column="shop")
    options = {"ablations": ["independent"], **QUICK}
    plain = sharing_report(MKMTRLRegressor(gaussian_kernels((1.0,), columns=[0])), X, y, tasks, **options)
    found = sharing_report(named, frame.assign(shop=tasks), y, **options)
    assert_allclose(found.scores[OURS], plain.scores[OURS])
    assert_allclose(found.scores["independent"], plain.scores["independent"])
    # A search over one candidate is that candidate; what it is compared with chooses C.
    found = sharing_report(search, frame.assign(shop=tasks), y, **options)
    assert_allclose(found.scores[OURS], plain.scores[OURS])


def test_unknown_ablations_and_tasks_without_enough_rows_are_refused():
    X, y, tasks = one_function(3, 6)
    with pytest.raises(
        ValueError, match="no ablation is named 'trees'; there are independent, average, single, pooled"
    ):
        sharing_report(MKMTRLRegressor(), X, y, tasks, ablations=["trees"])
    with pytest.raises(ValueError, match="no task has 50 test rows or more"):
        sharing_report(AverageRegressor(), X, y, tasks, ablations=["average"], min_rows=50, **QUICK)


def test_kin_is_compared_where_a_group_has_one_row(capsys):
    X, y, tasks = one_function(6, 8)
    X, y, tasks = np.vstack([X, [[0.0, 0.0]]]), np.append(y, 0.5), np.append(tasks, 6)
    alone = ["independent", "average", "single"]
    options = {"ablations": alone, "n_repeats": 1, "cv": 2, "random_state": 0, "verbose": 1}
    report = sharing_report(KinRegressor(random_state=0), X, y, tasks, **options)
    assert report.used.tolist() == [True] * 6 + [False]
    assert all(np.isfinite(report.scores[name][:6]).all() for name in (OURS, *alone))
    assert report.name == "KinRegressor" and report.gains["independent"].sign == 1
    assert capsys.readouterr().err.startswith("[1/1] does sharing help")


@pytest.mark.parametrize("classification", [False, True])
def test_tasks_that_cannot_be_learned_alone_have_their_mean_or_class(classification):
    tasks = np.repeat(np.arange(3), [2, 2, 12])
    X, y = np.arange(16.0)[:, None], np.arange(16.0)
    labels = np.where(y % 2 > 0, "odd", "even")
    labels[:4] = "odd"
    data = read_training(X, labels if classification else y, tasks, None, classification=classification)
    fold = repeated_folds(data, 2, 1, classification=classification, rng=np.random.RandomState(0))[0][0]
    model = AverageClassifier() if classification else AverageRegressor()
    split = Split(data, fold, False)
    found = make_ablations(model, ["average"], 0)["average"](split)
    assert split.learnable_tasks().tolist() == [2]
    own = np.flatnonzero(split.test_codes < 2)
    other = {t: y[tasks == t][fold.kept[t]].mean() for t in (0, 1)}
    expected = ["odd" if classification else other[t] for t in split.test_codes[own]]
    assert found[own].tolist() == expected
    learned = split.select(np.array([2]))
    assert found[split.test_codes == 2].tolist() == make_ablations(model, [], 0)[OURS](learned).tolist()


def test_further_groupings_reach_the_model():
    X, y, tasks = one_function(4, 6)
    years = np.tile([2001, 2002, 2003], 8)
    data = KinRegressor().training_data(X, y, np.column_stack([tasks, years]))
    fold = repeated_folds(data, 2, 1, classification=False, rng=np.random.RandomState(0))[0][0]
    train, test = Split(data, fold, False).groupings()
    rows, held = (np.concatenate([data.rows[t][parts[t]] for t in range(4)]) for parts in (fold.kept, fold.held))
    assert train[0].tolist() == tasks[rows].tolist() and train[1].tolist() == years[rows].tolist()
    assert test[0].tolist() == tasks[held].tolist() and test[1].tolist() == years[held].tolist()
