"""Two-stage online MK-MTRL: streams, machines, relationship factors, errors, and the quality of its weights."""

import os
import pickle
import tracemalloc

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import kernelkin.estimators.two_stage.factored_relationship as module
from kernelkin import (
    AverageRegressor,
    MKMTRLClassifier,
    MKMTRLRegressor,
    TwoStageMKMTRLClassifier,
    TwoStageMKMTRLRegressor,
    gaussian_kernels,
)
from kernelkin.data import read_training
from kernelkin.datasets import load_mfeat, make_related_tasks
from kernelkin.estimators.two_stage.pairs import PairCenter, PairSource
from kernelkin.grams import build_grams
from kernelkin.grams.rows import RowKernels
from kernelkin.kernels import fit_kernels, linear_kernels, polynomial_kernels, view_kernels

BOTH = {"classification": TwoStageMKMTRLClassifier, "regression": TwoStageMKMTRLRegressor}


def problem(kind, seed=0, **options):
    options = {
        "n_tasks": 6,
        "n_groups": 2,
        "n_kernels": 4,
        "n_relevant": 1,
        "n_samples": 40,
        "test_size": 40,
        **options,
    }
    return make_related_tasks(regression=kind == "regression", noise=0.05, random_state=seed, **options)


def stream(kind, data, cuts, seed=0, **options):
    """A model that has seen the rows of `data`, shuffled and several times, cut into pieces."""
    model = BOTH[kind](data.kernels, random_state=0, **{"update": "hinge", "reservoir": 15, **options})
    order = np.tile(np.random.default_rng(seed).permutation(len(data.data)), 6)
    for part in np.split(order, cuts):
        model.partial_fit(data.data[part], data.target[part], data.tasks[part])
    return model


@parametrize_with_checks(
    [TwoStageMKMTRLClassifier(n_rounds=300, random_state=0), TwoStageMKMTRLRegressor(n_rounds=300, random_state=0)],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_dense_data": "pairs are drawn at random"
    },
)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kind", BOTH)
def test_a_stream_is_the_same_in_one_piece_and_in_many(kind):
    data = problem(kind)
    whole, *others = (stream(kind, data, cuts) for cuts in ([], [7, 8, 300, 999, 1000, 1001], range(60, 1440, 60)))
    for model in others:
        assert np.array_equal(model.tasks_, whole.tasks_)
        assert np.array_equal(model.kernel_weights_, whole.kernel_weights_)
        assert np.array_equal(model.relationship_.F, whole.relationship_.F)
        assert np.array_equal(model._stream.reservoirs.X, whole._stream.reservoirs.X)
        assert model.n_skipped_ == whole.n_skipped_ == 6
        for key, values in whole.history_.items():
            assert np.array_equal(model.history_[key], values)
        assert np.array_equal(model.predict(data.data, data.tasks), whole.predict(data.data, data.tasks))
    assert not np.array_equal(stream(kind, data, [], seed=1).kernel_weights_, whole.kernel_weights_)


def test_predicting_in_the_middle_does_not_change_the_stream():
    data = problem("regression")
    model = TwoStageMKMTRLRegressor(data.kernels, random_state=0, reservoir=15)
    order = np.tile(np.random.default_rng(0).permutation(len(data.data)), 6)
    for part in np.split(order, [200, 900]):
        model.partial_fit(data.data[part], data.target[part], data.tasks[part])
        model.predict(data.data_test, data.tasks_test)
    whole = stream("regression", data, [], update="hinge")
    assert np.array_equal(model.predict(data.data, data.tasks), whole.predict(data.data, data.tasks))


def test_reservoirs_are_bounded_and_fair():
    rng = np.random.default_rng(0)
    kept = np.zeros(4)
    for seed in range(60):
        X = np.arange(400.0).reshape(-1, 1)
        model = TwoStageMKMTRLRegressor("linear", random_state=seed, reservoir=10)
        model.partial_fit(X, rng.normal(size=400), np.zeros(400, dtype=int))
        held = model._settled.reservoirs.data(model.tasks_, None)
        assert len(held.rows[0]) == 10
        kept += np.histogram(held.X[held.rows[0], 0], bins=[0, 100, 200, 300, 400])[0]
    np.testing.assert_allclose(kept / kept.sum(), 0.25, atol=0.07)


@pytest.mark.parametrize("kind", BOTH)
def test_partial_fit_goes_on_after_fit_with_new_rows_and_new_tasks(kind):
    data = problem(kind, n_samples=60)
    old = np.isin(data.tasks, data.task_names[:4])
    model = BOTH[kind](data.kernels, C=10, update="hinge", n_rounds=4000, random_state=0)
    model.fit(data.data[old], data.target[old], tasks=data.tasks[old])
    before = model.kernel_weights_.copy()
    model.partial_fit(data.data, data.target, data.tasks)
    assert model.n_iter_ == 4000 + len(data.data) - 2  # the first row of each new task has no partner
    assert list(model.tasks_) == list(data.task_names)
    assert not np.array_equal(model.kernel_weights_[:4], before)
    assert (
        model.kernel_weights_[4:].max() < 1 and np.isfinite(model.predict(data.data_test, data.tasks_test) == 0).all()
    )
    assert len(model.dual_coef_[0]) == 120  # rows of fit are in the reservoirs as well


def test_a_task_with_one_row_is_skipped_and_counted_until_it_is_asked_for():
    data = problem("classification")
    model = TwoStageMKMTRLClassifier(data.kernels, random_state=0)
    X, y = np.vstack([data.data, data.data[:1]]), np.append(data.target, data.target[0])
    tasks = np.append(data.tasks, "lonely")
    model.partial_fit(X, y, tasks)
    assert model.n_skipped_ == 7
    assert model.score(data.data, data.target, data.tasks) > 0.5
    with pytest.raises(ValueError, match=r"task 'lonely' has one sample only"):
        model.predict(data.data[:2], ["lonely", data.task_names[0]])
    model.partial_fit(data.data[1:30], data.target[1:30], np.full(29, "lonely"))
    assert model.n_skipped_ == 7
    assert set(model.predict(data.data[:5], ["lonely"] * 5)) <= {-1, 1}


def test_errors_are_those_of_the_core_and_those_of_streams():
    data = problem("classification")
    with pytest.raises(ValueError, match="one class only"):
        TwoStageMKMTRLClassifier().fit(data.data, np.where(data.tasks == "task00", 1, data.target), tasks=data.tasks)
    with pytest.raises(ValueError, match="min_rank=9 is above the number of tasks"):
        TwoStageMKMTRLClassifier(min_rank=9).fit(data.data, data.target, tasks=data.tasks)
    with pytest.raises(ValueError, match="is zero on all training rows"):
        TwoStageMKMTRLClassifier("linear").fit(0 * data.data, data.target, tasks=data.tasks)
    with pytest.raises(ValueError, match="not positive semi-definite"):
        TwoStageMKMTRLClassifier(lambda X, Y: -((X @ Y.T) ** 2) + 5, normalize=None, n_rounds=10).fit(
            data.data, data.target
        )
    with pytest.raises(ValueError, match="precomputed"):
        TwoStageMKMTRLClassifier("precomputed").partial_fit(data.data @ data.data.T, data.target)
    with pytest.raises(ValueError, match="'center'"):
        TwoStageMKMTRLClassifier(normalize="center").partial_fit(data.data, data.target)
    with pytest.raises(ValueError, match=r"classes 1, which are not among classes=-1, 2"):
        TwoStageMKMTRLClassifier().partial_fit(data.data, data.target, data.tasks, classes=[-1, 2])
    model = TwoStageMKMTRLClassifier(random_state=0).partial_fit(data.data, data.target, data.tasks)
    with pytest.raises(ValueError, match="has seen long data, and these are single"):
        model.partial_fit(data.data, data.target)
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(data.data[:, 1:], data.target, data.tasks)
    with pytest.raises(ValueError, match="unknown task 'x'"):
        model.relationship_row("x")


@pytest.mark.parametrize("normalize", ["trace", "cosine", "center", None])
@pytest.mark.parametrize("form", ["long", "wide"])
def test_values_of_pairs_are_entries_of_the_scaled_grams(normalize, form):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3)) * [1, 5, 2]
    model = TwoStageMKMTRLRegressor(normalize=normalize)
    y, tasks = (rng.normal(size=30), np.arange(30) % 3) if form == "long" else (rng.normal(size=(30, 2)), None)
    data = read_training(model, X, y, tasks, rng.uniform(0.5, 2, size=30), classification=False)
    kernels = fit_kernels([*gaussian_kernels(), *polynomial_kernels([2])], X)
    values = RowKernels.of(X, kernels, normalize)
    source = PairSource(data, values, model._machines(data), normalize, classes=False)
    n_tasks = data.n_tasks
    codes = np.arange(40) % n_tasks
    size = np.array([len(rows) for rows in data.rows])[codes]
    i, j = rng.integers(size), rng.integers(size)
    rows = [np.array([data.rows[t][k] for t, k in zip(codes, which, strict=True)]) for which in (i, j)]
    z = source._scaled(codes, i, j, *rows)
    grams, _ = build_grams(data, kernels, normalize)
    for r, t in enumerate(codes):
        for k in range(len(kernels)):
            one = np.zeros((len(kernels), n_tasks))
            one[k, t] = 1.0
            gram = grams.combine(one, range(t, t + 1))[0]
            np.testing.assert_allclose(z[k, r], gram[i[r], j[r]], atol=1e-10)
    for t in range(n_tasks):
        base, at = (np.arange(30), data.rows[t]) if form == "wide" else (data.rows[t], np.arange(len(data.rows[t])))
        scaling = values.scaling(base, data.sample_weight[base], normalize)
        b = rng.uniform(size=(len(kernels), n_tasks))
        expected = grams.combine(b, range(t, t + 1))[0]
        np.testing.assert_allclose(values.combined(b[:, t], scaling, base, at, at), expected, atol=1e-10)
        some = at[::3]
        np.testing.assert_allclose(values.combined(b[:, t], scaling, base, at, some), expected[:, ::3], atol=1e-10)


def test_pairs_are_of_two_rows_of_the_task_and_follow_the_weights():
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(60, 2)), np.arange(60) % 3
    weight = np.where(np.arange(60) < 30, 1.0, 3.0)
    model = TwoStageMKMTRLRegressor()
    data = read_training(model, X, rng.normal(size=60), tasks, weight, classification=False)
    source = PairSource(
        data, RowKernels.of(X, fit_kernels(linear_kernels(), X), None), model._machines(data), None, classes=False
    )
    drawn = []
    source._scaled = lambda t, i, j, row_i, row_j: drawn.append((t, row_i, row_j)) or np.zeros((1, len(t)))
    list(source.draw(rng, 20_000))
    t, i, j = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
    assert np.array_equal(tasks[i], t) and np.array_equal(tasks[j], t) and (i != j).all()
    np.testing.assert_allclose(np.bincount(t) / len(t), 1 / 3, atol=0.02)
    np.testing.assert_allclose(np.mean(weight[i] == 3), 0.75, atol=0.02)


@pytest.mark.parametrize("kind", BOTH)
def test_nystroem_on_all_rows_is_the_exact_machine(kind):
    data = problem(kind)
    exact, close = (
        BOTH[kind](data.kernels, n_rounds=2000, loss="squared", max_exact=most, random_state=0).fit(
            data.data, data.target, tasks=data.tasks
        )
        for most in (40, 39)
    )
    assert len(exact.nystroem_tasks_) == 0 and list(close.nystroem_tasks_) == list(data.task_names)
    assert max(np.count_nonzero(a) for a in close.dual_coef_) == 39
    decide = "decision_function" if kind == "classification" else "predict"
    one, other = (getattr(model, decide)(data.data_test, data.tasks_test) for model in (exact, close))
    assert np.corrcoef(one, other)[0, 1] > 0.98


@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive"])
def test_nystroem_with_linear_support_vector_machines(loss):
    kind = "classification" if loss == "hinge" else "regression"
    data = problem(kind)
    scores = [
        BOTH[kind](data.kernels, n_rounds=2000, loss=loss, max_exact=most, random_state=0)
        .fit(data.data, data.target, tasks=data.tasks)
        .score(data.data_test, data.target_test, data.tasks_test)
        for most in (1000, 30)
    ]
    assert abs(scores[0] - scores[1]) < 0.1


def test_relationship_by_row_by_relatives_and_dense(monkeypatch):
    data = problem("regression", n_samples=80)
    model = TwoStageMKMTRLRegressor(data.kernels, update="hinge", n_rounds=30_000, min_rank=2, random_state=0)
    model.fit(data.data, data.target, tasks=data.tasks)
    Omega = model.task_relationship_
    np.testing.assert_allclose(np.trace(Omega), 1.0)
    np.testing.assert_allclose(model.relationship_row("task02"), Omega[2])
    np.testing.assert_allclose(np.diag(model.task_correlation_), 1.0)
    related = model.related_tasks("task02", n=2)
    assert {name for name, _ in related} == {"task00", "task01"}  # its group
    assert related[0][1] == pytest.approx(np.sort(model.task_correlation_[2])[-2])
    monkeypatch.setattr(module, "DENSE_TASKS", 5)
    with pytest.raises(ValueError, match="6 x 6 matrix"):
        _ = model.task_relationship_
    assert len(model.relationship_row("task02")) == 6


def test_stage_1_has_no_gram_and_no_matrix_of_tasks(monkeypatch):
    n_tasks, n_rows, K = 2000, 5, 4
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(n_tasks * n_rows, 2)), np.repeat(np.arange(n_tasks), n_rows)
    y = X[:, 0] + 0.1 * rng.normal(size=len(X))
    monkeypatch.setattr(TwoStageMKMTRLRegressor, "_store_machines", lambda *arguments: None)
    model = TwoStageMKMTRLRegressor(gaussian_kernels([0.5, 1, 2, 4], relative=False), n_rounds=20_000, random_state=0)
    model.fit(X[:20], y[:20])  # compiles
    tracemalloc.start()
    model.fit(X, y, tasks=tasks)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * n_tasks**2 / 2  # a T x T matrix would be 32 MB
    assert model.kernel_weights_.shape == (n_tasks, K)


def test_wide_data_precomputed_kernels_and_more_than_two_classes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    Y = np.column_stack([np.digitize(X[:, 0], [-0.5, 0.5]), X[:, 1] > 0]).astype(float)
    Y[:7, 1] = np.nan
    kernels = [*linear_kernels(per_feature=True), *gaussian_kernels([1.0])]
    options = {"C": 10, "update": "hinge", "n_rounds": 5000, "random_state": 0}
    model = TwoStageMKMTRLClassifier(kernels, **options).fit(X, Y)
    assert model.score(X, Y) > 0.85
    assert model.kernel_weights_[0].argmax() == 0 and model.kernel_weights_[1].argmax() == 1
    grams = np.moveaxis([kernel(X) for kernel in fit_kernels(kernels, X)], 0, 2)
    other = TwoStageMKMTRLClassifier("precomputed", **options).fit(grams, Y)
    np.testing.assert_allclose(other.kernel_weights_, model.kernel_weights_, atol=1e-8)
    assert np.mean(other.predict(grams) == model.predict(X)) > 0.99
    piecewise = TwoStageMKMTRLClassifier(kernels, C=10, random_state=0)
    for part in np.split(np.arange(60), [20, 40]):
        piecewise.partial_fit(X[part], Y[part])
    assert piecewise.score(X, Y) > 0.7 and piecewise.predict(X).shape == (60, 2)


@pytest.mark.parametrize("kind", BOTH)
def test_fitted_and_streaming_models_survive_pickling(kind):
    data = problem(kind)
    fitted = BOTH[kind](data.kernels, n_rounds=500, random_state=0).fit(data.data, data.target, tasks=data.tasks)
    for model in (fitted, stream(kind, data, [])):
        copy = pickle.loads(pickle.dumps(model))
        for one in (model, copy):
            one.partial_fit(data.data, data.target, data.tasks)
        assert np.array_equal(copy.kernel_weights_, model.kernel_weights_)
        assert np.array_equal(copy.predict(data.data, data.tasks), model.predict(data.data, data.tasks))


@pytest.mark.parametrize("average", [True, False])
def test_the_seed_decides_everything(average):
    data = problem("regression")
    fits = [
        TwoStageMKMTRLRegressor(data.kernels, n_rounds=3000, random_state=seed, average=average, n_jobs=jobs)
        .fit(data.data, data.target, tasks=data.tasks)
        .predict(data.data, data.tasks)
        for seed, jobs in ((0, None), (0, 2), (1, None))
    ]
    assert np.array_equal(fits[0], fits[1]) and not np.allclose(fits[0], fits[2])


def test_weights_are_better_than_the_average_kernel():
    """A short form of benchmarks/online_quality.py."""
    gains, kept = [], []
    for seed in range(2):
        data = problem("regression", seed, n_tasks=9, n_groups=3, n_kernels=6, n_samples=40, test_size=100)
        models = (
            AverageRegressor(data.kernels, C=100),
            MKMTRLRegressor(data.kernels, C=10, mu=1.0, min_rank=3, tol=1e-2),
            TwoStageMKMTRLRegressor(data.kernels, C=100, update="hinge", n_rounds=30_000, random_state=0),
        )
        average, joint, two = (
            model.fit(data.data, data.target, tasks=data.tasks).score(data.data_test, data.target_test, data.tasks_test)
            for model in models
        )
        gains.append(joint - average)
        kept.append(two - average)
    assert np.mean(gains) > 0.05
    assert np.mean(kept) >= 0.8 * np.mean(gains)


@pytest.mark.skipif("KERNELKIN_DATA" not in os.environ, reason="needs KERNELKIN_DATA")
def test_mfeat_is_close_to_the_joint_solver():
    """A short form of benchmarks/online_quality.py: one seed, half of the rows held out, fixed parameters."""
    data = load_mfeat()
    X = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)
    Y = np.where(data.target[:, None] == np.arange(10), 1, -1)
    order = np.random.default_rng(1).permutation(len(X))
    train = np.concatenate([order[data.target[order] == digit][:20] for digit in range(10)])
    rest = np.setdiff1d(order, train)[::2]
    kernels = view_kernels(data.views)
    joint, two = (
        np.mean(model.fit(X[train], Y[train]).decision_function(X[rest]).argmax(axis=1) == data.target[rest])
        for model in (
            MKMTRLClassifier(kernels, C=10, tol=1e-2),
            TwoStageMKMTRLClassifier(kernels, C=10, class_weight="balanced", n_rounds=30_000, random_state=0),
        )
    )
    assert joint > 0.95 and two > joint - 0.01


def test_without_centred_pairs_kernels_that_are_never_negative_are_wrong_about_every_other_pair():
    data = problem("classification", n_kernels=6, n_groups=3, n_relevant=2)
    rates = [
        TwoStageMKMTRLClassifier(data.kernels, n_rounds=5000, update="perceptron", center_pairs=center, random_state=0)
        .fit(data.data, data.target, tasks=data.tasks)
        .history_["mistake_rate"][-1]
        for center in (True, False)
    ]
    assert rates[0] < 0.5 < rates[1]


def test_pairs_are_centred_by_the_mean_so_far():
    rng = np.random.default_rng(0)
    tasks, z = rng.integers(3, size=50), rng.normal(size=(50, 2)) + 5
    got = z.copy()
    center = PairCenter(2)
    for part in np.split(np.arange(50), [1, 20]):
        block = got[part]
        center(tasks[part], block)
        got[part] = block
    for r in range(50):
        mine = z[: r + 1][tasks[: r + 1] == tasks[r]]
        mean = (mine.sum(axis=0) + 10 * z[: r + 1].mean(axis=0)) / (len(mine) + 10)
        np.testing.assert_allclose(got[r], z[r] - mean, atol=1e-12)


@pytest.mark.parametrize("couplings", [None, "common"])
def test_the_machines_are_certified(couplings):
    data = problem("classification")
    model = TwoStageMKMTRLClassifier(
        data.kernels, n_rounds=2000, couplings=couplings, class_weight="balanced", tol=1e-4, random_state=0
    )
    model.fit(data.data, data.target, tasks=data.tasks)
    assert 0 <= model.duality_gap_ <= 1e-4 * model.objective_
    # The hinge losses are the objective less the norms of the functions, which are sums of a f.
    values = model.decision_function(data.data, data.tasks)
    sign = np.where(data.target == model.classes_[1], 1.0, -1.0)
    expected = 0.0
    for t, task in enumerate(model.tasks_):
        mine = data.tasks == task
        a, y = model.dual_coef_[t][:, 0], sign[mine]
        share = np.where(y > 0, (y > 0).sum(), (y < 0).sum())
        cost = len(y) / (2 * share)
        expected += 0.5 * a @ (values[mine] - model.intercept_[t]) + cost @ np.maximum(0, 1 - y * values[mine])
    assert model.objective_ == pytest.approx(expected, rel=1e-8)
