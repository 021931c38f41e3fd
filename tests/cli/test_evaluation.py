import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import r2_score

from kernelkin import MKMTRLClassifier, MKMTRLRegressor
from kernelkin.cli.evaluation import hold_out, predict_baseline, predict_entries, read_entries, score_models, shorten
from kernelkin.data.forms import read_training
from kernelkin.relations import SeparateModels
from kernelkin.tables import TableSchema

rng = np.random.default_rng(0)
TASKS = np.repeat(["a", "b"], [40, 24])
X = rng.normal(size=(64, 2))
Y = np.sin(X[:, 0])
LABELS = np.array(["a", "b"])


def schema_of(y, train, *, regression):
    """The schema of some rows, and the table of all."""
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "task": TASKS, "y": y})
    return TableSchema.fit(frame.iloc[train], "task", "y", regression=regression), frame


def fitted(model, schema, frame):
    return model.fit(schema.encode(frame), schema.targets(frame), tasks=schema.tasks(frame))


def test_a_share_of_every_task_and_class_is_held_out():
    y = np.r_[np.repeat([0, 1], [30, 10]), np.repeat([0, 1], [23, 1])]
    data = read_training(X, y, TASKS, classification=True)
    train, test = hold_out(data, 0.25, 0, classification=True)
    counts = [np.bincount(y[test][TASKS[test] == task], minlength=2).tolist() for task in "ab"]
    assert counts == [[8, 3], [6, 0]]
    assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(64))
    assert not np.array_equal(test, hold_out(data, 0.25, 1, classification=True)[1])


def test_scores_are_those_of_scikit_learn():
    """In the units of the table: training rows have another mean and spread than all rows."""
    y = 1000 + 50 * Y
    train, test = np.arange(0, 64, 2), np.arange(1, 64, 2)
    schema, frame = schema_of(y, train, regression=True)
    model = fitted(MKMTRLRegressor(), schema, frame.iloc[train])
    values = {
        "ours": predict_entries(model, schema, frame.iloc[test], LABELS, None),
        "alone": predict_baseline(SeparateModels(), schema, frame.iloc[train], frame.iloc[test], LABELS, None),
    }
    targets, codes, _ = read_entries(schema, frame.iloc[test], LABELS)
    overall, scores = score_models(targets, codes, 2, values, None, wide=False)
    assert_allclose(targets, y[test])
    assert_allclose(values["ours"], schema.restore(model.predict(schema.encode(frame.iloc[test]), tasks=TASKS[test])))
    for name, predicted in values.items():
        assert_allclose(overall[name]["R²"], r2_score(y[test], predicted))
        own = [r2_score(y[test][codes == t], predicted[codes == t]) for t in (0, 1)]
        assert_allclose(scores[name], own)
        assert min(own) > 0.5


def test_accuracy_of_tasks_with_different_classes():
    y = np.where(TASKS == "a", np.digitize(X[:, 0], [-0.5, 0.5]), 5 + (X[:, 1] > 0))
    schema, frame = schema_of(y, slice(None), regression=False)
    model, classes = fitted(MKMTRLClassifier(), schema, frame), np.unique(y)
    p = predict_entries(model, schema, frame, LABELS, classes)
    assert_allclose(p, model.predict_proba(schema.encode(frame), tasks=TASKS))
    alone = predict_baseline(SeparateModels(classification=True), schema, frame, frame, LABELS, classes)
    assert p.shape == alone.shape == (64, 5)
    codes = (TASKS == "b").astype(int)
    overall, scores = score_models(y, codes, 2, {"ours": p, "alone": alone}, classes, wide=False)
    predicted = classes[p.argmax(axis=1)]
    assert_allclose(scores["ours"], [np.mean((predicted == y)[codes == t]) for t in (0, 1)])
    assert_allclose(overall["ours"]["accuracy"], np.mean(predicted == y))


@pytest.mark.parametrize("gap", [False, True])
def test_every_known_target_of_wide_data_is_an_entry(gap):
    frame = pd.DataFrame({"x": X[:, 0], "up": 100 + Y, "down": -Y})
    if gap:
        frame.loc[0, "up"] = np.nan
    schema = TableSchema.fit(frame, None, ["up", "down"], regression=True)
    labels = np.array(["up", "down"])
    y, codes, rows = read_entries(schema, frame, labels)
    assert np.bincount(codes).tolist() == [64 - gap, 64] and rows[0] == gap
    model = MKMTRLRegressor(C=100).fit(schema.encode(frame), schema.targets(frame))
    values = {"ours": predict_entries(model, schema, frame, labels, None)}
    values["alone"] = predict_baseline(SeparateModels(), schema, frame, frame, labels, None)
    overall, scores = score_models(y, codes, 2, values, None, wide=True)
    for name in values:
        assert list(overall[name]) == ["mean R²"] and overall[name]["mean R²"] == np.mean(scores[name]) > 0.9


def test_a_long_table_is_shortened_in_the_middle():
    rows = [[str(i), "x"] for i in range(50)]
    short = list(shorten(rows, 10))
    assert short[:5] == rows[:5]
    assert short[5] == ["... 40 more ...", ""]
    assert short[6:] == rows[-5:]
    assert list(shorten(rows[:10], 10)) == rows[:10]
