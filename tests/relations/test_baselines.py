import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_poisson_deviance

from kernelkin import KinRegressor
from kernelkin.relations.baselines import BASELINES, BOOSTING, LINEAR, ONE_FOR_ALL, leave_one_out, make_baselines
from kernelkin.relations.scores import HeldOutRows, score_rows


def problem(seed=0, n_groups=8, rows=12):
    rng = np.random.default_rng(seed)
    tasks = np.repeat([f"g{k}" for k in range(n_groups)], rows)
    X = rng.normal(size=(len(tasks), 2))
    slope = np.repeat(1.0 + 0.5 * rng.normal(size=n_groups), rows)
    level = np.repeat(rng.normal(size=n_groups), rows)
    return X, level + slope * X[:, 0] + 0.2 * rng.normal(size=len(tasks)), tasks


@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_predicts_numbers_and_classes_of_known_and_new_groups(name):
    X, y, tasks = problem()
    train = np.arange(len(y)) % 3 > 0
    model = make_baselines(False, [name])[name].fit(X[train], y[train], tasks[train])
    assert score_rows(y[~train], model.predict(X[~train], tasks[~train]), tasks[~train])["R²"] > 0.35
    assert np.isfinite(model.predict(X[:3], ["new", "g0", "other"])).all()
    for labels in (np.where(y > 0, "yes", "no"), np.digitize(y, [-0.7, 0.7])):
        model = make_baselines(True, [name])[name].fit(X[train], labels[train], tasks[train])
        p = model.predict_proba(X[~train], tasks[~train])
        assert_allclose(p.sum(axis=1), 1.0)
        share = np.unique(labels[train], return_counts=True)[1] / train.sum()
        scores = score_rows(labels[~train], p, tasks[~train], model.classes_)
        # Trees of scikit-learn, where LightGBM is not installed, hardly learn from 64 rows.
        assert scores["log loss"] < (1.2 if name == BOOSTING else 1.0) * -(share * np.log(share)).sum()
        assert scores["accuracy"] == (model.predict(X[~train], tasks[~train]) == labels[~train]).mean()


@pytest.mark.parametrize("lightgbm", [True, False])
@pytest.mark.parametrize("name", BASELINES)
def test_counts_are_rates_times_exposures(name, lightgbm, monkeypatch):
    if not lightgbm:
        monkeypatch.setattr("kernelkin.relations.baselines.find_spec", lambda name: None)
    rng = np.random.default_rng(2)
    X, f, tasks = problem(2, rows=20)
    offset = np.log(rng.uniform(0.5, 8.0, len(X)))
    y, train = rng.poisson(np.exp(offset + 0.5 * f)), np.arange(len(X)) % 3 > 0
    fitted = make_baselines(False, [name], loss="poisson")[name].fit(X[train], y[train], tasks[train], offset[train])
    rates = fitted.predict(X[~train], tasks[~train])
    assert_allclose(fitted.predict(X[~train], tasks[~train], offset[~train]), rates * np.exp(offset[~train]))
    if name in (LINEAR, BOOSTING):
        assert rates.min() > 0
        # Totals of counts agree with totals of predictions, which for trees follows from the deviance.
        assert fitted.predict(X[train], tasks[train], offset[train]).sum() == pytest.approx(y[train].sum(), rel=0.05)
        wrong = make_baselines(False, [name])[name].fit(np.column_stack([X, offset])[train], y[train], tasks[train])
        by_squares = wrong.predict(np.column_stack([X, offset])[~train], tasks[~train])
        found, other = (
            mean_poisson_deviance(y[~train], np.maximum(values, 0.01))
            for values in (rates * np.exp(offset[~train]), by_squares)
        )
        assert found < other


@pytest.mark.parametrize("lightgbm", [True, False])
def test_a_single_count_above_zero_may_be_held_out(lightgbm, monkeypatch):
    if not lightgbm:
        monkeypatch.setattr("kernelkin.relations.baselines.find_spec", lambda name: None)
    X, _, tasks = problem()
    y = np.zeros(len(X))
    y[7] = 2.0
    found = make_baselines(False, [BOOSTING], loss="poisson")[BOOSTING].fit(X, y, tasks).predict(X, tasks)
    assert np.isfinite(found).all() and found.min() >= 0


def test_the_linear_mixed_model_of_counts_is_the_structure_of_kin():
    X, f, tasks = problem(rows=15)
    y, offset = np.random.default_rng(1).poisson(np.exp(0.5 * f)), np.linspace(-1.0, 1.0, len(X))
    fitted = make_baselines(False, [LINEAR], loss="poisson")[LINEAR].fit(X, y, tasks, offset)
    kin = KinRegressor(loss="poisson", random_state=0).fit(X, y, tasks=tasks, offset=offset)
    (member,) = (m for m in kin.functions_.members if m.structure.name == "slopes")
    assert_allclose(fitted.fitted_.model.value_, member.model.value_, rtol=1e-4)


def test_baselines_take_tables_groups_of_one_row_and_of_one_class():
    for name in BASELINES:
        X, y, _ = problem(n_groups=3, rows=10)
        tasks = np.array(["a"] * 14 + ["b"] * 15 + ["c"])
        table = pd.DataFrame({"x": X[:, 0], "day": ["Mon", "Tue"] * 15})
        table.loc[3, "x"] = np.nan
        found = make_baselines(False, [name])[name].fit(table, y, tasks).predict(table, tasks)
        assert np.isfinite(found).all()
        labels = np.where(tasks == "b", 1, (y > 0).astype(int))
        model = make_baselines(True, [name])[name].fit(table, labels, tasks)
        assert np.isfinite(model.predict_proba(table, tasks)).all()
        assert (clone(model).fit(table, np.ones(30), tasks).predict(table, tasks) == 1).all()


@pytest.mark.parametrize("name", [ONE_FOR_ALL, LINEAR, BOOSTING, "scikit-learn"])
def test_models_of_all_groups_know_further_groupings(name, monkeypatch):
    if name == "scikit-learn":
        monkeypatch.setattr("kernelkin.relations.baselines.find_spec", lambda name: None)
        name = BOOSTING
    rng = np.random.default_rng(0)
    groups = {"pupil": rng.integers(8, size=240), "rater": rng.integers(6, size=240)}
    X = rng.normal(size=(240, 1))
    y = rng.normal(size=8)[groups["pupil"]] + 2.0 * rng.normal(size=6)[groups["rater"]] + 0.3 * rng.normal(size=240)
    train = {key: codes[:160] for key, codes in groups.items()}
    model = make_baselines(False, [name])[name].fit(X[:160], y[:160], train)
    test = {key: codes[160:] for key, codes in groups.items()}
    assert score_rows(y[160:], model.predict(X[160:], test), test["pupil"])["R²"] > 0.85
    assert np.isfinite(model.predict(X[160:], test | {"rater": np.full(80, 9)})).all()


def test_scikit_learn_boosts_where_lightgbm_is_not_installed(monkeypatch):
    X, y, tasks = problem()
    monkeypatch.setattr("kernelkin.relations.baselines.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    monkeypatch.setattr("kernelkin.relations.baselines.TREES", (20,))
    model = make_baselines(False)["gradient boosting"].fit(X, y, tasks)
    assert score_rows(y, model.predict(X, tasks), tasks)["R²"] > 0.5
    model = make_baselines(True)["gradient boosting"].fit(X, y > 0, tasks)
    assert np.mean(model.predict(X, tasks) == (y > 0)) > 0.8


def test_leave_one_out_values_are_those_of_fits_without_the_row():
    rng = np.random.default_rng(0)
    for n, m in ((12, 4), (6, 9)):
        F, Y = rng.normal(size=(n, m)), rng.normal(size=(n, 2))
        found = leave_one_out(F, Y, np.array([0.3, 2.0]))
        for i in range(n):
            rest = np.delete(np.arange(n), i)
            assert_allclose(found[1, i], Ridge(2.0).fit(F[rest], Y[rest]).predict(F[i : i + 1])[0])


def test_a_separate_model_sees_its_own_rows_alone():
    X, y, tasks = problem(n_groups=2, rows=15)
    model = make_baselines(False)["a separate model for each group"].fit(X, y, tasks)
    own = np.flatnonzero(tasks == "g0")
    F = model._features((X[own] - model.center_) / model.scale_, None, model.maps_[0], 0.0)
    reference = Ridge(model.penalty_).fit(F, y[own])
    assert_allclose(model.predict(X[own], tasks[own]), reference.predict(F))


def test_scores_are_those_of_scikit_learn_and_small_groups_have_none():
    from sklearn.metrics import log_loss, r2_score, root_mean_squared_error

    rng = np.random.default_rng(0)
    y, predicted, codes = rng.normal(size=14), rng.normal(size=14), np.repeat([0, 1, 2], [6, 4, 4])
    found = score_rows(y, predicted, codes)
    assert list(found) == ["RMSE", "R²", "R² within groups"]
    assert_allclose(found["RMSE"], root_mean_squared_error(y, predicted))
    assert_allclose(found["R²"], r2_score(y, predicted))
    level = np.repeat([100.0, 0.0, -100.0], [6, 4, 4])
    shifted = score_rows(y + level, predicted + level, codes)
    assert_allclose(shifted["R² within groups"], found["R² within groups"])
    assert shifted["R²"] > 0.99
    of_groups = HeldOutRows(np.arange(3), codes, y, predicted, "", wide=True).group_scores()
    assert_allclose(of_groups[0], r2_score(y[:6], predicted[:6]))
    assert np.isnan(of_groups[1:]).all()
    p = rng.dirichlet([1, 1], size=14)
    labels = np.where(y > 0, "yes", "no")
    scores = score_rows(labels, p, codes, np.array(["no", "yes"]))
    assert list(scores) == ["log loss", "AUC", "accuracy"]
    assert_allclose(scores["log loss"], log_loss(labels, p))
    right = np.array(["no", "yes"])[p.argmax(axis=1)] == labels
    of_groups = HeldOutRows(np.arange(3), codes, labels, p, "", classes=np.array(["no", "yes"])).group_scores()
    assert_allclose(of_groups, [right[:6].mean(), np.nan, np.nan])


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="no baseline is named 'linear'"):
        make_baselines(False, ["linear"])
