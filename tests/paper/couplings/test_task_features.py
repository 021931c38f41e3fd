"""Features of tasks: how they are read, the couplings they make, and the prediction of tasks without rows."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, cross_val_score

from kernelkin import (
    KinRegressor,
    MKMTRLClassifier,
    MKMTRLRegressor,
    MKMTRLRegressorCV,
    TwoStageMKMTRLRegressor,
    gaussian_kernels,
    load_model,
    save_model,
)
from kernelkin.data.forms import read_training
from kernelkin.paper.couplings import read_couplings
from kernelkin.paper.model_selection import MultiTaskCV
from kernelkin.paper.task_features import level_weights

KERNELS = gaussian_kernels((1.0, 3.0))
LABELS = np.array(["a", "b", "c", "d"])
SIZE, REGION = np.array([1.0, 2.0, 4.0, 7.0]), np.array(["n", "s", "n", "s"])
TABLE = pd.DataFrame({"size": SIZE, "region": REGION}, index=LABELS)
SIMILAR = np.array([[2.0, 1.0, 0.0, 0.0], [1.0, 2.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.5], [0.0, 0.0, 0.5, 1.0]])


def make_shops(seed=0, n_tasks=12, n_rows=12):
    """Tasks whose slope and level follow their size: labels, table, X, y, tasks."""
    rng = np.random.default_rng(seed)
    labels, size = np.array([f"shop{t:02}" for t in range(n_tasks)]), np.linspace(-1.5, 1.5, n_tasks)
    code = np.repeat(np.arange(n_tasks), n_rows)
    X = rng.normal(size=(len(code), 2))
    y = np.sin(1.5 * X[:, 0]) + size[code] * X[:, 1] + 2 * size[code] + 0.1 * rng.normal(size=len(code))
    return pd.DataFrame({"size": size}, index=labels), X, y, labels[code]


def training_data():
    tasks = np.repeat(LABELS, 5)
    X = np.random.default_rng(0).normal(size=(20, 2))
    return read_training(X, X[:, 0], tasks, None, classification=False)


def matrices(task_features):
    return {coupling.name: coupling.matrix for coupling in read_couplings(None, training_data(), 1.0, task_features)}


def test_all_forms_of_a_table_make_the_same_couplings():
    expected = matrices(TABLE)
    assert list(expected) == ["features(0.5)", "features(1)"]
    rows = dict(zip(LABELS.tolist(), TABLE.to_numpy(dtype=object), strict=True))
    shuffled = TABLE.loc[["d", "b", "a", "c"]]
    extended = pd.concat([shuffled, pd.DataFrame({"size": [9.0], "region": ["w"]}, index=["e"])])
    for form in (shuffled, rows, TABLE.to_numpy(dtype=object), extended):
        for name, matrix in matrices(form).items():
            np.testing.assert_allclose(matrix, expected[name], atol=1e-12)
    assert list(matrices({"shop": TABLE, "like": (LABELS, SIMILAR)})) == ["shop(0.5)", "shop(1)", "like"]


def test_the_kernel_is_gaussian_on_standardised_numbers_and_categories():
    standard = (SIZE - SIZE.mean()) / SIZE.std()
    features = np.column_stack([standard, REGION == "n", REGION == "s"])
    squares = np.square(features[:, np.newaxis] - features).sum(axis=2)
    unit = np.median(squares[squares > 0])
    np.testing.assert_allclose(matrices(TABLE)["features(1)"], np.exp(-0.5 * squares / unit), atol=1e-12)
    np.testing.assert_allclose(matrices(TABLE)["features(0.5)"], np.exp(-2.0 * squares / unit), atol=1e-12)


@pytest.mark.parametrize("form", [(LABELS, SIMILAR), pd.DataFrame(SIMILAR, LABELS, LABELS)])
def test_kernels_between_tasks_are_scaled_to_unit_diagonal(form):
    expected = np.array([[1, 0.5, 0, 0], [0.5, 1, 0, 0], [0, 0, 1, 0.5], [0, 0, 0.5, 1]])
    np.testing.assert_allclose(matrices(form)["features"], expected, atol=1e-12)
    stacked = matrices({"drug": (LABELS, np.stack([SIMILAR, np.eye(4)]))})
    np.testing.assert_allclose(stacked["drug 0"], expected, atol=1e-12)
    np.testing.assert_allclose(stacked["drug 1"], np.eye(4), atol=1e-12)


@pytest.mark.parametrize(
    "features, message",
    [
        (TABLE.iloc[:3], r"task_features: 'features' has no row for task 'd'"),
        ({"shop": TABLE, "like": (LABELS[:2], np.eye(2))}, r"task_features: 'like' has no row for task 'c', 'd'"),
        (pd.concat([TABLE, TABLE.iloc[:1]]), r"task_features 'features' contains task 'a' more than once"),
        (TABLE.assign(size=[1.0, np.nan, 2.0, 3.0]), r"column 'size': the value of task 'b' is missing"),
        (np.ones((3, 2)), r"is an array of 3 rows without names of tasks; 4 tasks need a row each"),
        ((LABELS, np.eye(3)), r"4 tasks need a kernel of shape \(4, 4\), got \(3, 3\)"),
        ((LABELS, SIMILAR - 2 * np.eye(4)), r"is not positive semi-definite: its smallest eigenvalue is -1.5"),
        ((LABELS, np.triu(np.ones((4, 4)))), r"task_features 'features' is not a finite symmetric matrix"),
        ({}, "task_features is an empty dict"),
    ],
)
def test_faulty_features_are_named(features, message):
    with pytest.raises(ValueError, match=message):
        matrices(features)


def test_new_rows_of_a_factor_extend_the_kernel():
    extended = pd.concat([TABLE, pd.DataFrame({"size": [3.0], "region": ["n"]}, index=["e"])])
    for coupling in read_couplings(None, training_data(), 0.3, extended):
        row = coupling.kernel.values[coupling.kernel.labels == "e"]
        np.testing.assert_allclose(coupling.factor_of_new(row) @ coupling.factor.T, coupling.charge * row, atol=1e-9)


def test_levels_follow_features_where_these_say_something():
    x = np.linspace(0, 3, 10)
    kernel = np.exp(-0.5 * np.square(x[:, np.newaxis] - x))
    new = np.exp(-0.5 * np.square(np.array([[1.6]]) - x))
    assert (level_weights(kernel, new, np.sin(x)[:, np.newaxis]) @ np.sin(x))[0] == pytest.approx(np.sin(1.6), abs=0.02)
    noise = np.array([1.0, -1, 1, -1, 1, -1, 1, -1, 1, -1])
    assert (level_weights(kernel, new, noise[:, np.newaxis]) @ noise)[0] == pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize(
    "model",
    [
        MKMTRLRegressor(KERNELS, C=10.0, couplings="common"),
        MKMTRLRegressor(KERNELS, C=10.0, loss="epsilon_insensitive"),
        TwoStageMKMTRLRegressor(KERNELS, C=10.0, n_rounds=500, random_state=0),
    ],
)
def test_a_task_without_rows_is_predicted_by_its_features(model):
    table, X, y, tasks = make_shops()
    known = ~np.isin(tasks, ["shop04", "shop08"])
    model = model.set_params(task_features=table).fit(X[known], y[known], tasks=tasks[known])
    prediction = model.predict(X[~known], tasks=tasks[~known])
    assert 1 - np.square(prediction - y[~known]).sum() / np.square(y[~known] - y[~known].mean()).sum() > 0.8
    split = model.predict(X[~known], tasks=tasks[~known], split=True)
    np.testing.assert_allclose(split.parts.sum(axis=1) + split.intercept, prediction, atol=1e-9)
    assert set(model.score_tasks(X, y, tasks=tasks)) == set(table.index)


def test_a_new_task_with_the_features_of_another_has_its_shared_part():
    table, X, y, tasks = make_shops()
    twin = pd.concat([table, table.iloc[[3]].rename(index={"shop03": "twin"})])
    model = MKMTRLRegressor(KERNELS, C=10.0, couplings="common", task_features=twin).fit(X, y, tasks=tasks)
    shared = [model.predict(X, tasks=np.full(len(X), task), split=True).shared for task in ("twin", "shop03")]
    for name in shared[0]:
        np.testing.assert_allclose(shared[0][name], shared[1][name], atol=1e-7)


def test_cross_validation_over_tasks_measures_it():
    table, X, y, tasks = make_shops()
    columns = pd.DataFrame(X, columns=["u", "v"]).assign(shop=tasks)
    folds = GroupKFold(4)
    options = {"C": 10.0, "couplings": "common", "task_column": "shop"}
    scores = {}
    for name, more in (("features", {"task_features": table}), ("common", {"unknown_tasks": "common"})):
        model = MKMTRLRegressor(KERNELS, **options, **more)
        scores[name] = cross_val_score(model, columns, y, groups=tasks, cv=folds).mean()
    assert scores["features"] > 0.5 > scores["common"]


@pytest.mark.parametrize(
    "model",
    [
        MultiTaskCV(MKMTRLRegressor(KERNELS, couplings="common"), {"C": [1.0, 10.0]}, cv=3, random_state=0),
        KinRegressor(cv=2, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_searches_are_measured_on_tasks_they_have_not_seen(model):
    table, X, y, tasks = make_shops(n_tasks=6, n_rows=8)
    columns, scores = pd.DataFrame(X, columns=["u", "v"]).assign(shop=tasks), {}
    inside = "estimator__" if isinstance(model, MultiTaskCV) else ""
    for name, value in (("unknown_tasks", "common"), ("task_features", table)):
        given = clone(model).set_params(**{f"{inside}task_column": "shop", f"{inside}{name}": value})
        found = cross_val_score(given, columns, y, groups=tasks, cv=GroupKFold(3), error_score="raise")
        scores[str(value)[:7]] = found.mean()
    assert max(scores, key=scores.get) != "common"


def test_the_default_grid_has_only_what_can_predict_unknown_tasks():
    _, X, y, tasks = make_shops(n_tasks=4, n_rows=8)
    search = MKMTRLRegressorCV(KERNELS, cv=2, unknown_tasks="common", random_state=0).fit(X, y, tasks=tasks)
    assert {params["couplings"] for params in search.cv_results_["params"]} == {"common"}
    assert np.isfinite(search.predict(X[:2], tasks=["new", "new"])).all()


def test_classes_of_a_new_task():
    table, X, y, tasks = make_shops()
    known = tasks != "shop05"
    labels = np.where(y > 2 * table["size"].loc[tasks].to_numpy(), "up", "down")
    model = MKMTRLClassifier(KERNELS, C=10.0, task_features=table).fit(X[known], labels[known], tasks=tasks[known])
    assert model.score_tasks(X, labels, tasks=tasks)["shop05"] > 0.7
    assert model.decision_function(X[~known], tasks=tasks[~known]).shape == (12,)
    np.testing.assert_allclose(model.predict_proba(X[~known], tasks=tasks[~known]).sum(axis=1), 1.0)


def test_a_new_task_is_less_certain_than_known_ones():
    table, X, y, tasks = make_shops()
    known = tasks != "shop05"
    model = MKMTRLRegressor(KERNELS, C=10.0, couplings="common", task_features=table)
    model.fit(X[known], y[known], tasks=tasks[known])
    spreads = [model.predict(X[~known], tasks=np.full(12, t), return_std=True)[1].mean() for t in ("shop05", "shop06")]
    assert spreads[0] > spreads[1]
    ends = model.predict_interval(X[~known], tasks=tasks[~known])
    assert (ends[:, 0] < ends[:, 1]).all()


def test_kin_predicts_new_tasks_from_their_features():
    table, X, y, tasks = make_shops(n_tasks=10, n_rows=10)
    known = ~np.isin(tasks, ["shop03", "shop05"])
    model = KinRegressor(random_state=0, task_features=table).fit(X[known], y[known], tasks=tasks[known])
    prediction = model.predict(X[~known], tasks=tasks[~known])
    assert 1 - np.square(prediction - y[~known]).sum() / np.square(y[~known] - y[~known].mean()).sum() > 0.6


@pytest.mark.parametrize("form", ["frame", "named", "kernel", "dict"])
def test_saved_models_predict_new_tasks(tmp_path, form):
    table, X, y, tasks = make_shops(n_tasks=6, n_rows=6)
    kernel = np.exp(-np.square(table["size"].to_numpy()[:, np.newaxis] - table["size"].to_numpy()))
    given = {
        "frame": table,
        "named": {"shop": table, "like": pd.DataFrame(kernel, table.index, table.index)},
        "kernel": (table.index.to_numpy(), kernel),
        "dict": {name: [size] for name, size in table["size"].items()},
    }
    known = tasks != "shop02"
    model = MKMTRLRegressor(KERNELS, task_features=given[form]).fit(X[known], y[known], tasks=tasks[known])
    save_model(model, tmp_path / "model.kin")
    loaded = load_model(tmp_path / "model.kin").model
    np.testing.assert_array_equal(loaded.predict(X, tasks=tasks), model.predict(X, tasks=tasks))
    again = clone(loaded).fit(X[known], y[known], tasks=tasks[known])
    np.testing.assert_allclose(again.predict(X, tasks=tasks), model.predict(X, tasks=tasks), atol=1e-10)


def test_wide_data_with_missing_labels_and_kernels_between_tasks():
    rng = np.random.default_rng(0)
    feature = np.linspace(-1, 1, 9)
    names = [f"drug{t}" for t in range(9)]
    X = rng.normal(size=(30, 2))
    Y = np.sin(X[:, [0]]) * feature + feature + 0.05 * rng.normal(size=(30, 9))
    kernel = np.exp(-np.square(feature[:, np.newaxis] - feature))
    seen = rng.random(Y.shape) < 0.7
    options = {"C": 100.0, "task_features": {"structure": (names, kernel)}}
    model = MKMTRLRegressor(KERNELS, **options).fit(X, pd.DataFrame(np.where(seen, Y, np.nan), columns=names))
    assert np.square(model.predict(X) - Y)[~seen].mean() < 0.1 * Y.var()
    model = MKMTRLRegressor(KERNELS, **options).fit(X, pd.DataFrame(Y, columns=names).drop(columns="drug4"))
    assert model.predict(X).shape == (30, 8)
    new = model.predict(X, tasks=np.full(30, "drug4"))
    assert np.square(new - Y[:, 4]).mean() < 0.1 * Y.var()
