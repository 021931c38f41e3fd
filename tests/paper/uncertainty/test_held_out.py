"""Held-out values by refitted folds, and the coverage of intervals that follow from them."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone

from kernelkin import AverageClassifier, MKMTRLClassifier, MKMTRLRegressor
from kernelkin.data.folds import make_folds
from kernelkin.data.forms import read_training
from kernelkin.estimators import RunOptions
from kernelkin.paper.uncertainty import N_FOLDS, SEED, Uncertainty


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


@pytest.fixture(scope="module")
def shared():
    """Rows of four tasks, and a model of numbers and one of classes that predict new tasks."""
    rng = np.random.default_rng(3)
    X, tasks = rng.normal(size=(80, 1)), np.repeat(["a", "b", "c", "d"], 20)
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=80)
    options = {"couplings": "common", "unknown_tasks": "common"}
    return X, tasks, MKMTRLRegressor(**options).fit(X, y, tasks), MKMTRLClassifier(**options).fit(X, y > 0, tasks)


def test_new_tasks_have_predictions_but_no_intervals(shared):
    X, tasks, model, _ = shared
    names = np.where(tasks == "a", "new", np.where(tasks == "b", "late", tasks))
    assert np.isfinite(model.predict(X, names)).all()
    message = (
        "MKMTRLRegressor has no intervals and no standard deviations for tasks .*: 'late', 'new'. Use KinRegressor"
    )
    for ask in (lambda: model.predict_interval(X, names), lambda: model.predict(X, names, return_std=True)):
        with pytest.raises(ValueError, match=message):
            ask()


def test_probabilities_of_new_tasks_follow_the_same_link(shared, monkeypatch):
    X, tasks, _, model = shared
    monkeypatch.setattr(model.uncertainty_.compute(), "shifts", np.array([0.5, -1.0, 0.3, 0.0]))
    for names in (tasks, np.full(80, "new")):
        link, values = model.uncertainty_.compute().link, model.decision_function(X, names)
        shifts = np.append(model.uncertainty_.shifts, 0.0)[np.searchsorted(model.tasks_, names)]
        expected = 1 / (1 + np.exp(-link.slope * (values + shifts) - link.offset))
        np.testing.assert_allclose(model.predict_proba(X, names)[:, 1], expected)


class Zero:
    """A model that predicts zero, so that residuals are the targets."""

    def plan(self, data):
        return self

    def run(self, options):
        return SimpleNamespace(attributes={"functions_": self})

    def values(self, X, codes):
        return np.zeros((len(X), 1))


def uncertainty_of(parts):
    y, tasks = np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    data = read_training(np.zeros((len(y), 1)), y, tasks, classification=False)
    return Uncertainty(Zero(), data, RunOptions(1), classification=False).compute()


def half_widths(parts, coverage):
    found = uncertainty_of(parts)
    return found.scales * found.scores.quantile(coverage)


def test_one_task_has_the_quantile_of_split_conformal_prediction():
    residuals = np.random.default_rng(0).standard_t(3, size=39)
    # The 36th of 39 is the smallest with a share of 0.9 among 40 exchangeable residuals at least.
    np.testing.assert_allclose(half_widths([residuals], 0.9)[0], np.sort(np.abs(residuals))[35])


def test_coverage_is_exact_where_residuals_are_exchangeable():
    rng = np.random.default_rng(1)
    residuals = rng.exponential(size=(1000, 20))
    covered = [each[19] <= half_widths([each[:19]], 0.8)[0] for each in residuals]
    # 16 of 20: exactly 0.8, within three standard errors of the simulation.
    assert abs(np.mean(covered) - 0.8) < 0.038


@pytest.mark.parametrize(("n_rows", "spread"), [(3, 0.0), (3, 0.5), (10, 0.0), (10, 0.5), (10, 2.5)])
def test_many_small_tasks_are_covered_on_the_whole(n_rows, spread):
    rng = np.random.default_rng(2)
    scale = np.exp(spread * rng.normal(size=200))
    half = half_widths([s * rng.normal(size=n_rows) for s in scale], 0.9)
    covered = np.abs(scale[:, np.newaxis] * rng.normal(size=(200, 500))) <= half[:, np.newaxis]
    assert abs(covered.mean() - 0.9) < 0.03


def test_scores_are_sizes_in_scales_estimated_without_the_row():
    """Of two rows, the other one alone says nothing on the scale, which is that of a typical task."""
    rng = np.random.default_rng(5)
    parts = [s * rng.normal(size=n) for n, s in ((2, 1.0), (400, 0.1), (400, 10.0))]
    found = uncertainty_of(parts)
    typical = uncertainty_of([np.zeros(1), *parts]).scales[0]
    large = parts[2]
    others = np.sqrt((large @ large - large**2) / 399)
    for score in (*np.abs(parts[0]) / typical, *np.abs(large) / others):
        assert np.abs(found.scores.values / score - 1).min() < 2e-3


def test_standard_deviations_follow_the_residuals_of_tasks_with_many_rows():
    rng = np.random.default_rng(3)
    found = uncertainty_of([s * rng.normal(size=2000) for s in (0.1, 1.0, 10.0)])
    np.testing.assert_allclose(found.scales * found.scores.scale, [0.1, 1.0, 10.0], rtol=0.05)


def test_intervals_follow_the_unit_of_all_targets_and_not_the_order_of_tasks():
    rng = np.random.default_rng(4)
    parts = [rng.normal(size=n) for n in (2, 9, 30, 4)]
    half = half_widths(parts, 0.9)
    np.testing.assert_allclose(half_widths([1e6 * part for part in parts], 0.9), 1e6 * half)
    np.testing.assert_allclose(half_widths(parts[::-1], 0.9), half[::-1])


def test_few_or_no_errors():
    assert 1.0 < half_widths([np.array([0.5, -1.0])], 0.95)[0] < 100.0
    np.testing.assert_array_equal(half_widths([np.zeros(5), np.zeros(7)], 0.9), 0.0)
    assert np.isfinite(half_widths([np.r_[np.zeros(6), 1.0], np.array([0.0, 2.0])], 0.99)).all()
