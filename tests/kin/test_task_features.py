"""Features of tasks: how they are read, the kernels they make, and the prediction of tasks without rows."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, cross_val_score

from kernelkin import KinClassifier, KinRegressor, load_model, save_model
from kernelkin.kin.task_features import read_task_kernels

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


def matrices(task_features):
    """The kernels among the training tasks."""
    return [values[:4] for values in read_task_kernels(task_features, LABELS)[0]]


def test_all_forms_of_a_table_make_the_same_kernels():
    expected = matrices(TABLE)
    assert len(expected) == 2
    objects = pd.DataFrame(TABLE.to_numpy(dtype=object), LABELS, TABLE.columns)
    shuffled = TABLE.loc[["d", "b", "a", "c"]]
    extended = pd.concat([shuffled, pd.DataFrame({"size": [9.0], "region": ["w"]}, index=["e"])])
    for form in (shuffled, objects, extended):
        np.testing.assert_allclose(matrices(form), expected, atol=1e-12)


def test_the_kernel_is_gaussian_on_standardised_numbers_and_categories():
    standard = (SIZE - SIZE.mean()) / SIZE.std()
    features = np.column_stack([standard, REGION == "n", REGION == "s"])
    squares = np.square(features[:, np.newaxis] - features).sum(axis=2)
    unit = np.median(squares[squares > 0])
    np.testing.assert_allclose(matrices(TABLE)[1], np.exp(-0.5 * squares / unit), atol=1e-12)
    np.testing.assert_allclose(matrices(TABLE)[0], np.exp(-2.0 * squares / unit), atol=1e-12)


@pytest.mark.parametrize("form", [(LABELS, SIMILAR), pd.DataFrame(SIMILAR, LABELS, LABELS)])
def test_kernels_between_tasks_are_scaled_to_unit_diagonal(form):
    expected = np.array([[1, 0.5, 0, 0], [0.5, 1, 0, 0], [0, 0, 1, 0.5], [0, 0, 0.5, 1]])
    np.testing.assert_allclose(matrices(form)[0], expected, atol=1e-12)


def test_faulty_features_are_named():
    for features, message in [
        (TABLE.iloc[:3], r"^task_features has no row for task 'd'"),
        ((LABELS[:2], np.eye(2)), r"^task_features has no row for task 'c', 'd'"),
        (pd.concat([TABLE, TABLE.iloc[:1]]), r"^task_features contains task 'a' more than once"),
        (TABLE[[]], r"^task_features has no columns"),
        (TABLE.assign(size=[1.0, np.nan, 2.0, 3.0]), r"column 'size': the value of task 'b' is missing"),
        ((LABELS, np.eye(3)), r"4 tasks need a kernel of shape \(4, 4\), got \(3, 3\)"),
        ((LABELS, SIMILAR - 2 * np.eye(4)), r"is not positive semi-definite: its smallest eigenvalue is -1.5"),
        ((LABELS, np.triu(np.ones((4, 4)))), r"^task_features is not a finite symmetric matrix"),
    ]:
        with pytest.raises(ValueError, match=message):
            matrices(features)
    for features in (np.ones((4, 2)), {"a": [1.0], "b": [2.0], "c": [3.0], "d": [4.0]}):
        with pytest.raises(TypeError, match=r"^task_features must be a pandas DataFrame with the tasks as index"):
            matrices(features)


def test_new_tasks_are_predicted_from_their_features():
    table, X, y, tasks = make_shops(n_tasks=10, n_rows=10)
    known = ~np.isin(tasks, ["shop03", "shop05"])
    model = KinRegressor(random_state=0, task_features=table).fit(X[known], y[known], tasks=tasks[known])
    prediction = model.predict(X[~known], tasks=tasks[~known])
    assert 1 - np.square(prediction - y[~known]).sum() / np.square(y[~known] - y[~known].mean()).sum() > 0.6
    assert set(model.score_tasks(X, y, tasks=tasks)) == set(table.index)
    spreads = [model.predict(X[~known], tasks=np.full(20, t), return_std=True)[1].mean() for t in ("shop05", "shop06")]
    assert spreads[0] > spreads[1]


def test_cross_validation_over_tasks_measures_it():
    table, X, y, tasks = make_shops(n_tasks=6, n_rows=8)
    columns, scores = pd.DataFrame(X, columns=["u", "v"]).assign(shop=tasks), {}
    for name, features in (("features", table), ("common", None)):
        model = KinRegressor(cv=2, random_state=0, task_column="shop", task_features=features)
        scores[name] = cross_val_score(model, columns, y, groups=tasks, cv=GroupKFold(3), error_score="raise").mean()
    assert scores["features"] > scores["common"]


def test_classes_of_a_new_task():
    table, X, y, tasks = make_shops()
    known = tasks != "shop05"
    labels = np.where(y > 2 * table["size"].loc[tasks].to_numpy(), "up", "down")
    model = KinClassifier(random_state=0, task_features=table).fit(X[known], labels[known], tasks=tasks[known])
    assert model.score_tasks(X, labels, tasks=tasks)["shop05"] > 0.7
    np.testing.assert_allclose(model.predict_proba(X[~known], tasks=tasks[~known]).sum(axis=1), 1.0)


@pytest.mark.parametrize("form", ["table", "kernel", "pair"])
def test_saved_models_predict_new_tasks(tmp_path, form):
    table, X, y, tasks = make_shops(n_tasks=6, n_rows=6)
    kernel = np.exp(-np.square(table["size"].to_numpy()[:, np.newaxis] - table["size"].to_numpy()))
    given = {
        "table": table,
        "kernel": pd.DataFrame(kernel, table.index, table.index),
        "pair": (table.index.to_numpy(), kernel),
    }
    known = tasks != "shop02"
    model = KinRegressor(cv=2, random_state=0, task_features=given[form]).fit(X[known], y[known], tasks=tasks[known])
    save_model(model, tmp_path / "model.kin")
    loaded = load_model(tmp_path / "model.kin").model
    np.testing.assert_array_equal(loaded.predict(X, tasks=tasks), model.predict(X, tasks=tasks))
    again = clone(loaded).fit(X[known], y[known], tasks=tasks[known])
    np.testing.assert_allclose(again.predict(X, tasks=tasks), model.predict(X, tasks=tasks), atol=1e-10)
