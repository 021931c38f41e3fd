"""The first stage of two-stage MK-MTRL: pairs, kernel weights and their relationship."""

import os
import tracemalloc

import numpy as np
import pytest
from grams.rows import build_grams
from models.two_stage import BOTH, problem
from sklearn.base import clone

from experiments.data_sets import load_mfeat
from kernelkin import (
    AverageRegressor,
    MKMTRLClassifier,
    MKMTRLRegressor,
    MultiTaskCV,
    TwoStageMKMTRLClassifier,
    TwoStageMKMTRLRegressor,
    gaussian_kernels,
)
from kernelkin.estimators import Fitted
from kernelkin.exceptions import GramMemoryError
from kernelkin.kernels.families import linear_kernels, polynomial_kernels, view_kernels
from kernelkin.kernels.kernel import fit_kernels
from kernelkin.paper.fitting.two_stage import TwoStagePlan
from kernelkin.paper.grams.row_kernels import RowKernels
from kernelkin.paper.solvers.online import PairSource


@pytest.mark.parametrize(
    ("normalize", "form"),
    [("trace", "long"), ("cosine", "wide"), ("center", "long"), ("center", "wide"), (None, "wide")],
)
def test_values_of_pairs_are_entries_of_the_scaled_grams(normalize, form):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3)) * [1, 5, 2]
    model = TwoStageMKMTRLRegressor(normalize=normalize)
    y, tasks = (rng.normal(size=30), np.arange(30) % 3) if form == "long" else (rng.normal(size=(30, 2)), None)
    data = model.training_data(X, y, tasks, rng.uniform(0.5, 2, size=30))
    kernels = fit_kernels([*gaussian_kernels(), *polynomial_kernels([2])], X)
    values = RowKernels.of(X, kernels, normalize)
    costs = [data.sample_weight[rows] for rows in data.rows]
    source = PairSource(data, values, costs, normalize, classes=False)
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
    data = model.training_data(X, rng.normal(size=60), tasks, weight)
    values = RowKernels.of(X, fit_kernels(linear_kernels(), X), None)
    source = PairSource(data, values, [weight[rows] for rows in data.rows], None, classes=False)
    for rows in np.split(np.arange(60), 3):
        first, second = (np.average(source.targets[rows] ** p, weights=source.cost[rows]) for p in (1, 2))
        assert first == pytest.approx(0.0, abs=1e-12) and second == pytest.approx(1.0)
    t, i, j = source.pairs(rng.random((20_000, 3)))
    i, j = np.concatenate(data.rows)[i], np.concatenate(data.rows)[j]
    assert np.array_equal(tasks[i], t) and np.array_equal(tasks[j], t) and (i != j).all()
    np.testing.assert_allclose(np.bincount(t) / len(t), 1 / 3, atol=0.02)
    np.testing.assert_allclose(np.mean(weight[i] == 3), 0.75, atol=0.02)
    # The second row is drawn by weight from the others, on a grid of numbers in place of random ones.
    few, cost = model.training_data(X[:6], np.zeros(6), np.arange(6) // 3, None), np.array([5.0, 1.0, 2.0])
    grid = (np.arange(400) + 0.5) / 400
    u = np.column_stack([np.full(400**2, 0.75), np.repeat(grid, 400), np.tile(grid, 400)])
    _, i, j = PairSource(few, values, [cost, cost], None, classes=False).pairs(u)
    counts = np.bincount(3 * (i - 3) + j - 3, minlength=9).reshape(3, 3) / len(u)
    expected = np.outer(cost / 8, cost) / (8 - cost)[:, None] * (1 - np.eye(3))
    np.testing.assert_allclose(counts, expected, atol=0.005)


def test_the_relationship_shows_the_groups_in_factors_and_as_a_matrix(monkeypatch):
    data = problem("regression", n_samples=80)
    model = TwoStageMKMTRLRegressor(data.kernels, update="hinge", n_rounds=30_000, min_rank=2, random_state=0)
    model.fit(data.data, data.target, tasks=data.tasks)
    Omega = model.task_relationship_
    np.testing.assert_allclose(np.trace(Omega), 1.0)
    correlation = Omega[2] / np.sqrt(Omega[2, 2] * np.diag(Omega))
    assert set(model.tasks_[np.argsort(-correlation)[:3]]) == {"task00", "task01", "task02"}  # its group
    monkeypatch.setenv("KERNELKIN_MEMORY_GIB", "1e-7")
    with pytest.raises(GramMemoryError, match="task_relationship_ is a 6 x 6 array"):
        _ = model.task_relationship_


def test_stage_1_has_no_gram_and_no_matrix_of_tasks(monkeypatch):
    n_tasks, n_rows, K = 2000, 5, 4
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(n_tasks * n_rows, 2)), np.repeat(np.arange(n_tasks), n_rows)
    y = X[:, 0] + 0.1 * rng.normal(size=len(X))
    monkeypatch.setattr(TwoStagePlan, "fit_machines", lambda *arguments: Fitted({}))
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
