"""Two-stage online MK-MTRL: streams, machines, relationship factors, errors, and the quality of its weights."""

import os
import pickle
import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone

from kernelkin import (
    AverageClassifier,
    AverageRegressor,
    MKMTRLClassifier,
    MKMTRLRegressor,
    MultiTaskCV,
    MultiTaskKernelEstimator,
    TwoStageMKMTRLClassifier,
    TwoStageMKMTRLRegressor,
    gaussian_kernels,
    kernel_likeness,
)
from kernelkin.data import read_training
from kernelkin.datasets import load_mfeat, make_related_tasks
from kernelkin.exceptions import GramMemoryError
from kernelkin.fitting import Classification, Fitted, Regression, RunOptions, SecondStage
from kernelkin.grams import RowKernels, build_grams
from kernelkin.grams.charges import kernel_charges
from kernelkin.kernels import fit_kernels, linear_kernels, polynomial_kernels, view_kernels
from kernelkin.penalties import FixedWeights
from kernelkin.solvers.online import PairSource

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


@pytest.mark.parametrize("kind", BOTH)
def test_a_stream_is_the_same_in_one_piece_and_in_many(kind):
    data = problem(kind)
    whole, *others = (stream(kind, data, cuts) for cuts in ([], [7, 8, 300, 999, 1000, 1001], range(240, 1440, 240)))
    for model in others:
        assert np.array_equal(model.tasks_, whole.tasks_)
        assert np.array_equal(model.kernel_weights_, whole.kernel_weights_)
        assert np.array_equal(model.task_relationship_, whole.task_relationship_)
        kept, expected = model.stream_.data(), whole.stream_.data()
        for rows, others in zip(kept.rows, expected.rows, strict=True):
            assert np.array_equal(kept.X[rows], expected.X[others])
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
        held = model.stream_.begun().data()
        assert len(held.rows[0]) == 10
        kept += np.histogram(held.X[held.rows[0], 0], bins=[0, 100, 200, 300, 400])[0]
    np.testing.assert_allclose(kept / kept.sum(), 0.25, atol=0.07)


@pytest.mark.parametrize("kind", BOTH)
def test_partial_fit_continues_after_fit_with_new_rows_and_new_tasks(kind):
    data = problem(kind, n_samples=60)
    old = np.isin(data.tasks, data.task_names[:4])
    model = BOTH[kind](data.kernels, C=10, update="hinge", n_rounds=4000, random_state=0)
    model.fit(data.data[old], data.target[old], tasks=data.tasks[old])
    before = model.kernel_weights_.copy()
    model.partial_fit(data.data, data.target, data.tasks)
    # The first row of each new task has no partner.
    assert model.n_skipped_ == 2 and model.n_iter_ == 4000 + len(data.data) - 2
    assert list(model.tasks_) == list(data.task_names)
    assert not np.array_equal(model.kernel_weights_[:4], before)
    assert (
        model.kernel_weights_[4:].max() < 1 and np.isfinite(model.predict(data.data_test, data.tasks_test) == 0).all()
    )
    assert len(model.dual_coef_[0]) == 120  # rows of fit are in the reservoirs as well


def test_a_task_with_one_row_is_skipped_and_counted_and_has_no_predictions():
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
    with pytest.raises(ValueError, match=r"task 'task00' has one class only \(1\); a classifier needs two or more"):
        TwoStageMKMTRLClassifier().fit(data.data, np.where(data.tasks == "task00", 1, data.target), tasks=data.tasks)
    with pytest.raises(ValueError, match="min_rank=9 is above the number of tasks"):
        TwoStageMKMTRLClassifier(min_rank=9).fit(data.data, data.target, tasks=data.tasks)
    with pytest.raises(ValueError, match="kernel 'linear' is zero on all training rows"):
        TwoStageMKMTRLClassifier("linear").fit(0 * data.data, data.target, tasks=data.tasks)
    with pytest.raises(ValueError, match="kernel '<lambda>' is not positive semi-definite"):
        TwoStageMKMTRLClassifier(lambda X, Y: -((X @ Y.T) ** 2) + 5, normalize=None, n_rounds=10).fit(
            data.data, data.target
        )
    with pytest.raises(ValueError, match="a stream has no precomputed kernels"):
        TwoStageMKMTRLClassifier("precomputed").partial_fit(data.data @ data.data.T, data.target)
    with pytest.raises(ValueError, match="normalize='center' needs all rows of a task at once"):
        TwoStageMKMTRLClassifier(normalize="center").partial_fit(data.data, data.target)
    with pytest.raises(ValueError, match=r"classes 1, which are not among classes=-1, 2"):
        TwoStageMKMTRLClassifier().partial_fit(data.data, data.target, data.tasks, classes=[-1, 2])
    model = TwoStageMKMTRLClassifier(random_state=0).partial_fit(data.data, data.target, data.tasks)
    with pytest.raises(ValueError, match="was fitted on long data, and these are single"):
        model.partial_fit(data.data, data.target)
    with pytest.raises(ValueError, match=r"X has \d+ features, but TwoStageMKMTRLClassifier is expecting"):
        model.partial_fit(data.data[:, 1:], data.target, data.tasks)
    with pytest.raises(ValueError, match="set couplings='common'"):
        TwoStageMKMTRLClassifier(unknown_tasks="common").fit(data.data, data.target, tasks=data.tasks)


@pytest.mark.parametrize(
    ("normalize", "form"),
    [("trace", "long"), ("cosine", "wide"), ("center", "long"), ("center", "wide"), (None, "wide")],
)
def test_values_of_pairs_are_entries_of_the_scaled_grams(normalize, form):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3)) * [1, 5, 2]
    model = TwoStageMKMTRLRegressor(normalize=normalize)
    y, tasks = (rng.normal(size=30), np.arange(30) % 3) if form == "long" else (rng.normal(size=(30, 2)), None)
    data = read_training(model, X, y, tasks, rng.uniform(0.5, 2, size=30), classification=False)
    kernels = fit_kernels([*gaussian_kernels(), *polynomial_kernels([2])], X)
    values = RowKernels.of(X, kernels, normalize)
    source = PairSource(data, values, Regression().machines(data, 1.0), normalize, classes=False)
    n_tasks = data.n_tasks
    codes = np.arange(40) % n_tasks
    size = np.array([len(rows) for rows in data.rows])[codes]
    i, j = rng.integers(size), rng.integers(size)
    first = np.cumsum([0, *map(len, data.rows)])[codes]
    z = source.scaled_values(codes, first + i, first + j)
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
    values = RowKernels.of(X, fit_kernels(linear_kernels(), X), None)
    source = PairSource(data, values, Regression().machines(data, 1.0), None, classes=False)
    t, i, j = source.pairs(rng.random((20_000, 3)))
    i, j = np.concatenate(data.rows)[i], np.concatenate(data.rows)[j]
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


def test_the_relationship_shows_the_groups_in_factors_and_as_a_matrix(monkeypatch):
    data = problem("regression", n_samples=80)
    model = TwoStageMKMTRLRegressor(data.kernels, update="hinge", n_rounds=30_000, min_rank=2, random_state=0)
    model.fit(data.data, data.target, tasks=data.tasks)
    Omega = model.task_relationship_
    np.testing.assert_allclose(np.trace(Omega), 1.0)
    np.testing.assert_allclose(model.relation_.row(2), Omega[2])
    likeness = kernel_likeness(model, task="task02")
    assert set(model.tasks_[np.argsort(-likeness)[:3]]) == {"task00", "task01", "task02"}  # its group
    monkeypatch.setenv("KERNELKIN_MEMORY_GIB", "1e-7")
    with pytest.raises(GramMemoryError, match="task_relationship_ is a 6 x 6 array"):
        _ = model.task_relationship_
    assert len(model.relation_.row(2)) == 6


def test_stage_1_has_no_gram_and_no_matrix_of_tasks(monkeypatch):
    n_tasks, n_rows, K = 2000, 5, 4
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(n_tasks * n_rows, 2)), np.repeat(np.arange(n_tasks), n_rows)
    y = X[:, 0] + 0.1 * rng.normal(size=len(X))
    monkeypatch.setattr(SecondStage, "run", lambda *arguments: Fitted({}))
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
def test_fitted_and_streaming_models_are_the_same_after_pickling(kind):
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
        rows = data.tasks == task
        a, y = model.dual_coef_[t][:, 0], sign[rows]
        share = np.where(y > 0, (y > 0).sum(), (y < 0).sum())
        cost = len(y) / (2 * share)
        expected += 0.5 * a @ (values[rows] - model.intercept_[t]) + cost @ np.maximum(0, 1 - y * values[rows])
    assert model.objective_ == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("normalize", ["trace", "center"])
def test_the_second_stage_at_even_weights_is_the_average_kernel(kind, normalize):
    data = problem(kind)
    average = {"classification": AverageClassifier, "regression": AverageRegressor}[kind]
    expected = average(data.kernels, C=3.0, normalize=normalize, tol=1e-8).fit(data.data, data.target, tasks=data.tasks)
    given = read_training(expected, data.data, data.target, data.tasks, None, classification=kind == "classification")
    targets = Classification() if kind == "classification" else Regression()
    stage = SecondStage(targets=targets, C=3.0, normalize=normalize, tol=1e-8)
    values = RowKernels.of(given.X, list(expected.kernels_), normalize)
    fitted = stage.run(given, values, expected.kernel_weights_, 0, RunOptions()).attributes
    assert fitted["objective_"] == pytest.approx(expected.objective_, rel=1e-7)
    for a, other in zip(fitted["dual_coef_"], expected.dual_coef_, strict=True):
        np.testing.assert_allclose(a, other, atol=1e-5)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("normalize", ["trace", "center"])
def test_tasks_that_share_precomputed_grams_have_the_machines_of_one_task_at_a_time(kind, normalize):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    Y = X @ rng.normal(size=(3, 3)) + 0.3 * rng.normal(size=(40, 3))
    Y = (Y > 0).astype(float) if kind == "classification" else Y
    Y[:5, 1] = np.nan
    kernels = fit_kernels([*linear_kernels(per_feature=True), *gaussian_kernels([1.0])], X)
    grams = np.moveaxis([kernel(X) for kernel in kernels], 0, 2)
    stage = SecondStage(
        targets=Classification() if kind == "classification" else Regression(), C=3.0, normalize=normalize, tol=1e-9
    )
    weights = rng.dirichlet(np.ones(len(kernels)), size=3)
    fitted = []
    for rows, own in ((X, kernels), (grams, None)):
        estimator = AverageRegressor(own or "precomputed")
        data = read_training(estimator, rows, Y, None, None, classification=kind == "classification")
        values = RowKernels.of(data.X, own, normalize)
        found = stage.run(data, values, weights, 0, RunOptions()).attributes
        fitted.append((found, found["functions_"].values(rows, None)))
    (alone, values_alone), (together, values_together) = fitted
    assert together["objective_"] == pytest.approx(alone["objective_"], rel=1e-7)
    assert set(together) >= set(alone) - {"uncertainty_"}
    for a, other in zip(together["dual_coef_"], alone["dual_coef_"], strict=True):
        np.testing.assert_allclose(a, other, atol=1e-5)
    np.testing.assert_allclose(values_together, values_alone, atol=1e-5)


@pytest.mark.parametrize("couplings", [None, "common"])
def test_the_machines_are_those_of_fixed_weights(couplings):
    data = problem("regression")
    model = TwoStageMKMTRLRegressor(data.kernels, C=3.0, couplings=couplings, n_rounds=2000, random_state=0)
    model.fit(data.data, data.target, tasks=data.tasks)
    B = np.vstack([model.kernel_weights_ / (2 if couplings else 1), model.coupling_weights_]).T
    other = MultiTaskKernelEstimator(data.kernels, C=3.0, couplings=couplings, penalty=FixedWeights(B))
    other.fit(data.data, data.target, tasks=data.tasks)
    assert model.objective_ == pytest.approx(other.objective_, rel=1e-10)
    expected = other.predict(data.data_test, data.tasks_test)
    np.testing.assert_allclose(model.predict(data.data_test, data.tasks_test), expected, atol=1e-9)


@pytest.mark.parametrize("max_exact", [2000, 30])
@pytest.mark.parametrize("loss", ["squared", "epsilon_insensitive"])
def test_offset_and_unit_of_the_targets_do_not_matter(loss, max_exact):
    data = problem("regression")
    options = {"loss": loss, "max_exact": max_exact, "n_rounds": 500, "random_state": 0, "tol": 1e-6}

    def fit(y, **changed):
        model = TwoStageMKMTRLRegressor(data.kernels, **options, **changed).fit(data.data, y, tasks=data.tasks)
        return model.predict(data.data_test, data.tasks_test)

    expected = fit(data.target)
    np.testing.assert_allclose(fit(data.target + 1e6) - 1e6, expected, atol=1e-4)
    # The squared loss grows as the square of the unit, as the norms do; the other one in proportion to it.
    unit = 2.0**-300
    changed = {"C": 1.0} if loss == "squared" else {"C": unit, "epsilon": 0.1 * unit}
    np.testing.assert_allclose(fit(data.target * unit, **changed) / unit, expected, rtol=1e-9)


def test_a_fitted_model_keeps_reservoirs_and_no_data():
    rng = np.random.default_rng(0)
    n = 20_000  # more than are taken in at one time
    X, tasks = rng.normal(size=(n, 10)), np.arange(n) % 2
    y = X[:, 0] + 0.1 * rng.normal(size=n)
    model = TwoStageMKMTRLRegressor("linear", n_rounds=200, max_exact=50, reservoir=20, random_state=0)
    model.fit(X, y, tasks=tasks)
    kept = model.stream_.data()
    assert [len(rows) for rows in kept.rows] == [20, 20] and model.stream_.reservoirs.X.shape == (40, 10)
    # 100 landmarks, 40 rows of the reservoirs, a dual variable a row, and at most 1,000 held-out residuals of each task
    # and 5,000 of all; the data are ten times as much.
    model.predict_interval(X[:2], tasks[:2])  # until then, what the intervals follow from is kept
    assert len(pickle.dumps(model)) < 8 * (140 * 10 + n + 7000) + 20_000


def test_rows_of_wide_data_are_kept_once_for_all_tasks():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(50, 200)), rng.normal(size=(50, 30))
    model = TwoStageMKMTRLRegressor("linear", n_rounds=200, random_state=0).fit(X, Y)
    assert model.stream_.data().X.shape == (50, 200)
    for _ in range(3):
        model.partial_fit(X, Y)
    kept = model.stream_.data()
    assert all(len(rows) == 200 for rows in kept.rows) and len(kept.X) == 200


def test_a_model_on_precomputed_kernels_keeps_no_gram():
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(120, 3)), np.arange(120) % 2
    grams = np.stack([X @ X.T, (X @ X.T) ** 2], axis=2)
    model = TwoStageMKMTRLRegressor("precomputed", n_rounds=200, random_state=0).fit(grams, X[:, 0], tasks=tasks)
    model.predict_interval(grams[:1], tasks[:1])
    assert model.stream_ is None and len(pickle.dumps(model)) < grams.nbytes / 10
    with pytest.raises(ValueError, match="a stream has no precomputed kernels"):
        model.partial_fit(grams, X[:, 0], tasks)
    centred = TwoStageMKMTRLRegressor("linear", normalize="center", n_rounds=200, random_state=0)
    assert centred.fit(X, X[:, 0], tasks=tasks).stream_ is None
    with pytest.raises(ValueError, match="allow no stream: fit it again"):
        centred.set_params(normalize="trace").partial_fit(X, X[:, 0], tasks)


def test_a_class_that_has_left_the_reservoir_is_still_known():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = np.where(X[:, 0] > 0, "b", "a")
    y[0] = "c"
    model = TwoStageMKMTRLClassifier("linear", reservoir=20, random_state=0).partial_fit(X, y)
    assert model.decision_function(X).shape == (400, 3)
    assert model.task_classes_[0].tolist() == ["a", "b"] and model.classes_.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("kind", BOTH)
def test_cross_validation_equals_a_fit_on_every_fold(kind):
    data = problem(kind, n_samples=20)
    kernels = gaussian_kernels([1.0, 4.0], relative=False)
    labels = np.random.default_rng(0).permutation(len(data.data)) % 2
    folds = [(np.flatnonzero(labels != fold), np.flatnonzero(labels == fold)) for fold in range(2)]
    model = BOTH[kind](kernels, n_rounds=500, random_state=0)
    scoring = "accuracy" if kind == "classification" else "r2"
    search = MultiTaskCV(model, {"C": [0.1, 10.0]}, cv=folds, search_tol=1e-3, scoring=scoring)
    search.fit(data.data, data.target, tasks=data.tasks)
    for C, score in zip([0.1, 10.0], search.cv_results_["split0_test_score"], strict=True):
        train, test = folds[0]
        fitted = clone(model).set_params(C=C).fit(data.data[train], data.target[train], tasks=data.tasks[train])
        assert score == pytest.approx(fitted.score(data.data[test], data.target[test], data.tasks[test]), rel=1e-8)
    alone = clone(model).set_params(**search.best_params_).fit(data.data, data.target, tasks=data.tasks)
    assert np.array_equal(search.predict(data.data, data.tasks), alone.predict(data.data, data.tasks))


def test_unknown_tasks_are_predicted_by_the_common_part():
    data = problem("regression")
    model = TwoStageMKMTRLRegressor(
        data.kernels, couplings="common", unknown_tasks="common", n_rounds=500, random_state=0
    )
    model.fit(data.data, data.target, tasks=data.tasks)
    shared = model.predict(data.data, data.tasks, split=True).shared["common"].sum(axis=1)
    unseen = model.predict(data.data, np.full(len(data.data), "new"))
    np.testing.assert_allclose(unseen, shared + model.intercept_.mean(), atol=1e-12)


@pytest.mark.parametrize(
    ("n_tasks", "n", "options"),
    [
        (40, 60, {}),
        (3, 800, {}),
        (1, 1500, {"kernels": "linear"}),
        (1, 6000, {"kernels": "linear", "max_exact": 500}),
    ],
    ids=["many small tasks", "few large tasks", "a Gram above a block", "Nystroem"],
)
def test_the_memory_of_a_fit_is_bounded_and_not_by_far(n_tasks, n, options, monkeypatch):
    if n == 1500:
        for module in ("grams.row_kernels", "fitting.second_stage"):
            monkeypatch.setattr(f"kernelkin.{module}.BLOCK_BYTES", 2**20)
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(n_tasks * n, 5)), np.repeat(np.arange(n_tasks), n)
    y = X[:, 0] + rng.normal(size=len(X))
    model = TwoStageMKMTRLRegressor(n_rounds=2000, random_state=0, **options)
    model.fit(X[:40], y[:40])  # compiles
    estimate = model.estimate_memory(X, y, tasks)
    tracemalloc.start()
    model.fit(X, y, tasks=tasks)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < estimate < 4 * peak + 2**23


@pytest.mark.parametrize("options", [{}, {"couplings": "common"}, {"reservoir": 10}])
def test_a_new_task_can_leave_the_others_as_they_are(options):
    rng = np.random.default_rng(0)
    tasks, X = np.repeat(list("abc"), 20), rng.normal(size=(60, 2))
    new = rng.normal(size=(15, 2))
    model = TwoStageMKMTRLRegressor(n_rounds=300, random_state=0, **options).fit(X, np.sin(X[:, 0]), tasks=tasks)
    before, weights = model.predict(X, tasks=tasks), model.kernel_weights_.copy()
    model.partial_fit(new, np.sin(new[:, 0]), tasks=np.repeat("d", 15), freeze_others=True)
    assert np.array_equal(model.predict(X, tasks=tasks), before)
    assert np.array_equal(model.kernel_weights_[:3], weights)
    assert model.score_tasks(new, np.sin(new[:, 0]), tasks=np.repeat("d", 15))["d"] > 0.5
    model.partial_fit(new, np.sin(new[:, 0]), tasks=np.repeat("e", 15))
    assert not np.array_equal(model.predict(X, tasks=tasks), before)


def test_parsimony_is_a_rescaling_of_the_kernels():
    data = problem("regression")
    grams = np.stack([kernel(data.data) for kernel in fit_kernels(gaussian_kernels(), data.data)], axis=2)
    options = {"normalize": None, "n_rounds": 3000, "random_state": 0}
    model = TwoStageMKMTRLRegressor("precomputed", parsimony=1.0, **options)
    model.fit(grams, data.target, tasks=data.tasks)
    stacks = [np.moveaxis(grams[np.ix_(rows, rows)], 2, 0) for rows in (data.tasks == t for t in model.tasks_)]
    charges = kernel_charges(((stack, np.ones(stack.shape[1])) for stack in stacks), 1.0)
    assert np.ptp(charges) > 0.5
    charged = TwoStageMKMTRLRegressor("precomputed", **options).fit(grams / charges, data.target, tasks=data.tasks)
    weights = charged.kernel_weights_ / charges
    np.testing.assert_allclose(model.kernel_weights_, weights / weights.sum(axis=1, keepdims=True), atol=1e-10)


def test_a_stream_cannot_charge_kernels():
    data = problem("regression")
    model = TwoStageMKMTRLRegressor(data.kernels, parsimony=0.5)
    with pytest.raises(ValueError, match="parsimony charges kernels by their Gram matrices"):
        model.partial_fit(data.data, data.target, data.tasks)
