"""Probabilities and intervals of fitted models, whatever the model and the form of the data."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_score

from kernelkin import (
    AverageClassifier,
    AverageRegressor,
    MKMTRLClassifier,
    MKMTRLRegressor,
    TwoStageMKMTRLClassifier,
    TwoStageMKMTRLRegressor,
    load_model,
    save_model,
)
from kernelkin.paper import LassoRegressor, MTRLRegressor, OLSRegressor
from kernelkin.paper.model_selection import MultiTaskCV

REGRESSORS = [
    MKMTRLRegressor(C=10.0, couplings="common"),
    MKMTRLRegressor(loss="epsilon_insensitive"),
    TwoStageMKMTRLRegressor(n_rounds=500, random_state=0),
    TwoStageMKMTRLRegressor(n_rounds=500, max_exact=15, random_state=0),
    MTRLRegressor(),
    LassoRegressor(alpha=0.01),
]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(480, 2)), np.tile(np.repeat(["a", "b", "c"], 20), 8)
    y = 100 + np.sin(2 * X[:, 0]) + np.where(tasks == "a", X[:, 1], 0.0) + 0.3 * rng.normal(size=480)
    return X, y, tasks


def name_of(model):
    return f"{type(model).__name__}, {getattr(model, 'loss', '')} {getattr(model, 'max_exact', '')}".strip(" ,")


@pytest.mark.parametrize("model", REGRESSORS, ids=name_of)
def test_intervals_cover_new_rows_and_survive_saving(model, data, tmp_path):
    X, y, tasks = data
    model = clone(model).fit(X[:120], y[:120], tasks=tasks[:120])
    test = X[120:], tasks[120:]
    ends = model.predict_interval(*test, coverage=0.8)
    value, std = model.predict(*test, return_std=True)
    assert ends.shape == (360, 2)
    assert abs(((ends[:, 0] <= y[120:]) & (y[120:] <= ends[:, 1])).mean() - 0.8) < 0.1
    np.testing.assert_allclose(ends.mean(axis=1), value)
    assert 0.6 < np.sqrt(np.mean((y[120:] - value) ** 2)) / np.sqrt(np.mean(std**2)) < 1.6
    save_model(model, tmp_path / "model.kin")
    for same in (load_model(tmp_path / "model.kin").model, pickle.loads(pickle.dumps(model))):
        np.testing.assert_allclose(same.predict_interval(*test, coverage=0.8), ends)


@pytest.mark.parametrize(
    "model", [MKMTRLRegressor(), TwoStageMKMTRLRegressor(n_rounds=50, random_state=0), OLSRegressor()]
)
def test_a_pickle_computes_nothing_and_has_what_intervals_follow_from(model, data):
    X, y, tasks = data
    model = clone(model).fit(X[:120], y[:120], tasks=tasks[:120])
    again = pickle.loads(pickle.dumps(model))
    assert model.uncertainty_.data is not None
    expected = model.predict_interval(X[:3], tasks[:3])
    np.testing.assert_array_equal(again.predict_interval(X[:3], tasks[:3]), expected)
    # Once they are there, the training data are given up.
    assert model.uncertainty_.data is None
    restored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(restored.predict_interval(X[:3], tasks[:3]), expected)


@pytest.mark.parametrize(
    "model",
    [
        MKMTRLClassifier(couplings="common"),
        MKMTRLClassifier(loss="squared"),
        TwoStageMKMTRLClassifier(n_rounds=500, random_state=0),
        TwoStageMKMTRLClassifier(n_rounds=500, max_exact=20, random_state=0),
    ],
    ids=name_of,
)
def test_probabilities_are_better_than_frequencies_and_survive_saving(model, data, tmp_path):
    X, y, tasks = data
    labels = np.where(y > 100.2, "high", "low")
    model = clone(model).fit(X[:120], labels[:120], tasks=tasks[:120])
    test = X[120:], tasks[120:]
    p = model.predict_proba(*test)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    frequency = np.tile([np.mean(labels[:120] == name) for name in model.classes_], (360, 1))
    assert log_loss(labels[120:], p) < 0.85 * log_loss(labels[120:], frequency)
    assert abs(p[:, 0].mean() - (labels[120:] == "high").mean()) < 0.1
    save_model(model, tmp_path / "model.kin")
    np.testing.assert_allclose(load_model(tmp_path / "model.kin").model.predict_proba(*test), p)


def test_shapes_of_wide_data():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2))
    Y = np.column_stack([X[:, 0], X[:, 1], X.sum(axis=1)]) + 0.3 * rng.normal(size=(60, 3))
    model = AverageRegressor().fit(X, Y)
    assert model.predict_interval(X[:7]).shape == (7, 3, 2)
    assert model.predict(X[:7], return_std=True)[1].shape == (7, 3)
    p = AverageClassifier().fit(X, np.where(Y > 0, "yes", "no")).predict_proba(X[:7])
    assert p.shape == (7, 3)  # of the second class, as scikit-learn has it
    assert np.corrcoef(p.ravel(), (Y[:7] > 0).ravel())[0, 1] > 0.5


def test_classes_that_a_task_does_not_have_get_no_probability():
    rng = np.random.default_rng(2)
    X, tasks = rng.normal(size=(90, 2)), np.repeat(["two", "three"], 45)
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    y[:45] = np.minimum(y[:45], 1)
    p = AverageClassifier().fit(X, y, tasks).predict_proba(X, tasks)
    assert (p[:45, 2] == 0).all() and (p[45:] > 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0)


def test_probabilities_do_not_depend_on_the_units_of_inputs_and_intervals_follow_those_of_targets():
    rng = np.random.default_rng(4)
    X, tasks = rng.normal(size=(80, 2)), np.repeat(["a", "b"], 40)
    y = X[:, 0] + 0.3 * rng.normal(size=80)
    first, second = (AverageClassifier().fit(scale * X, y > 0, tasks) for scale in (1.0, 1024.0))
    np.testing.assert_allclose(
        second.predict_proba(1024.0 * X, tasks), first.predict_proba(X, tasks), rtol=1e-5, atol=1e-8
    )
    plain, scaled = (AverageRegressor().fit(X, scale * y + shift, tasks) for scale, shift in ((1.0, 0.0), (50.0, 7.0)))
    np.testing.assert_allclose(scaled.predict_interval(X, tasks), 50.0 * plain.predict_interval(X, tasks) + 7.0)


def test_scikit_learn_uses_the_probabilities():
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.normal(size=(120, 2)), np.repeat([0, 1], 60)])
    y = X[:, 0] + 0.5 * rng.normal(size=120) > 0
    model = AverageClassifier(task_column=2)
    assert cross_val_score(model, X, y, scoring="neg_log_loss").mean() > -0.5
    assert CalibratedClassifierCV(model, cv=3).fit(X, y).predict_proba(X).shape == (120, 2)


def test_a_search_has_the_methods_of_its_best_estimator(data):
    X, y, tasks = (part[:120] for part in data)
    search = MultiTaskCV(AverageClassifier(), {"C": [0.1, 10.0]}, cv=3, scoring="neg_log_loss", random_state=0)
    search.fit(X, y > 100, tasks)
    np.testing.assert_array_equal(search.predict_proba(X, tasks), search.best_estimator_.predict_proba(X, tasks))
    assert not hasattr(search, "predict_interval")
    regression = MultiTaskCV(AverageRegressor(), {"C": [0.1, 10.0]}, cv=3, random_state=0).fit(X, y, tasks)
    assert regression.predict_interval(X, tasks).shape == (120, 2)
    assert regression.predict(X, tasks, return_std=True)[1].shape == (120,)


def test_coverage_out_of_range(data):
    for coverage in [0, 1, 90, "most"]:
        X, y, tasks = (part[:60] for part in data)
        model = AverageRegressor().fit(X, y, tasks)
        with pytest.raises(ValueError, match=f"coverage must be a number between 0 and 1, got {coverage!r}"):
            model.predict_interval(X, tasks, coverage)


def test_classifiers_have_no_standard_deviation(data):
    X, y, tasks = (part[:60] for part in data)
    model = AverageClassifier().fit(X, y > 100, tasks)
    with pytest.raises(ValueError, match="return_std=True is only for regressors, without split"):
        model.predict(X, tasks, return_std=True)
    assert not hasattr(model, "predict_interval")
    assert not hasattr(AverageRegressor(), "predict_proba")
