"""KinRegressor and KinClassifier: what they find, how they choose, and that folds do not leak."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

from kernelkin import KinClassifier, KinRegressor, load_model, save_model
from kernelkin.auto.candidates import make_candidates
from kernelkin.auto.kin_fit import KinPlan
from kernelkin.auto.standard import Standard
from kernelkin.auto.weights import PRIOR_ROWS, average_weights, own_choices, stack_weights
from kernelkin.data import read_training
from kernelkin.fitting import Regression, RunOptions
from kernelkin.functions import CombinedFunctions
from kernelkin.model_selection import make_folds
from kernelkin.model_selection.pooled import ErrorPool, PooledError
from scikit_learn_checks import PROBABILITIES
from short_search import PLACE, cheap_candidates, few_candidates, small_tasks


@pytest.fixture(scope="module")
def fitted():
    X, y, tasks = small_tasks()
    return KinRegressor(random_state=0).fit(X, y, tasks=tasks)


@pytest.mark.filterwarnings("ignore:no tasks were given")
def test_scikit_learn_checks(monkeypatch):
    monkeypatch.setattr(PLACE, few_candidates)
    found = check_estimator(KinRegressor("linear", cv=2, random_state=0), on_fail=None, on_skip=None)
    assert not [f"{each['check_name']}: {each['exception']}" for each in found if each["status"] == "failed"]


@pytest.mark.filterwarnings("ignore:no tasks were given")
def test_scikit_learn_checks_of_classes(monkeypatch):
    # The others are those of the regressor, which reads its arguments in the same way.
    monkeypatch.setattr(PLACE, few_candidates)
    model, ran = KinClassifier("linear", cv=2, random_state=0), 0
    for estimator, check in estimator_checks_generator(model):
        name = check.func.__name__
        if "class" in name and name not in PROBABILITIES:
            check(estimator)
            ran += 1
    assert ran >= 6


def test_it_finds_the_column_and_the_units(fitted):
    X, y, tasks = small_tasks(seed=1, n=100)
    scores = fitted.score_tasks(X, y, tasks=tasks)
    assert min(scores.values()) > 0.8
    single = {name: share for name, share in fitted.column_shares_.items() if name != "all columns together"}
    assert max(single, key=single.get) == "1"
    assert single["1"] > 5 * max(single["0"], single["2"])
    assert sum(fitted.column_shares_.values()) == pytest.approx(1.0)


def test_the_table_of_the_search(fitted):
    table = fitted.search_results_
    assert len(table["candidate"]) == fitted.n_candidates_
    assert not table["weight"][table["n_folds"] < 5].any()
    assert table["weight"].sum() == pytest.approx(1.0)
    first = table["weight"].argmax()
    assert (table["candidate"][first], table["C"][first]) == (fitted.best_candidate_, fitted.best_C_)
    assert [m["name"] for m in fitted.members_] == table["candidate"][table["weight"] > 0].tolist()
    least = np.where(table["n_folds"] == 5, table["error"], np.inf).argmin()
    assert f"The best is {table['candidate'][least]}: {table['error'][least]:.4g}" in fitted.explain()


def test_predictions_are_the_weighted_average_of_the_members(fitted):
    X = small_tasks(seed=2)[0]
    functions = fitted.functions_
    assert isinstance(functions, CombinedFunctions)
    Z = (X - functions.center) / functions.scale
    codes = np.full(len(X), 2)
    mean = sum(
        w * f.values(Z, codes)[:, 0] for w, f in zip(functions.task_weights[:, 2], functions.members, strict=True)
    )
    np.testing.assert_allclose(
        fitted.predict(X, tasks=np.full(len(X), 2)), functions.location[2] + functions.spread[2] * mean
    )


def test_a_task_may_have_weights_of_its_own(fitted):
    """Predictions and the spread of the members follow the weights of the task; other tasks are as before."""
    functions = fitted.functions_
    own = np.zeros_like(functions.task_weights)
    own[:, :2], own[-1, 2] = functions.weights[:, np.newaxis], 1.0
    changed = replace(functions, task_weights=own)
    X = small_tasks(seed=2)[0][:5]
    Z = (X - functions.center) / functions.scale
    codes = np.full(5, 2)
    last = functions.members[-1].values(Z, codes)[:, 0]
    np.testing.assert_allclose(
        changed.values(X, codes)[:, 0], functions.location[2] + functions.spread[2] * last, rtol=1e-12
    )
    np.testing.assert_allclose(changed.spreads(X, codes), 0.0, atol=1e-12)
    others = np.zeros(5, dtype=int)
    np.testing.assert_array_equal(changed.values(X, others), functions.values(X, others))
    np.testing.assert_allclose(changed.spreads(X, None)[:, 2], 0.0, atol=1e-12)


def test_a_task_leaves_the_average_only_where_its_rows_are_certain():
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(4), [40, 40, 10, 40])
    gains = rng.normal(size=(130, 3))
    gains[tasks == 0, 1] += 2.0  # certain
    gains[tasks == 2, 1] += 2.0  # as large, on too few rows
    gains[tasks == 3, 2] += 0.1  # within chance
    np.testing.assert_array_equal(own_choices(gains, tasks, 4), [1, -1, -1, -1])
    # Of two models that are better, the one of which that is more certain, not the one with the larger mean.
    gains[tasks == 0, 1], gains[tasks == 0, 2] = 2.0 + 3.0 * (-1.0) ** np.arange(40), 1.5
    assert own_choices(gains, tasks, 4)[0] == 2


def test_other_units_of_columns_and_targets_change_nothing(monkeypatch):
    monkeypatch.setattr(PLACE, cheap_candidates)
    X, y, tasks = small_tasks()
    expected = KinRegressor(cv=2, random_state=0).fit(X, y, tasks=tasks).predict(X, tasks=tasks)
    scaled = KinRegressor(cv=2, random_state=0).fit(1e3 * X - 5, 1e-4 * y + 7, tasks=tasks)
    np.testing.assert_allclose(
        (scaled.predict(1e3 * X - 5, tasks=tasks) - 7) * 1e4, expected, atol=1e-4 * np.ptp(y[tasks == 0])
    )


def test_it_is_the_same_after_pickling_and_saving(fitted, tmp_path):
    X, _, tasks = small_tasks(seed=3)
    expected = fitted.predict(X, tasks=tasks)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(X, tasks=tasks), expected)
    save_model(fitted, tmp_path / "model.skops")
    np.testing.assert_array_equal(load_model(tmp_path / "model.skops").predict(X, tasks=tasks), expected)


def test_members_that_do_not_converge_are_left_out(monkeypatch):
    monkeypatch.setattr(PLACE, cheap_candidates)
    X, y, tasks = small_tasks(T=3, n=14, d=2)
    fit_group, stopped = KinPlan._fit_group, []

    def fit(self, trials, options):
        fitted = fit_group(self, trials, options)
        if stopped:
            return fitted
        stopped.extend(trials)
        return [replace(each, warnings=(("stopped at max_iter", ConvergenceWarning),)) for each in fitted]

    monkeypatch.setattr(KinPlan, "_fit_group", fit)
    model = KinRegressor(cv=2, random_state=0).fit(X, y, tasks=tasks)
    names = [member["name"] for member in model.members_]
    assert names and stopped[0].candidate.name not in names
    assert sum(member["weight"] for member in model.members_) == pytest.approx(1.0)
    table = model.search_results_
    assert set(table["candidate"][~table["converged"]]) == {stopped[0].candidate.name}


def test_classes_of_a_nonlinear_boundary_are_learned():
    rng = np.random.default_rng(4)
    X, tasks = rng.normal(size=(120, 3)), np.repeat(["a", "b", "c"], 40)
    y = np.where(np.sin(2 * X[:, 1]) > 0, "yes", "no")
    model = KinClassifier("auto", cv=2, random_state=0).fit(X, y, tasks=tasks)
    X_test, tasks_test = rng.normal(size=(300, 3)), rng.choice(["a", "b", "c"], size=300)
    truth = np.where(np.sin(2 * X_test[:, 1]) > 0, "yes", "no")
    assert model.score(X_test, truth, tasks=tasks_test) > 0.85
    decision = model.decision_function(X_test, tasks=tasks_test)
    np.testing.assert_array_equal(model.predict(X_test, tasks=tasks_test), np.where(decision > 0, "yes", "no"))


def test_tasks_that_were_not_in_training_are_predicted_by_the_common_part():
    X, y, tasks = small_tasks(n=20)
    y = np.sin(2 * X[:, 1])
    model = KinRegressor(cv=2, random_state=0, unknown_tasks="common").fit(X, y, tasks=tasks)
    shared = ("with a common part", "one function for all tasks")
    assert all(any(words in member["name"] for words in shared) for member in model.members_)
    X_new = small_tasks(seed=5)[0]
    assert model.score(X_new, np.sin(2 * X_new[:, 1]), tasks=np.full(len(X_new), 99)) > 0.5


@pytest.mark.filterwarnings("ignore:no tasks were given")
def test_precomputed_kernels_are_refused():
    with pytest.raises(ValueError, match="kernels='precomputed' leaves no columns to choose kernels for"):
        KinRegressor("precomputed").fit(np.eye(8)[:, :, None], np.arange(8.0))


def test_candidates_of_wide_data_share_no_functions():
    X, Y = np.random.default_rng(6).normal(size=(2, 20, 3))
    task_data = read_training(X, Y, None, None, classification=False)
    names = [candidate.name for candidate in make_candidates(task_data, Regression())]
    assert len(names) == len(set(names))
    assert not any("common" in name for name in names)


def test_pooled_errors_are_means_over_the_rows_of_all_tasks():
    X, y, tasks = small_tasks(seed=7)
    raw = read_training(X, y, tasks, None, classification=False)
    task_data = Standard.fit(raw, classification=False).apply(raw)
    folds = make_folds(task_data, 3, classification=False, random_state=0)
    outputs = [[np.zeros((len(held), 1)) for held in fold.held] for fold in folds]
    error = ErrorPool(task_data, folds, classification=False).measure(outputs)
    assert error.error == pytest.approx(np.mean(np.concatenate(task_data.y) ** 2))


def test_the_difference_of_two_candidates_is_paired():
    X, y, tasks = small_tasks(seed=7)
    task_data = read_training(X, y, tasks, None, classification=False)
    folds = make_folds(task_data, 3, classification=False, random_state=0)[:1]
    pool = ErrorPool(task_data, folds, classification=False)
    held = [y[held] for y, held in zip(task_data.y, folds[0].held, strict=True)]
    # Errors that are everywhere larger by one are certain to be larger, however they vary.
    near, far = ([[y[:, None] + np.sqrt(np.arange(len(y)) + shift)[:, None] for y in held]] for shift in (0.0, 1.0))
    mean, error = pool.difference(far, near)
    assert mean == pytest.approx(1.0, rel=1e-6)
    assert error == pytest.approx(0.0, abs=1e-6)


def test_weights_fall_by_half_a_standard_error_and_drop_what_is_negligible():
    errors = [PooledError(1.0, 0.2), PooledError(1.1, 9.0), PooledError(3.0, 9.0)]
    weights = average_weights(errors)
    assert weights[2] == 0.0
    assert weights[1] / weights[0] == pytest.approx(np.exp(-1.0))
    assert weights.sum() == pytest.approx(1.0)


def test_the_stack_minimises_its_error_over_the_simplex():
    rng = np.random.default_rng(10)
    y, costs = rng.normal(size=60), rng.uniform(0.5, 2.0, size=60)
    values = np.column_stack([y + rng.normal(size=60), y + rng.normal(size=60), rng.normal(size=60)])
    start = np.array([1.0, 0.0, 0.0])

    def error(w):
        return costs @ (values @ w - y) ** 2 + PRIOR_ROWS * ((w - start) ** 2).sum()

    found = stack_weights(start, values, y, costs)
    assert found.sum() == pytest.approx(1.0)
    assert found[1] > 0.1
    for other in rng.dirichlet(np.ones(3), size=500):
        assert error(found) <= error(other) * (1 + 1e-6)


def test_a_stack_of_equal_members_keeps_the_weights_it_is_drawn_to():
    y = np.random.default_rng(11).normal(size=40)
    start = np.array([0.7, 0.3])
    np.testing.assert_allclose(stack_weights(start, np.column_stack([y, y]), y, np.ones(40)), start, atol=1e-5)


def test_rare_classes_count_in_errors_as_they_do_in_machines():
    rng = np.random.default_rng(12)
    X, tasks = rng.normal(size=(80, 2)), np.repeat([0, 1], 40)
    y = (np.arange(80) % 10 == 0).astype(int)
    raw = read_training(X, y, tasks, None, classification=True)
    folds = make_folds(raw, 2, classification=True, random_state=0)
    costs = [np.where(y == 1, 5.0, 5.0 / 9.0) for y in raw.y]
    outputs = [[np.zeros((len(held), 1)) for held in fold.held] for fold in folds]
    plain, balanced = (
        ErrorPool(raw, folds, classification=True, costs=each).measure(outputs) for each in (None, costs)
    )
    # Without values nothing is known but the frequencies of the classes, which are 1 to 9, or even.
    assert plain.error == pytest.approx(-0.1 * np.log(0.1) - 0.9 * np.log(0.9), rel=0.02)
    assert balanced.error == pytest.approx(np.log(2), rel=0.02)
    assert (plain.slope, plain.offset) == (balanced.slope, balanced.offset)


def test_members_are_certified():
    X, y, tasks = small_tasks(T=2, n=14, d=2)
    plan = (
        KinRegressor("auto", cv=2, random_state=0, tol=1e-5)
        .specification()
        .plan(read_training(X, y, tasks, None, classification=False))
    )
    for member in plan.run(RunOptions()).attributes["members_"]:
        assert member["duality_gap"] <= 1e-5 * member["objective"]


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_targets_keep_their_level_whatever_their_spread(spread):
    X, tasks = np.random.default_rng(0).normal(size=(40, 2)), np.repeat([0, 1], 20)
    y = np.where(tasks == 1, 50.0, 70.0) + spread * np.tile([-1.0, 1.0], 20)
    model = KinRegressor("auto", cv=2, random_state=0).fit(X, y, tasks=tasks)
    np.testing.assert_allclose(
        model.predict(X, tasks=tasks), np.where(tasks == 1, 50.0, 70.0), atol=1e-6 + 1.5 * spread
    )
