"""MK-MTRL against scikit-learn's machines and across the forms of data; what it stores, and what it finds."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC, SVR

from estimators.problems import NAMES, grouped_data, long_data, wide_data
from kernelkin import (
    MKMTRLClassifier,
    MKMTRLRegressor,
    gaussian_kernels,
    linear_kernels,
    polynomial_kernels,
    view_kernels,
)
from kernelkin.exceptions import CollapseWarning
from kernelkin.penalties import effective_rank
from kernelkin.solvers import SOLVERS, Alternating

MODELS = {
    "hinge": MKMTRLClassifier(),
    "squared, classes": MKMTRLClassifier(loss="squared"),
    "squared": MKMTRLRegressor(),
    "epsilon": MKMTRLRegressor(loss="epsilon_insensitive"),
}


@pytest.fixture(params=MODELS)
def model(request):
    return clone(MODELS[request.param])


def targets(model, y, labels):
    return labels if isinstance(model, MKMTRLClassifier) else y


def values(model, X, **tasks):
    """Real values, of which classes are the signs."""
    return model.decision_function(X, **tasks) if hasattr(model, "decision_function") else model.predict(X, **tasks)


# Reductions


def scaled_gram(model, X, Z, task):
    """The kernel of one task, for scikit-learn: with its weight, and mean diagonal one on the training rows X."""
    t = model.tasks_.tolist().index(task)
    kernel = model.kernels_[0]
    return model.kernel_weights_[t, 0] * kernel(Z, X) / kernel.diagonal(X).mean()


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_one_kernel_is_svc(kernel):
    X, _, labels, tasks = long_data(0)
    Z = np.random.default_rng(1).normal(size=(9, 3))
    model = MKMTRLClassifier(kernel, C=2.0, mu=0.1, tol=1e-8).fit(X, labels, tasks=tasks)
    for t, name in enumerate(NAMES):
        own = X[tasks == name]
        svc = SVC(C=2.0, kernel="precomputed", tol=1e-8).fit(scaled_gram(model, own, own, name), labels[tasks == name])
        np.testing.assert_allclose(
            model.decision_function(Z, tasks=[name] * 9),
            svc.decision_function(scaled_gram(model, own, Z, name)),
            atol=2e-4,
        )
        np.testing.assert_allclose(model.intercept_[t], svc.intercept_[0], atol=2e-4)
        np.testing.assert_array_equal(model.predict(Z, tasks=[name] * 9), svc.predict(scaled_gram(model, own, Z, name)))


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_one_kernel_is_kernel_ridge(kernel):
    X, y, _, tasks = long_data(2)
    Z = np.random.default_rng(3).normal(size=(9, 3))
    model = MKMTRLRegressor(kernel, C=5.0, fit_intercept=False).fit(X, y, tasks=tasks)
    for name in NAMES:
        own = X[tasks == name]
        ridge = KernelRidge(alpha=1 / 5.0, kernel="precomputed").fit(
            scaled_gram(model, own, own, name), y[tasks == name]
        )
        expected = ridge.predict(scaled_gram(model, own, Z, name))
        np.testing.assert_allclose(model.predict(Z, tasks=[name] * 9), expected, rtol=1e-9)
        np.testing.assert_allclose(
            model.dual_coef_[model.tasks_.tolist().index(name)][:, 0], ridge.dual_coef_, rtol=1e-8, atol=1e-10
        )


def test_one_kernel_is_svr():
    X, y, _, tasks = long_data(4)
    Z = np.random.default_rng(5).normal(size=(9, 3))
    model = MKMTRLRegressor("rbf", C=5.0, loss="epsilon_insensitive", epsilon=0.05, tol=1e-8).fit(X, y, tasks=tasks)
    for name in NAMES:
        own = X[tasks == name]
        svr = SVR(C=5.0, epsilon=0.05, kernel="precomputed", tol=1e-8)
        svr.fit(scaled_gram(model, own, own, name), y[tasks == name])
        expected = svr.predict(scaled_gram(model, own, Z, name))
        np.testing.assert_allclose(model.predict(Z, tasks=[name] * 9), expected, atol=2e-4)


def test_unrelated_tasks_are_learned_apart(model):
    """min_rank=T and shrinkage=1 leave nothing to share: each task alone, with T mu for mu, learns the same."""
    X, y, labels, tasks = long_data(6)
    y = targets(model, y, labels)
    kernels = gaussian_kernels([0.5, 2.0], relative=False)
    model.set_params(kernels=kernels, tol=1e-7, mu=0.2)
    for held in (clone(model).set_params(min_rank=3), clone(model).set_params(shrinkage=1.0)):
        held.fit(X, y, tasks=tasks)
        np.testing.assert_allclose(held.task_relationship_, np.eye(3) / 3, atol=1e-12)
        for t, name in enumerate(NAMES):
            mine = tasks == name
            alone = clone(model).set_params(mu=0.6).fit(X[mine], y[mine])
            np.testing.assert_allclose(held.kernel_weights_[t], alone.kernel_weights_[0], rtol=0.01, atol=1e-3)
            np.testing.assert_allclose(values(held, X, tasks=[name] * len(X)), values(alone, X), atol=5e-3)


# The forms of data


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


@pytest.mark.parametrize("dtype", [np.float64, object])
def test_missing_labels_are_rows_left_out(model, dtype):
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


def test_a_task_column_is_the_same_as_tasks(model):
    X, y, labels, tasks = long_data(7)
    y = targets(model, y, labels)
    by_argument = clone(model).fit(X, y, tasks=tasks)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(who=pd.Categorical(tasks))
    by_column = clone(model).set_params(task_column="who").fit(frame, y)
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


@pytest.mark.parametrize("normalize", ["trace", "cosine", "center", None])
def test_precomputed_grams_are_the_kernels_themselves(model, normalize):
    X, y, labels, tasks = long_data(11)
    y = targets(model, y, labels)
    kernels = gaussian_kernels([0.5, 2.0], relative=False) + linear_kernels()
    model.set_params(kernels=kernels, normalize=normalize, tol=1e-7)
    Z, asked = np.random.default_rng(2).normal(size=(7, 3)), NAMES[[0, 1, 2, 0, 1, 2, 0]]
    direct = clone(model).fit(X, y, tasks=tasks)
    raw = [kernel.fit(X) for kernel in kernels]
    train, test = (np.stack([kernel(rows, X) for kernel in raw], axis=2) for rows in (X, Z))
    given = clone(model).set_params(kernels="precomputed")
    if normalize == "cosine":
        with pytest.raises(ValueError, match="normalize='cosine' needs"):
            given.fit(train, y, tasks=tasks)
        return
    given.fit(train, y, tasks=tasks)
    np.testing.assert_allclose(given.kernel_weights_, direct.kernel_weights_, rtol=0.01)
    np.testing.assert_allclose(values(given, test, tasks=asked), values(direct, Z, tasks=asked), atol=2e-3)
    assert given.kernel_names_.tolist() == ["kernel 0", "kernel 1", "kernel 2"]


def test_data_are_left_alone(model):
    X, y, labels, tasks = long_data(12)
    y = targets(model, y, labels).astype(float)
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


# What is found


@pytest.mark.parametrize("regression", [True, False])
def test_two_groups_are_plain_with_min_rank_two(regression):
    data = grouped_data(regression)
    model = MKMTRLRegressor if regression else MKMTRLClassifier
    fit = model(data.kernels, C=10.0, min_rank=2).fit(data.X, data.y, tasks=data.tasks)
    together = data.groups[:, None] == data.groups
    others = ~np.eye(len(together), dtype=bool)
    for matrix in (fit.task_relationship_, fit.task_correlation_):
        assert matrix[together & others].min() > matrix[~together].max()
    # Each task puts most of its weight on the kernels that its group needs.
    needed = data.kernel_weights > 0
    shares = fit.kernel_weights_ / fit.kernel_weights_.sum(axis=1, keepdims=True)
    assert (shares * needed).sum(axis=1).min() > 0.6


@pytest.mark.parametrize("regression", [True, False])
@pytest.mark.parametrize("tol", [1e-3, 1e-5])
def test_the_papers_own_penalty_collapses_and_a_warning_says_so(regression, tol):
    data = grouped_data(regression)
    model = (MKMTRLRegressor if regression else MKMTRLClassifier)(
        data.kernels, C=10.0, shrinkage=0, min_rank=1, tol=tol
    )
    with pytest.warns(CollapseWarning, match=r"all 6 tasks use the same mix of kernels.* Try min_rank=2") as caught:
        model.fit(data.X, data.y, tasks=data.tasks)
    assert caught[0].filename == __file__
    assert abs(model.effective_rank_ - 1) <= 1e-3
    shares = model.kernel_weights_ / model.kernel_weights_.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shares, shares[[0]].repeat(6, axis=0), atol=1e-3)


def test_no_warning_where_one_mix_is_all_there_can_be():
    X, y, _, tasks = long_data(13)
    for model in (
        MKMTRLRegressor(shrinkage=0).fit(X[tasks == "ada"], y[tasks == "ada"]),
        MKMTRLRegressor("rbf", shrinkage=0).fit(X, y, tasks=tasks),
    ):
        assert model.effective_rank_ == pytest.approx(1.0)


def test_a_prior_is_in_the_order_of_tasks_and_of_any_scale():
    X, y, _, tasks = long_data(14)
    prior = np.array([[1.0, 0.8, 0.0], [0.8, 1.0, 0.0], [0.0, 0.0, 1.0]])
    held = MKMTRLRegressor(prior=7 * prior, shrinkage=1.0).fit(X, y, tasks=tasks)
    np.testing.assert_allclose(held.task_relationship_, prior / 3, atol=1e-12)
    np.testing.assert_allclose(held.task_correlation_, prior, atol=1e-12)
    assert held.tasks_.tolist() == NAMES.tolist()


@pytest.mark.parametrize("couplings", [None, "common"])
def test_targets_in_other_units_lead_to_the_same_fit(couplings):
    X, y, _, tasks = long_data(14)
    model = MKMTRLRegressor(couplings=couplings, tol=1e-8, max_iter=500)
    expected = model.fit(X, y, tasks=tasks)
    weights, prediction = expected.kernel_weights_, expected.predict(X, tasks=tasks)
    model.fit(X, 1e4 * y - 3, tasks=tasks)
    np.testing.assert_allclose(model.kernel_weights_, weights, atol=1e-4 * weights.max())
    np.testing.assert_allclose((model.predict(X, tasks=tasks) + 3) / 1e4, prediction, atol=1e-5 * np.ptp(y))


def test_the_scale_of_the_targets_is_their_variance_within_tasks():
    X, y, _, tasks = long_data(14)
    y = y + 10 * np.unique(tasks, return_inverse=True)[1]
    variance = np.mean(np.concatenate([y[tasks == task] - y[tasks == task].mean() for task in NAMES]) ** 2)
    scaled, given = (MKMTRLRegressor(mu=mu).fit(X, y, tasks=tasks) for mu in ("scale", variance))
    np.testing.assert_allclose(scaled.objective_, given.objective_, rtol=1e-12)


# What is stored


def test_fitted_attributes(model):
    X, y, labels, tasks = long_data(15)
    y = targets(model, y, labels)
    model.fit(X, y, tasks=tasks)
    T, K = 3, 6
    assert model.tasks_.tolist() == NAMES.tolist()
    assert model.kernel_weights_.shape == (T, K)
    assert model.kernel_weights_.min() >= 0
    assert len(model.kernels_) == len(model.kernel_names_) == K
    assert model.kernel_names_.tolist() == [kernel.name for kernel in model.kernels_]
    assert model.kernel_names_[-1] == "linear"
    np.testing.assert_allclose(np.trace(model.task_relationship_), 1)
    np.testing.assert_allclose(np.diag(model.task_correlation_), 1)
    assert np.abs(model.task_correlation_).max() <= 1 + 1e-12
    assert [a.shape for a in model.dual_coef_] == [(14, 1)] * T
    assert model.intercept_.shape == (T,)
    assert 0 <= model.duality_gap_ <= model.tol * model.objective_
    assert model.effective_rank_ == pytest.approx(effective_rank(model.kernel_weights_))
    assert model.n_features_in_ == 3
    assert not hasattr(model, "feature_names_in_")
    assert model.n_iter_ == len(model.history_["objective"])
    assert set(model.history_) == {
        "iteration", "objective", "primal", "bound", "relative_gap", "effective_rank", "seconds",
    }  # fmt: skip
    assert model.history_["primal"][-1] == model.objective_
    assert model.history_["primal"][-1] - model.history_["bound"][-1] == pytest.approx(model.duality_gap_)


def test_only_support_rows_are_kept():
    """A fitted model keeps support rows and coefficients, never its training Grams."""
    X, _, labels, tasks = long_data(16, n=60)
    model = MKMTRLClassifier(C=100.0).fit(X, labels, tasks=tasks)
    grams = 6 * sum(60**2 for _ in NAMES) * 8
    assert len(pickle.dumps(model)) < grams / 5
    assert sum(np.count_nonzero(a) for a in model.dual_coef_) < len(X)


def test_pickle_and_clone(model):
    X, y, labels, tasks = long_data(17)
    y = targets(model, y, labels)
    model.set_params(kernels=[*gaussian_kernels(), *polynomial_kernels(2), "laplacian"]).fit(X, y, tasks=tasks)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(values(again, X, tasks=tasks), values(model, X, tasks=tasks))
    copy = clone(model)
    assert copy.get_params()["kernels"] is not None
    with pytest.raises(NotFittedError):
        copy.predict(X, tasks=tasks)
    np.testing.assert_array_equal(copy.fit(X, y, tasks=tasks).kernel_weights_, model.kernel_weights_)


# How it runs


@pytest.mark.parametrize("form", ["long", "wide"])
def test_the_number_of_threads_changes_nothing(model, form):
    if form == "long":
        X, y, labels, tasks = long_data(18)
    else:
        (X, y), tasks = wide_data(18), None
        labels = (np.median(y, axis=0) < y).astype(int)
    y = targets(model, y, labels)
    one, two = (clone(model).set_params(n_jobs=n_jobs).fit(X, y, tasks=tasks) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.kernel_weights_, two.kernel_weights_)
    np.testing.assert_array_equal(values(one, X, tasks=tasks), values(two, X, tasks=tasks))
    assert one.objective_ == two.objective_


@pytest.mark.parametrize("solver", [*SOLVERS, Alternating("fista"), Alternating("closed_form")])
def test_every_solver_fits(model, solver):
    X, y, labels, tasks = long_data(19)
    model.set_params(solver=solver, max_iter=10, tol=0.5).fit(X, targets(model, y, labels), tasks=tasks)
    assert model.duality_gap_ >= 0
    assert model.score(X, targets(model, y, labels), tasks=tasks) > 0.3


def test_alternating_agrees_with_joint():
    X, y, _, tasks = long_data(20)
    joint = MKMTRLRegressor(tol=1e-6, C=5.0).fit(X, y, tasks=tasks)
    alternating = MKMTRLRegressor(tol=1e-3, C=5.0, solver=Alternating(change=1e-5)).fit(X, y, tasks=tasks)
    np.testing.assert_allclose(alternating.objective_, joint.objective_, rtol=1e-3)
    assert joint.objective_ - joint.duality_gap_ <= alternating.objective_


def test_max_iter_warns_with_the_gap_and_what_to_do():
    X, y, _, tasks = long_data(21)
    model = MKMTRLRegressor(tol=1e-9, max_iter=3)
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(X, y, tasks=tasks)
    (warning,) = caught
    assert warning.filename == __file__
    gap = model.duality_gap_ / model.objective_
    assert str(warning.message) == (
        "MKMTRLRegressor: stopped at max_iter; raise max_iter or loosen tol. The relative duality gap reached is "
        f"{gap:.1e}, and tol=1e-09."
    )
    assert model.n_iter_ == 3


def test_verbose_prints_each_iteration(capsys):
    X, y, _, tasks = long_data(22)
    model = MKMTRLRegressor().fit(X, y, tasks=tasks)
    assert capsys.readouterr().out == ""
    model.set_params(verbose=1).fit(X, y, tasks=tasks)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == model.n_iter_
    assert all(word in lines[-1] for word in ("objective", "bound", "gap", "rank"))


def test_an_interrupted_fit_goes_on_from_what_the_callback_kept(model):
    X, y, labels, tasks = long_data(23)
    y = targets(model, y, labels)
    kept = []

    def keep(iterate):
        kept.append(iterate)
        if len(kept) == 2:
            raise KeyboardInterrupt

    model.set_params(tol=1e-5)
    with pytest.raises(KeyboardInterrupt):
        clone(model).set_params(callback=keep, n_jobs=2).fit(X, y, tasks=tasks)
    assert [iterate.iteration for iterate in kept] == [1, 2]
    whole = clone(model).fit(X, y, tasks=tasks)
    resumed = clone(model).set_params(init=kept[-1].kernel_weights).fit(X, y, tasks=tasks)
    np.testing.assert_allclose(resumed.history_["objective"][0], kept[-1].objective, rtol=1e-2)
    np.testing.assert_allclose(resumed.objective_, whole.objective_, rtol=1e-5)


def test_a_fit_can_start_from_another():
    X, y, _, tasks = long_data(24)
    first = MKMTRLRegressor(tol=1e-6).fit(X, y, tasks=tasks)
    second = MKMTRLRegressor(tol=1e-4, init=first.kernel_weights_).fit(X, y, tasks=tasks)
    assert second.n_iter_ == 1


def test_weights_of_rows_are_repetitions(model):
    """Weighting a row by two equals repeating it: kernel scaling, bandwidths and costs."""
    X, y, labels, tasks = long_data(25)
    y = targets(model, y, labels)
    weight = np.random.default_rng(0).integers(1, 4, size=len(X))
    model.set_params(tol=1e-7)
    weighted = clone(model).fit(X, y, tasks=tasks, sample_weight=weight)
    every = np.repeat(np.arange(len(X)), weight)
    repeated = clone(model).fit(X[every], y[every], tasks=tasks[every])
    np.testing.assert_allclose(weighted.objective_, repeated.objective_, rtol=1e-6)
    np.testing.assert_allclose(values(weighted, X, tasks=tasks), values(repeated, X, tasks=tasks), atol=2e-3)


def test_constant_targets_are_learned():
    X, y, _, tasks = long_data(26)
    y = np.where(tasks == "bea", 4.0, y)
    model = MKMTRLRegressor().fit(X, y, tasks=tasks)
    np.testing.assert_allclose(model.predict(X, tasks=["bea"] * len(X)), 4.0, rtol=1e-6)
    flat = MKMTRLRegressor().fit(X, np.full(len(X), -2.0), tasks=tasks)
    np.testing.assert_allclose(flat.predict(X, tasks=tasks), -2.0, rtol=1e-6)
