"""The same data in other forms, types and orders give the same fit."""

import numpy as np
import pandas as pd
import pytest
from models.problems import NAMES, long_data, targets, values, wide_data
from sklearn.base import clone, is_classifier

from kernelkin import MKMTRLRegressor, gaussian_kernels, linear_kernels, view_kernels
from kernelkin.estimators import place


def test_wide_is_long_where_all_tasks_have_the_same_rows(model):
    X, Y = wide_data(0)
    n, T = Y.shape
    Y = targets(model, Y, (np.median(Y, axis=0) < Y).astype(int))
    model.set_params(tol=1e-6, C=3.0)
    wide = clone(model).fit(X, Y)
    stacked, tasks = np.tile(X, (T, 1)), np.repeat(np.arange(T), n)
    long = clone(model).fit(stacked, Y.T.ravel(), tasks=tasks)
    assert wide.tasks_.tolist() == long.tasks_.tolist() == [0, 1, 2]
    np.testing.assert_allclose(wide.objective_, long.objective_, rtol=1e-6)
    np.testing.assert_allclose(wide.kernel_weights_, long.kernel_weights_, rtol=1e-2, atol=1e-3)
    Z = np.random.default_rng(1).normal(size=(8, 3))
    assert wide.predict(Z).shape == (8, T)
    by_task = values(long, np.tile(Z, (T, 1)), tasks=np.repeat(np.arange(T), 8)).reshape(T, 8).T
    np.testing.assert_allclose(values(wide, Z), by_task, atol=5e-3)
    np.testing.assert_allclose(values(wide, Z, tasks=[2] * 8), values(wide, Z)[:, 2], rtol=1e-10)


def test_missing_labels_are_rows_left_out(model):
    # None among regression targets, NaN among classes.
    dtype = np.float64 if is_classifier(model) else object
    X, Y = wide_data(2)
    n, T = Y.shape
    Y = targets(model, Y, (np.median(Y, axis=0) < Y).astype(float)).astype(dtype)
    Y[:5, 0] = Y[7:10, 2] = np.nan if dtype == np.float64 else None
    present = ~pd.isna(Y)
    # The Gaussian has ones on its diagonal whatever the rows; its bandwidth is given.
    model.set_params(kernels=gaussian_kernels([0.5, 1, 3], relative=False), tol=1e-6, C=3.0)
    wide = clone(model).fit(X, Y)
    rows, tasks = np.nonzero(present)
    long = clone(model).fit(X[rows], Y[rows, tasks].astype(float), tasks=tasks)
    np.testing.assert_allclose(wide.objective_, long.objective_, rtol=1e-6)
    assert [len(a) for a in wide.dual_coef_] == present.sum(axis=0).tolist()
    everywhere = values(long, np.tile(X, (T, 1)), tasks=np.repeat(np.arange(T), n)).reshape(T, n).T
    np.testing.assert_allclose(values(wide, X), everywhere, atol=5e-3)
    # Rows without a label count for nothing in the scores.
    assert wide.score(X, Y) == pytest.approx(long.score(X[rows], Y[rows, tasks].astype(float), tasks=tasks), abs=1e-3)


def test_a_task_column_is_the_same_as_tasks():
    X, y, _, tasks = long_data(7)
    by_argument = MKMTRLRegressor().fit(X, y, tasks=tasks)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(who=pd.Categorical(tasks))
    by_column = MKMTRLRegressor(task_column="who").fit(frame, y)
    np.testing.assert_array_equal(by_column.kernel_weights_, by_argument.kernel_weights_)
    np.testing.assert_array_equal(by_column.predict(frame), by_argument.predict(X, tasks=tasks))
    assert by_column.feature_names_in_.tolist() == ["a", "b", "c", "who"]
    assert by_column.tasks_.tolist() == NAMES.tolist()


def test_the_order_of_rows_does_not_matter(model):
    X, y, labels, tasks = long_data(8)
    y = targets(model, y, labels)
    model.set_params(tol=1e-6)
    order = np.random.default_rng(0).permutation(len(X))
    one = clone(model).fit(X, y, tasks=tasks)
    two = clone(model).fit(X[order], y[order], tasks=tasks[order])
    np.testing.assert_allclose(values(one, X, tasks=tasks), values(two, X, tasks=tasks), atol=2e-3)


def test_pandas_targets_name_the_tasks():
    X, Y = wide_data(3)
    model = MKMTRLRegressor().fit(X, pd.DataFrame(Y, columns=["oil", "gas", "coal"]))
    assert model.tasks_.tolist() == ["oil", "gas", "coal"]
    assert list(model.score_tasks(X, Y)) == ["oil", "gas", "coal"]
    np.testing.assert_array_equal(model.predict(X, tasks=["gas"] * len(X)), model.predict(X)[:, 1])


def test_kernels_on_named_columns():
    X, y, _, tasks = long_data(9)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    by_name = MKMTRLRegressor(view_kernels({"left": ["a", "b"], "right": "c"})).fit(frame, y, tasks=tasks)
    by_place = MKMTRLRegressor(view_kernels({"left": [0, 1], "right": 2})).fit(X, y, tasks=tasks)
    np.testing.assert_array_equal(by_name.kernel_weights_, by_place.kernel_weights_)
    assert by_name.kernel_names_.tolist() == ["left: rbf(1 x median)", "right: rbf(1 x median)"]
    # Positions are among the features: the task column is not one.
    shifted = frame.copy()
    shifted.insert(0, "who", tasks)
    by_column = MKMTRLRegressor(view_kernels({"left": [0, 1], "right": 2}), task_column="who").fit(shifted, y)
    np.testing.assert_array_equal(by_column.kernel_weights_, by_place.kernel_weights_)


def test_float32(model):
    """The objective of float32 rows is within 1e-6 of that of float64 ones, and its gap closes as far."""
    X, y, labels, tasks = long_data(10)
    y = targets(model, y, labels)
    model.set_params(tol=1e-8, max_iter=500)
    double = clone(model).fit(X, y, tasks=tasks)
    single = clone(model).fit(X.astype(np.float32), y, tasks=tasks)
    assert 0 <= single.duality_gap_ <= 1e-8 * single.objective_
    np.testing.assert_allclose(single.objective_, double.objective_, rtol=1e-6)
    np.testing.assert_allclose(
        values(single, X.astype(np.float32), tasks=tasks), values(double, X, tasks=tasks), atol=2e-4
    )


KERNELS = gaussian_kernels([0.5, 2.0], relative=False) + linear_kernels()


def precomputed(*row_sets):
    """The kernels between the rows of each set and those of the first, (n, m, K)."""
    fitted = [kernel.fit(row_sets[0]) for kernel in KERNELS]
    return [np.stack([kernel(rows, row_sets[0]) for kernel in fitted], axis=2) for rows in row_sets]


def assert_precomputed_is_direct(model, y, X, tasks):
    Z, queried = np.random.default_rng(2).normal(size=(7, 3)), NAMES[[0, 1, 2, 0, 1, 2, 0]]
    train, test = precomputed(X, Z)
    direct = clone(model).set_params(kernels=KERNELS).fit(X, y, tasks=tasks)
    given = clone(model).set_params(kernels="precomputed").fit(train, y, tasks=tasks)
    np.testing.assert_allclose(given.kernel_weights_, direct.kernel_weights_, rtol=0.01)
    np.testing.assert_allclose(values(given, test, tasks=queried), values(direct, Z, tasks=queried), atol=2e-3)
    assert given.kernel_names_.tolist() == ["kernel 0", "kernel 1", "kernel 2"]


def test_precomputed_grams_are_the_kernels_themselves(model):
    X, y, labels, tasks = long_data(11)
    assert_precomputed_is_direct(model.set_params(tol=1e-7), targets(model, y, labels), X, tasks)


@pytest.mark.parametrize("normalize", ["center", None])
def test_precomputed_grams_are_scaled_like_kernels(normalize):
    X, y, _, tasks = long_data(11)
    assert_precomputed_is_direct(MKMTRLRegressor(normalize=normalize, tol=1e-7), y, X, tasks)


def test_precomputed_grams_cannot_have_their_diagonal_scaled():
    X, y, _, tasks = long_data(11)
    with pytest.raises(ValueError, match=r"normalize='cosine' needs k\(x, x\) of the rows to predict, which"):
        MKMTRLRegressor("precomputed", normalize="cosine").fit(precomputed(X)[0], y, tasks=tasks)


def test_data_are_not_modified():
    model = MKMTRLRegressor()
    X, y, _, tasks = long_data(12)
    grams = np.stack([X @ X.T, np.eye(len(X)) * 3], axis=2)
    before = [part.copy() for part in (X, y, tasks, grams)]
    for part in (X, y, grams):
        part.flags.writeable = False
    for normalize in ("trace", "center"):
        clone(model).set_params(normalize=normalize).fit(X, y, tasks=tasks).predict(X, tasks=tasks)
        model.set_params(kernels="precomputed", normalize=normalize).fit(grams, y, tasks=tasks).predict(
            grams, tasks=tasks
        )
        model.set_params(kernels=None)
    for part, kept in zip((X, y, tasks, grams), before, strict=True):
        np.testing.assert_array_equal(part, kept)


def test_tensors_are_read_and_results_are_arrays():
    torch = pytest.importorskip("torch")
    X, Y = wide_data(0)
    fitted = MKMTRLRegressor().fit(torch.asarray(X), torch.asarray(Y))
    expected = MKMTRLRegressor().fit(X, Y)
    assert type(fitted.kernel_weights_) is type(fitted.predict(torch.asarray(X))) is np.ndarray
    np.testing.assert_array_equal(values(fitted, torch.asarray(X)), values(expected, X))


def test_wide_data_are_solved_on_the_device_of_their_tensor():
    class Tensor:
        device = type("Device", (), {"type": "cuda", "__str__": lambda self: "cuda:0"})()

        def detach(self):
            raise NotImplementedError

    X, Y = wide_data(0)
    model = MKMTRLRegressor()
    wide, single = (model.training_data(X, y) for y in (Y, Y[:, 0]))
    assert place(model.specification(), Tensor(), wide).device == "cuda:0"
    assert place(model.specification(), Tensor(), single).device is None
    assert place(MKMTRLRegressor(device="cpu").specification(), Tensor(), wide).device == "cpu"
    assert place(model.specification(), X, wide).device is None
