"""Held-out values by refitted folds, and intervals of tiny tasks and of tasks that were not in training."""

import numpy as np
import pytest
from sklearn.base import clone

from kernelkin import AverageClassifier, MKMTRLClassifier, MKMTRLRegressor, TwoStageMKMTRLRegressor, gaussian_kernels
from kernelkin.data.folds import make_folds
from kernelkin.paper.uncertainty import N_FOLDS, SEED


@pytest.mark.parametrize("form", ["long", "wide", "precomputed"])
def test_held_out_values_are_those_of_models_that_were_fitted_without_the_rows(form):
    rng = np.random.default_rng(5)
    X, tasks = rng.normal(size=(60, 2)), np.repeat(["a", "b"], 30)
    Y = (X[:, :1] + 0.5 * rng.normal(size=(60, 2)) > [0.0, 0.8]).astype(int)
    y = Y[:, 0] if form == "long" else Y
    model = MKMTRLClassifier("precomputed" if form == "precomputed" else None, tol=1e-7)
    grams = np.stack([X @ X.T, np.exp(-np.square(X[:, None] - X).sum(axis=2))], axis=2)

    def part(rows, columns):
        return (grams[np.ix_(rows, columns)] if form == "precomputed" else X[rows],)

    def names(rows):
        return {"tasks": tasks[rows]} if form == "long" else {}

    every = np.arange(60)
    data = clone(model).training_data(*part(every, every), y, **names(every))
    values = clone(model).fit(*part(every, every), y, **names(every)).uncertainty_.held_out()[0]
    for fold in make_folds(data, N_FOLDS, classification=True, random_state=SEED):
        kept, out = fold.rows(data)
        fitted = clone(model).fit(*part(kept, kept), y[kept], **names(kept))
        expected = fitted.decision_function(*part(out, kept), **names(out))
        for t, name in enumerate("ab"):
            own = expected[tasks[out] == name] if form == "long" else expected[:, t]
            if form != "long":
                own = own[np.isin(out, fold.held[t])]
            np.testing.assert_allclose(values[t][fold.held[t], 0], own, atol=1e-3)


def tiny(seed, signal):
    """12 tasks of 2 to 4 rows, and 40 test rows of each."""
    rng = np.random.default_rng(seed)
    level, slope = rng.normal(size=12), 0.5 * rng.normal(size=12)

    def draw(tasks):
        X = rng.normal(size=(len(tasks), 2))
        f = signal * (level[tasks] + X[:, 0] * (1 + slope[tasks]) + np.sin(2 * X[:, 1]))
        return X, f + 0.7 * rng.normal(size=len(tasks)), tasks

    return draw(np.repeat(np.arange(12), rng.integers(2, 5, 12))), draw(np.repeat(np.arange(12), 40))


@pytest.mark.parametrize("couplings", [None, "common"])
@pytest.mark.parametrize("signal", [0.0, 1.0])
def test_intervals_of_tiny_tasks_cover_them(signal, couplings):
    covered = []
    for seed in range(6):
        train, (X, y, tasks) = tiny(seed, signal)
        ends = MKMTRLRegressor(couplings=couplings).fit(*train).predict_interval(X, tasks, 0.9)
        covered.append(((ends[:, 0] <= y) & (y <= ends[:, 1])).mean())
    assert 0.86 < np.mean(covered) < 0.96


def test_tasks_of_single_rows_have_intervals_as_wide_as_all_targets():
    X, tasks, y = np.arange(4.0)[:, np.newaxis], np.array(list("abcd")), np.array([1.0, 3.0, 2.0, 6.0])
    model = MKMTRLRegressor("linear", couplings="common").fit(X, y, tasks)
    value, std = model.predict(X, tasks, return_std=True)
    np.testing.assert_allclose(std, np.std(y))
    assert np.isfinite(model.predict_interval(X, tasks)).all() and np.isfinite(value).all()


def test_rows_of_a_task_of_one_class_count_for_this_class():
    rng = np.random.default_rng(6)
    X, tasks = rng.normal(size=(50, 1)), np.repeat(["one", "two", "three"], [10, 20, 20])
    y = np.where(tasks == "one", "yes", np.where(X[:, 0] > 0, "yes", "no"))
    model = MKMTRLClassifier("linear", couplings="common").fit(X, y, tasks)
    assert model.predict_proba(X[:10], tasks[:10])[:, 1].mean() > 0.6


def test_probabilities_are_the_same_at_every_call_and_after_a_pickle_without_the_rows():
    rng = np.random.default_rng(7)
    X, y = rng.normal(size=(30, 2)), np.arange(30) % 2
    model = AverageClassifier().fit(X, y)
    first = model.predict_proba(X)
    np.testing.assert_array_equal(model.predict_proba(X), first)
    assert model.uncertainty_.data is None and model.uncertainty_.__getstate__()["_held"] is None


def draw(seed, n_tasks=20, n_new=60, n_rows=6):
    """Tasks with levels and slopes that follow their size, and some that do not: a table, rows, and which are known."""
    rng = np.random.default_rng(seed)
    size, own = rng.uniform(-1.5, 1.5, n_tasks + n_new), rng.normal(size=n_tasks + n_new)
    code = np.repeat(np.arange(n_tasks + n_new), n_rows)
    X = np.column_stack([rng.normal(size=len(code)), rng.normal(size=len(code)) + 3 * size[code]])
    y = np.sin(1.5 * X[:, 0]) + (1 + X[:, 0]) * size[code] + 0.5 * own[code] + 0.3 * rng.normal(size=len(code))
    labels = np.array([f"task {i:03}" for i in range(n_tasks + n_new)])
    return X, y, labels[code], code < n_tasks


def test_intervals_of_new_tasks_cover_them():
    covered, ratios = [], []
    for seed in range(2):
        X, y, tasks, known = draw(seed)
        model = MKMTRLRegressor(gaussian_kernels([1.0]), C=3.0, couplings="common", unknown_tasks="common")
        model.fit(X[known], y[known], tasks=tasks[known])
        ends = model.predict_interval(X[~known], tasks[~known], coverage=0.8)
        value, std = model.predict(X[~known], tasks[~known], return_std=True)
        covered.append(((ends[:, 0] <= y[~known]) & (y[~known] <= ends[:, 1])).mean())
        ratios.append(np.sqrt(np.mean((y[~known] - value) ** 2) / np.mean(std**2)))
    assert abs(np.mean(covered) - 0.8) < 0.08
    assert 0.75 < np.mean(ratios) < 1.25


def test_new_tasks_of_a_model_that_cannot_leave_tasks_out_have_wide_intervals():
    X, y, tasks, known = draw(1, n_tasks=6, n_new=20)
    X, y, tasks, Z, v = X[known], y[known], tasks[known], X[~known], y[~known]
    model = MKMTRLRegressor(couplings="common", unknown_tasks="common", prior=np.eye(6)).fit(X, y, tasks)
    ends = model.predict_interval(Z, np.full(len(Z), "new"))
    assert ((ends[:, 0] <= v) & (v <= ends[:, 1])).mean() > 0.85


def test_probabilities_of_new_tasks_are_calibrated_by_tasks_left_out():
    X, y, tasks, known = draw(5, n_tasks=25)
    model = MKMTRLClassifier(gaussian_kernels([1.0]), couplings="common", unknown_tasks="common")
    model.fit(X[known], y[known] > 0, tasks=tasks[known])
    p = model.predict_proba(X[~known], tasks[~known])[:, 1]
    same = model.predict_proba(X[~known], tasks[known][np.zeros((~known).sum(), dtype=int)])[:, 1]
    # Levels differ between tasks: what is almost certain within one is not in another.
    assert np.std(p) < np.std(same)
    assert -np.mean(np.log(np.where(y[~known] > 0, p, 1 - p))) < 0.69


def test_rows_of_a_task_that_cannot_be_fitted_without_them_have_no_held_out_values():
    rng = np.random.default_rng(0)
    X, tasks = rng.normal(size=(42, 2)), np.repeat(["a", "b", "few"], [20, 20, 2])
    model = TwoStageMKMTRLRegressor(n_rounds=100, random_state=0).fit(X, X[:, 0], tasks=tasks)
    values, _ = model.uncertainty_.held_out()
    assert [np.isfinite(part).all() for part in values] == [True, True, False]
