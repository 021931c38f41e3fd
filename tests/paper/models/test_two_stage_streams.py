"""Two-stage MK-MTRL on streams: pieces, reservoirs, new tasks, errors, and what a model keeps."""

import pickle

import numpy as np
import pytest
from models.two_stage import BOTH, problem, stream

from kernelkin import (
    TwoStageMKMTRLClassifier,
    TwoStageMKMTRLRegressor,
)
from kernelkin.paper.solvers.online import PairSource


@pytest.mark.parametrize("kind", BOTH)
def test_a_stream_in_pieces_learns_as_well_as_in_one(kind):
    data = problem(kind, n_samples=80)
    scores = []
    for cuts in ([], [7, 8, 300, 999, 1000], range(240, 2880, 240)):
        model = stream(kind, data, cuts, C=10, reservoir=60)
        assert model.n_iter_ + model.n_skipped_ == 6 * len(data.data)
        assert sorted(model.tasks_) == data.task_names.tolist()
        assert [len(rows) for rows in model.stream_.data().rows] == [60] * 6
        scores.append(model.score(data.data_test, data.target_test, data.tasks_test))
        again = stream(kind, data, cuts, C=10, reservoir=60)
        assert np.array_equal(again.predict(data.data, data.tasks), model.predict(data.data, data.tasks))
    assert np.ptp(scores) < 0.1 and min(scores) > 0.5


def test_predicting_in_the_middle_does_not_change_the_stream():
    data = problem("regression")
    model = TwoStageMKMTRLRegressor(data.kernels, random_state=0, reservoir=15)
    order = np.tile(np.random.default_rng(0).permutation(len(data.data)), 6)
    for part in np.split(order, [200, 900]):
        model.partial_fit(data.data[part], data.target[part], data.tasks[part])
        model.predict(data.data_test, data.tasks_test)
    other = stream("regression", data, [200, 900])
    assert np.array_equal(model.predict(data.data, data.tasks), other.predict(data.data, data.tasks))


def test_rows_of_a_stream_are_paired_with_other_rows_of_their_task(monkeypatch):
    data = problem("regression")
    model = TwoStageMKMTRLRegressor(data.kernels, random_state=0, reservoir=15)
    seen = []

    def rounds(source, tasks, i, j):
        X, of_task = source.values.X[source.rows], np.repeat(np.arange(len(source.sizes)), source.sizes)
        assert np.array_equal(of_task[i], tasks) and np.array_equal(of_task[j], tasks) and (i != j).all()
        seen.append(X[i])
        return original(source, tasks, i, j)

    original = PairSource.rounds
    monkeypatch.setattr(PairSource, "rounds", rounds)
    order = np.random.default_rng(0).permutation(len(data.data))
    for part in np.split(order, 3):
        model.partial_fit(data.data[part], data.target[part], data.tasks[part])
    assert np.array_equal(np.vstack(seen), data.data[order])


def test_reservoirs_are_bounded_and_fair():
    rng = np.random.default_rng(0)
    kept = np.zeros(4)
    for seed in range(60):
        X = np.arange(400.0).reshape(-1, 1)
        model = TwoStageMKMTRLRegressor("linear", random_state=seed, reservoir=10)
        model.partial_fit(X, rng.normal(size=400), np.zeros(400, dtype=int))
        held = model.stream_.data()
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
    assert model.n_skipped_ == 0 and model.n_iter_ == 4000 + len(data.data)
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
    assert model.n_skipped_ == 1
    assert model.score(data.data, data.target, data.tasks) > 0.5
    with pytest.raises(ValueError, match=r"task 'lonely' has one sample only"):
        model.predict(data.data[:2], ["lonely", data.task_names[0]])
    model.partial_fit(data.data[1:30], data.target[1:30], np.full(29, "lonely"))
    assert model.n_skipped_ == 1
    assert set(model.predict(data.data[:5], ["lonely"] * 5)) <= {-1, 1}


def test_errors_are_those_of_the_core_and_those_of_streams():
    data = problem("classification")
    with pytest.raises(ValueError, match=r"task 'task00' has one class only \(1\); a classifier needs two or more"):
        TwoStageMKMTRLClassifier().fit(data.data, np.where(data.tasks == "task00", 1, data.target), tasks=data.tasks)
    with pytest.raises(ValueError, match="min_rank=9 is larger than the number of tasks"):
        TwoStageMKMTRLClassifier(min_rank=9).fit(data.data, data.target, tasks=data.tasks)
    with pytest.raises(ValueError, match="kernel 'linear' is zero on all training rows"):
        TwoStageMKMTRLClassifier("linear").fit(0 * data.data, data.target, tasks=data.tasks)
    with pytest.raises(ValueError, match="kernel '<lambda>' is not positive semi-definite"):
        TwoStageMKMTRLClassifier(lambda X, Y: -((X @ Y.T) ** 2) + 5, normalize=None, n_rounds=10).fit(
            data.data, data.target
        )
    with pytest.raises(ValueError, match="partial_fit does not support precomputed kernels"):
        TwoStageMKMTRLClassifier("precomputed").partial_fit(data.data @ data.data.T, data.target)
    with pytest.raises(ValueError, match="normalize='center', which needs all rows of a task at once"):
        TwoStageMKMTRLClassifier(normalize="center").partial_fit(data.data, data.target)
    with pytest.raises(ValueError, match=r"classes 1, which are not among classes=-1, 2"):
        TwoStageMKMTRLClassifier().partial_fit(data.data, data.target, data.tasks, classes=[-1, 2])
    model = TwoStageMKMTRLClassifier(random_state=0).partial_fit(data.data, data.target, data.tasks)
    with pytest.raises(ValueError, match="was fitted on long data, but got single"):
        model.partial_fit(data.data, data.target)
    with pytest.raises(ValueError, match=r"X has \d+ features, but TwoStageMKMTRLClassifier is expecting"):
        model.partial_fit(data.data[:, 1:], data.target, data.tasks)


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


def test_a_fitted_model_keeps_reservoirs_and_no_data():
    rng = np.random.default_rng(0)
    n = 20_000  # more than are taken in at one time
    X, tasks = rng.normal(size=(n, 10)), np.arange(n) % 2
    y = X[:, 0] + 0.1 * rng.normal(size=n)
    model = TwoStageMKMTRLRegressor("linear", n_rounds=200, max_exact=50, reservoir=20, random_state=0)
    model.fit(X, y, tasks=tasks)
    kept = model.stream_.data()
    assert [len(rows) for rows in kept.rows] == [20, 20] and model.stream_.X.shape == (40, 10)
    # Landmarks, reservoirs, and a few numbers for each row; the data are ten.
    model.predict_interval(X[:2], tasks[:2])  # until then, what the intervals follow from is kept
    assert len(pickle.dumps(model)) < 0.3 * X.nbytes


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
    with pytest.raises(ValueError, match="partial_fit does not support precomputed kernels"):
        model.partial_fit(grams, X[:, 0], tasks)
    centred = TwoStageMKMTRLRegressor("linear", normalize="center", n_rounds=200, random_state=0)
    assert centred.fit(X, X[:, 0], tasks=tasks).stream_ is None
    with pytest.raises(ValueError, match="do not allow partial_fit: fit it again"):
        centred.set_params(normalize="trace").partial_fit(X, X[:, 0], tasks)


def test_a_class_that_has_left_the_reservoir_is_still_known():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = np.where(X[:, 0] > 0, "b", "a")
    y[0] = "c"
    model = TwoStageMKMTRLClassifier("linear", reservoir=20, random_state=0).partial_fit(X, y)
    assert model.decision_function(X).shape == (400, 3)
    assert model.task_classes_[0].tolist() == ["a", "b"] and model.classes_.tolist() == ["a", "b", "c"]
