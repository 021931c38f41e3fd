"""KinRegressor and KinClassifier: what they find, how they choose, and that folds do not leak."""

import pickle

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

from kernelkin import KinClassifier, KinRegressor, load_model, save_model
from kernelkin.auto.candidates import make_candidates
from kernelkin.auto.errors import ErrorPool, PooledError, average_weights, logistic_link
from kernelkin.auto.kin_fit import _Search
from kernelkin.auto.standard import Standard
from kernelkin.data import read_training
from kernelkin.fitting import Regression, RunOptions
from kernelkin.functions import CombinedFunctions
from kernelkin.model_selection import make_folds


def data(seed=0, T=3, n=24, d=3):
    """Tasks with one shared function of one column, levels and units of their own."""
    rng = np.random.default_rng(seed)
    X, tasks = rng.normal(size=(T * n, d)), np.repeat(np.arange(T), n)
    y = 10.0 ** (tasks - 1) * (np.sin(2 * X[:, 1]) + 0.1 * rng.normal(size=T * n)) + 100 * tasks
    return X, y, tasks


@pytest.fixture(scope="module")
def fitted():
    X, y, tasks = data()
    return KinRegressor(random_state=0).fit(X, y, tasks=tasks)


@pytest.mark.parametrize("estimator", [KinRegressor, KinClassifier])
def test_scikit_learn_checks(estimator):
    failed = [
        f"{check['check_name']}: {check['exception']}"
        for check in check_estimator(estimator("linear", cv=2, random_state=0), on_fail=None, on_skip=None)
        if check["status"] == "failed"
    ]
    assert not failed


def test_it_finds_the_column_and_the_units(fitted):
    X, y, tasks = data(seed=1, n=100)
    scores = fitted.score_tasks(X, y, tasks=tasks)
    assert min(scores.values()) > 0.8
    assert max(fitted.column_shares_, key=fitted.column_shares_.get) == "1"
    assert sum(fitted.column_shares_.values()) == pytest.approx(1.0)


def test_the_table_of_the_search(fitted):
    table = fitted.search_results_
    assert len(table["candidate"]) == fitted.n_candidates_
    best = table["error"].argmin()
    assert table["weight"][best] == table["weight"].max()
    assert table["weight"].sum() == pytest.approx(1.0)
    assert (table["candidate"][best], table["C"][best]) == (fitted.best_candidate_, fitted.best_C_)
    assert [m["name"] for m in fitted.members_] == table["candidate"][table["weight"] > 0].tolist()
    assert fitted.best_candidate_ in fitted.explain()


def test_predictions_are_the_weighted_average_of_the_members(fitted):
    X = data(seed=2)[0]
    functions = fitted.functions_
    assert isinstance(functions, CombinedFunctions)
    Z = (X - functions.center) / functions.scale
    codes = np.full(len(X), 2)
    mean = sum(w * f.values(Z, codes)[:, 0] for w, f in zip(functions.weights, functions.members, strict=True))
    np.testing.assert_allclose(
        fitted.predict(X, tasks=np.full(len(X), 2)), functions.location[2] + functions.spread[2] * mean
    )


def test_other_units_of_columns_and_targets_change_nothing(fitted):
    X, y, tasks = data()
    scaled = KinRegressor(random_state=0).fit(1e3 * X - 5, 1e-4 * y + 7, tasks=tasks)
    expected = fitted.predict(X, tasks=tasks)
    np.testing.assert_allclose(
        (scaled.predict(1e3 * X - 5, tasks=tasks) - 7) * 1e4, expected, atol=1e-4 * np.ptp(y[tasks == 0])
    )


def test_it_is_the_same_after_pickling_and_saving(fitted, tmp_path):
    X, _, tasks = data(seed=3)
    expected = fitted.predict(X, tasks=tasks)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(X, tasks=tasks), expected)
    save_model(fitted, tmp_path / "model.skops")
    np.testing.assert_array_equal(load_model(tmp_path / "model.skops").predict(X, tasks=tasks), expected)


def test_the_number_of_threads_and_a_cache_change_nothing(tmp_path):
    X, y, tasks = data(T=2, n=14, d=2)
    models = [
        KinRegressor("auto", cv=2, random_state=0, **options).fit(X, y, tasks=tasks)
        for options in ({}, {"n_jobs": 2, "cache": tmp_path}, {"cache": tmp_path})
    ]
    for model in models[1:]:
        np.testing.assert_array_equal(model.predict(X, tasks=tasks), models[0].predict(X, tasks=tasks))
    assert list(tmp_path.iterdir())


def test_a_time_limit_stops_after_the_first_group():
    X, y, tasks = data(T=2, n=12, d=2)
    with pytest.warns(UserWarning, match=r"time_limit=1e-06 reached: \d+ groups of candidates were not tried"):
        model = KinRegressor(random_state=0, time_limit=1e-6).fit(X, y, tasks=tasks)
    assert not model.is_complete_
    assert "was not complete" in model.explain()
    assert np.isfinite(model.predict(X, tasks=tasks)).all()


def test_an_interrupt_keeps_what_is_complete(monkeypatch):
    X, y, tasks = data(T=2, n=12, d=2)
    try_group, calls = _Search._try_group, []

    def interrupted(self, group):
        calls.append(group)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return try_group(self, group)

    monkeypatch.setattr(_Search, "_try_group", interrupted)
    with pytest.warns(UserWarning, match=r"interrupted: \d+ groups of candidates were not tried"):
        model = KinRegressor(random_state=0).fit(X, y, tasks=tasks)
    assert set(model.search_results_["candidate"]) == {candidate.name for candidate in calls[0]}


def test_classes_of_a_nonlinear_boundary_are_learned():
    rng = np.random.default_rng(4)
    X, tasks = rng.normal(size=(120, 3)), np.repeat(["a", "b", "c"], 40)
    y = np.where(np.sin(2 * X[:, 1]) > 0, "yes", "no")
    model = KinClassifier("auto", cv=3, random_state=0).fit(X, y, tasks=tasks)
    X_test, tasks_test = rng.normal(size=(300, 3)), rng.choice(["a", "b", "c"], size=300)
    truth = np.where(np.sin(2 * X_test[:, 1]) > 0, "yes", "no")
    assert model.score(X_test, truth, tasks=tasks_test) > 0.85
    decision = model.decision_function(X_test, tasks=tasks_test)
    np.testing.assert_array_equal(model.predict(X_test, tasks=tasks_test), np.where(decision > 0, "yes", "no"))


def test_tasks_that_were_not_in_training_are_predicted_by_the_common_part():
    X, y, tasks = data(n=20)
    y = np.sin(2 * X[:, 1])
    model = KinRegressor(random_state=0, unknown_tasks="common").fit(X, y, tasks=tasks)
    assert all("common" in member["name"] for member in model.members_)
    X_new = data(seed=5)[0]
    assert model.score(X_new, np.sin(2 * X_new[:, 1]), tasks=np.full(len(X_new), 99)) > 0.5


def test_precomputed_kernels_are_refused():
    with pytest.raises(ValueError, match="kernels='precomputed' leaves no columns to choose kernels for"):
        KinRegressor("precomputed").fit(np.eye(8)[:, :, None], np.arange(8.0))


def test_candidates_of_wide_data_share_no_functions():
    X, Y = np.random.default_rng(6).normal(size=(2, 20, 3))
    task_data = read_training(KinRegressor(), X, Y, None, None, classification=False)
    names = [candidate.name for candidate in make_candidates(task_data, Regression())]
    assert len(names) == len(set(names))
    assert not any("common" in name for name in names)


def test_pooled_errors_are_means_over_the_rows_of_all_tasks():
    X, y, tasks = data(seed=7)
    raw = read_training(KinRegressor(), X, y, tasks, None, classification=False)
    task_data = Standard.fit(raw, classification=False).apply(raw)
    folds = make_folds(task_data, 3, classification=False, random_state=0)
    outputs = [[np.zeros((len(held), 1)) for held in fold.held] for fold in folds]
    error = ErrorPool(task_data, folds, classification=False).measure(outputs)
    assert error.error == pytest.approx(np.mean(np.concatenate(task_data.y) ** 2))


def test_the_logistic_link_is_the_maximum_likelihood_fit():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(8)
    values = 50 * rng.normal(size=2000)
    targets = np.where(rng.random(2000) < 1 / (1 + np.exp(-(0.04 * values - 1))), 1.0, -1.0)
    slope, offset = logistic_link(values, targets, np.ones(2000))
    reference = LogisticRegression(C=1e6).fit(values[:, None], targets)
    assert slope == pytest.approx(reference.coef_[0, 0], rel=1e-3)
    assert offset == pytest.approx(reference.intercept_[0], rel=1e-3)


def test_the_slope_of_the_link_is_never_negative():
    values = np.array([1.0, -1.0, 2.0, -2.0])
    slope, offset = logistic_link(values, np.array([-1.0, 1.0, -1.0, 1.0]), np.ones(4))
    assert slope > 0
    assert np.isfinite(offset)


def test_weights_fall_by_half_a_standard_error_and_drop_what_is_negligible():
    errors = [PooledError(1.0, 0.2), PooledError(1.1, 9.0), PooledError(3.0, 9.0)]
    weights = average_weights(errors)
    assert weights[2] == 0.0
    assert weights[1] / weights[0] == pytest.approx(np.exp(-1.0))
    assert weights.sum() == pytest.approx(1.0)


def test_members_are_certified():
    X, y, tasks = data(T=2, n=14, d=2)
    plan = (
        KinRegressor("auto", cv=2, random_state=0, tol=1e-5)
        .specification()
        .plan(read_training(KinRegressor(), X, y, tasks, None, classification=False))
    )
    for member in plan.run(RunOptions()).attributes["members_"]:
        assert member["duality_gap"] <= 1e-5 * member["objective"]
