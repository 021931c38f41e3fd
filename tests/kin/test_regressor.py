"""KinRegressor: invariances, tasks that were not in training, intervals, time, kernels, groupings and wide targets."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.metrics import r2_score

from kernelkin import KinRegressor
from kernelkin.calibration import Scores
from kernelkin.mixed import structures
from kin.problems import folds, grouped, keep_copies

X, Y, TASKS, LEVELS = grouped()
N = len(X)
CV = folds(N)
QUERIES = np.random.default_rng(9).normal(size=(5, 2))
ASKED = np.array(list("abcde"))


@pytest.fixture(scope="module")
def fitted():
    return KinRegressor(cv=CV).fit(X, Y, tasks=TASKS)


@pytest.fixture(scope="module")
def predicted(fitted):
    return fitted.predict(QUERIES, tasks=ASKED)


@pytest.mark.parametrize("shift, scale", [(100.0, 1.0), (0.0, 1e3), (-5.0, 1e-3)])
def test_a_constant_added_and_a_scale_change_nothing(predicted, shift, scale):
    model = KinRegressor(cv=CV).fit(X, scale * Y + shift, tasks=TASKS)
    np.testing.assert_allclose((model.predict(QUERIES, tasks=ASKED) - shift) / scale, predicted, rtol=1e-6)


def test_the_order_of_rows_changes_nothing(predicted):
    order = np.random.default_rng(1).permutation(N)
    place = np.argsort(order)
    model = KinRegressor(cv=[(place[train], place[test]) for train, test in CV])
    model.fit(X[order], Y[order], tasks=TASKS[order])
    np.testing.assert_allclose(model.predict(QUERIES, tasks=ASKED), predicted, rtol=1e-6)


def test_names_of_tasks_change_nothing(predicted):
    names = dict(zip("abcdef", "fbdcae", strict=True))
    model = KinRegressor(cv=CV).fit(X, Y, tasks=[names[task] for task in TASKS])
    np.testing.assert_allclose(model.predict(QUERIES, tasks=[names[task] for task in ASKED]), predicted, rtol=1e-6)


def test_a_row_of_weight_zero_is_no_row():
    weight = np.ones(N)
    weight[[0, 6, 11]] = 0.0
    rows = np.flatnonzero(weight)
    pairs = [(np.intersect1d(train, rows), np.intersect1d(test, rows)) for train, test in CV]
    place = np.cumsum(weight > 0) - 1
    tasks, asked = (pd.DataFrame({"task": part, "room": np.arange(len(part)) % 4}) for part in (TASKS, ASKED))
    first = KinRegressor(cv=pairs).fit(X, Y, tasks=tasks, sample_weight=weight)
    second = KinRegressor(cv=[(place[a], place[b]) for a, b in pairs]).fit(X[rows], Y[rows], tasks=tasks.iloc[rows])
    np.testing.assert_allclose(first.predict(QUERIES, tasks=asked), second.predict(QUERIES, tasks=asked), rtol=1e-6)
    for own, other in zip(first.functions_.group_rows, second.functions_.group_rows, strict=True):
        np.testing.assert_array_equal(own, other)


@pytest.mark.parametrize("change", ["order", "names", "units of columns"])
def test_folds_depend_neither_on_the_order_of_rows_nor_on_names_nor_on_units(change):
    model = KinRegressor(random_state=0)
    expected = model.fit(X, Y, tasks=TASKS).predict(QUERIES, tasks=ASKED)
    order = np.random.default_rng(2).permutation(N) if change == "order" else np.arange(N)
    names = dict(zip("abcdef", "fbdcae" if change == "names" else "abcdef", strict=True))
    scale = np.array([100.0, 0.01]) if change == "units of columns" else np.ones(2)
    model.fit(X[order] * scale, Y[order], tasks=[names[task] for task in TASKS[order]])
    found = model.predict(QUERIES * scale, tasks=[names[task] for task in ASKED])
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    # Other folds give another average, so that the test can fail.
    other = KinRegressor(random_state=1).fit(X, Y, tasks=TASKS).predict(QUERIES, tasks=ASKED)
    assert np.abs(other - expected).max() > 1e-3


def test_folds_of_wide_data_with_missing_labels_do_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(30, 2))
    wide = np.column_stack([rows[:, 0], rows[:, 0] + rows[:, 1]]) + 0.3 * rng.normal(size=(30, 2))
    wide[:6, 0], wide[6:9, 1] = np.nan, np.nan
    order = rng.permutation(30)
    first, second, other = (
        KinRegressor(random_state=seed).fit(rows[kept], wide[kept]).predict(rows)
        for seed, kept in ((0, np.arange(30)), (0, order), (1, order))
    )
    np.testing.assert_allclose(second, first, rtol=1e-5)
    assert np.abs(other - first).max() > 1e-4


@pytest.mark.parametrize("factor", [0.01, 100.0])
def test_weights_that_cannot_count_rows_cause_a_warning(factor):
    with pytest.warns(UserWarning, match=rf"^sample_weight is {factor:.3g} on average: a row of weight 2 counts"):
        KinRegressor(cv=CV, n_features=10).fit(X, Y, tasks=TASKS, sample_weight=np.full(N, factor))


@pytest.mark.parametrize("merged, exact_rows", [(True, 300), (False, 300), (False, 0)])
def test_a_row_of_weight_three_is_three_copies_of_it(merged, exact_rows, monkeypatch):
    """Copies are merged into rows with weights; fits to copies that are not merged know no weights."""
    weight = 1.0 + np.arange(N) % 3
    rows = np.repeat(np.arange(N), weight.astype(int))
    pairs = [(np.flatnonzero(np.isin(rows, train)), np.flatnonzero(np.isin(rows, test))) for train, test in CV]
    if not merged:
        monkeypatch.setattr("kernelkin.kin.fit.merge_copies", keep_copies)
    monkeypatch.setattr(structures, "EXACT_ROWS", exact_rows)
    # What is added to the noise of each row would be less for a row that stands for three.
    monkeypatch.setattr("kernelkin.mixed.batch.JITTER", 1e-13)
    # Fits that end early depend on rounding.
    monkeypatch.setattr("kernelkin.mixed.model.STEEPNESS", 1e-5)
    one = KinRegressor(cv=CV, n_features=10).fit(X, Y, tasks=TASKS, sample_weight=weight)
    copies = KinRegressor(cv=pairs, n_features=10).fit(X[rows], Y[rows], tasks=TASKS[rows])
    close = 1e-7 if merged else 1e-4
    for first, second in zip(*(m.predict(QUERIES, tasks=ASKED, return_std=True) for m in (one, copies)), strict=True):
        np.testing.assert_allclose(first, second, rtol=close)
    intervals = [m.predict_interval(QUERIES, tasks=ASKED, coverage=0.8) for m in (one, copies)]
    np.testing.assert_allclose(*intervals, rtol=close)
    for name in ("error", "standard_error", "weight"):
        np.testing.assert_allclose(*(m.search_results_[name] for m in (one, copies)), rtol=1e-4, atol=1e-6)
    for name in ("variance_components_", *(["features_"] if exact_rows == 0 else [])):
        assert getattr(one, name) == pytest.approx(getattr(copies, name), rel=1e-4, abs=1e-6)
    # Values of columns are exchanged between rows at random, and the pairs of rows differ.
    assert one.column_shares_ == pytest.approx(copies.column_shares_, abs=0.05)
    effects = [m.task_effects().drop(columns="rows") for m in (one, copies)]
    np.testing.assert_allclose(*effects, rtol=1e-4, atol=1e-5)
    plain = KinRegressor(cv=CV).fit(X, Y, tasks=TASKS).predict(QUERIES, tasks=ASKED)
    assert np.abs(one.predict(QUERIES, tasks=ASKED) - plain).max() > 1e-3
    assert len(copies.held_out_.y) == len(rows)


def test_equal_rows_of_two_tasks_are_not_merged(monkeypatch):
    tasks, pairs = np.repeat(TASKS, 2), [tuple(np.repeat(2 * part, 2) + [0, 1] * len(part) for part in f) for f in CV]
    tasks[1::2] = np.roll(tasks[1::2], 5)
    ask = {"X": np.repeat(X, 2, axis=0), "y": np.repeat(Y, 2), "tasks": tasks}
    assert (tasks[::2] != tasks[1::2]).any()
    model = KinRegressor(cv=pairs).fit(**ask)
    monkeypatch.setattr("kernelkin.kin.fit.merge_copies", keep_copies)
    expected = KinRegressor(cv=pairs).fit(**ask).predict(QUERIES, tasks=ASKED)
    np.testing.assert_allclose(model.predict(QUERIES, tasks=ASKED), expected, rtol=1e-3)


def test_shares_of_variance_sum_to_one_and_follow_the_data(fitted):
    shares = fitted.variance_components_
    assert np.isclose(sum(shares.values()), 1.0)
    assert min(shares.values()) >= 0
    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    assert shares["level"] > 0.5
    assert f"{shares['level']:.0%} of the variation is between" in fitted.explain()
    assert np.isclose(sum(fitted.column_shares_.values()), 1.0)
    assert next(iter(fitted.column_shares_)) == "x0"
    flat = KinRegressor(cv=CV).fit(X, Y - LEVELS[np.repeat(np.arange(6), 4)], tasks=TASKS)
    assert flat.variance_components_["level"] < 0.1


def test_weights_follow_held_out_errors(fitted):
    table = fitted.search_results_
    assert set(table["structure"]) == {structure.name for structure in structures.STRUCTURES}
    assert np.isclose(sum(member["weight"] for member in fitted.members_), 1.0)
    assert fitted.best_structure_ == table["structure"][np.argmin(table["error"])]
    kept = table["weight"] > 0
    order = np.argsort(table["error"][kept])
    assert (np.diff(table["weight"][kept][order]) <= 0).all()
    expected = np.exp(-(table["error"] - table["error"].min()) / (0.5 * table["standard_error"][0]))[kept]
    np.testing.assert_allclose(table["weight"][kept], expected / expected.sum(), rtol=1e-6)


def test_weights_of_the_structures_that_stay_sum_to_one(monkeypatch):
    monkeypatch.setattr("kernelkin.kin.fit.LEAST_WEIGHT", 0.18)
    model = KinRegressor(random_state=0).fit(X, Y, tasks=TASKS)
    functions, weight = model.functions_, model.search_results_["weight"]
    assert 0 < np.count_nonzero(weight) < len(weight)
    for weights in (functions.weights, functions.new_weights, weight):
        assert weights.sum() == pytest.approx(1.0)


def test_a_task_with_one_row_is_drawn_to_the_others_and_wider(fitted):
    model = KinRegressor(cv=3, random_state=0).fit(
        np.vstack([X, [[0.0, 0.0]]]), np.append(Y, 2.0), tasks=np.append(TASKS, "single")
    )
    mean, deviation = model.predict(np.zeros((2, 2)), tasks=["single", "a"], return_std=True)
    center = np.average(Y)
    assert min(center, 2.0) - 0.1 < mean[0] < max(center, 2.0) + 0.1
    assert deviation[0] > deviation[1]


def test_tasks_that_were_not_in_training_have_wider_intervals(fitted):
    known, new = (fitted.predict_interval(QUERIES, tasks=labels) for labels in (ASKED, ["new"] * 5))
    assert (np.diff(new) > 2 * np.diff(known)).all()
    narrow = fitted.predict_interval(QUERIES, tasks=ASKED, coverage=0.5)
    assert ((known[:, 0] < narrow[:, 0]) & (narrow[:, 1] < known[:, 1])).all()
    np.testing.assert_allclose(known.mean(1), fitted.predict(QUERIES, tasks=ASKED))


def test_unknown_tasks_are_refused_by_name_where_that_is_asked_for():
    model = KinRegressor(cv=2, unknown_tasks="error", random_state=0).fit(X, Y, tasks=TASKS)
    with pytest.raises(ValueError, match="'new'"):
        model.predict(QUERIES[:2], tasks=["a", "new"])


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_intervals_of_tiny_tasks_cover(level):
    """12 tasks of 2 to 4 rows, and of tasks that were not in training, over a few seeds."""
    inside, new = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        codes = np.repeat(np.arange(12), rng.integers(2, 5, 12))
        levels = level * rng.normal(size=16)
        rows = rng.normal(size=(len(codes), 2))
        y = levels[codes] + level * rows[:, 0] + rng.normal(size=len(codes))
        model = KinRegressor(random_state=0).fit(rows, y, tasks=codes)
        asked = np.repeat(np.arange(16), 20)
        Q = rng.normal(size=(len(asked), 2))
        target = levels[asked] + level * Q[:, 0] + rng.normal(size=len(asked))
        low, high = model.predict_interval(Q, tasks=asked).T
        covered = (low <= target) & (target <= high)
        inside.append(covered[asked < 12].mean())
        new.append(covered[asked >= 12].mean())
    assert 0.8 < np.mean(inside) < 0.97
    assert 0.75 < np.mean(new) < 1.0


def test_time_that_is_over_still_gives_a_model():
    with pytest.warns(UserWarning, match="time_limit=1e-09 reached before all structures were compared"):
        model = KinRegressor(cv=CV, time_limit=1e-9).fit(X, Y, tasks=TASKS)
    assert not model.is_complete_
    assert "not complete" in model.explain()
    low, high = model.predict_interval(QUERIES, tasks=ASKED).T
    assert np.isfinite(low).all()
    assert (low < high).all()
    assert np.mean((model.predict(X, tasks=TASKS) - Y) ** 2) < 0.5 * Y.var()


def narrow(A, B):
    return np.exp(-0.5 * ((A[:, None] - B) ** 2).sum(-1))


def linear(A, B):
    return A @ B.T


def test_kernels_of_the_user_and_their_values_give_the_same_model():
    model = KinRegressor([narrow, linear], cv=CV).fit(X, Y, tasks=TASKS)
    assert {"common kernel 1", "own kernel 2", "level", "noise"} <= set(model.variance_components_)
    assert "alike explains 0%" not in model.explain()

    def values(A):
        return np.stack([narrow(A, X), linear(A, X)], axis=2)

    given = KinRegressor("precomputed", cv=CV).fit(values(X), Y, tasks=TASKS)
    found = given.predict(values(QUERIES), tasks=ASKED)
    np.testing.assert_allclose(found, model.predict(QUERIES, tasks=ASKED), rtol=1e-5)
    assert np.mean((found - LEVELS[:5] - QUERIES[:, 0]) ** 2) < 0.3
    scaled = KinRegressor("precomputed", cv=CV).fit(100 * values(X), Y, tasks=TASKS)
    np.testing.assert_allclose(scaled.predict(100 * values(QUERIES), tasks=ASKED), found, rtol=1e-5)
    # The mean of the diagonal is one where a row of weight three counts as three rows.
    data = model.training_data(X, Y, TASKS, sample_weight=1.0 + np.arange(N) % 3)
    rows = model.specification().plan(data).rows
    means = [np.average(np.diagonal(kernel), weights=rows.weight) for kernel in rows.kernels]
    np.testing.assert_allclose(means, 1.0)


def features_problem(T=24, n=2):
    rng = np.random.default_rng(2)
    features = rng.uniform(-2, 2, size=(T + 4, 1))
    codes = np.repeat(np.arange(T), n)
    rows = rng.normal(size=(T * n, 1))
    levels = 3 * np.sin(features[:, 0])
    return features, codes, rows, levels, levels[codes] + rows[:, 0] + 0.2 * rng.normal(size=T * n)


@pytest.mark.parametrize("exact_rows", [300, 20])
def test_features_of_tasks_tell_the_level_of_new_ones(exact_rows, monkeypatch):
    """Exact, and in blocks with features as with many rows."""
    monkeypatch.setattr(structures, "EXACT_ROWS", exact_rows)
    features, codes, rows, levels, y = features_problem()
    T = len(features) - 4
    table = pd.DataFrame(features)
    known, new = table[:T], table[T:]
    model = KinRegressor(task_features=known, cv=2, random_state=0).fit(rows, y, tasks=codes)
    asked = np.arange(T, T + 4)
    found = model.with_tasks(new).predict(np.zeros((4, 1)), tasks=asked)
    assert np.mean((found - levels[asked]) ** 2) < 0.2 * levels.var()
    plain = model.predict(np.zeros((4, 1)), tasks=asked)
    assert np.ptp(plain) < 1e-8
    whole = KinRegressor(task_features=table, cv=2, random_state=0).fit(rows, y, tasks=codes)
    np.testing.assert_allclose(whole.predict(np.zeros((4, 1)), tasks=asked), found, rtol=1e-6)


@pytest.mark.parametrize("exact_rows", [300, 20])
def test_two_crossed_groupings_are_better_than_one(exact_rows, monkeypatch):
    monkeypatch.setattr(structures, "EXACT_ROWS", exact_rows)
    rng = np.random.default_rng(3)
    first, second = (part.ravel() for part in np.meshgrid(np.arange(10), np.arange(12), indexing="ij"))
    effects = 1.5 * rng.normal(size=10), 1.5 * rng.normal(size=12)
    rows = rng.normal(size=(len(first), 1))
    y = effects[0][first] + effects[1][second] + 0.3 * rng.normal(size=len(first))
    train = rng.random(len(first)) < 0.6
    both = np.column_stack([first, second])
    one = KinRegressor(cv=2, random_state=0).fit(rows[train], y[train], tasks=first[train])
    two = KinRegressor(cv=2, random_state=0).fit(rows[train], y[train], tasks=both[train])
    errors = [
        np.mean((model.predict(rows[~train], tasks=tasks[~train]) - y[~train]) ** 2)
        for model, tasks in ((one, first), (two, both))
    ]
    assert errors[1] < 0.2 * errors[0]
    assert two.variance_components_["level 2"] > 5 * two.variance_components_["noise"]
    unknown = two.predict_interval(rows[:1], tasks=[[0, 99]])
    assert np.diff(unknown)[0] > 2 * np.diff(two.predict_interval(rows[:1], tasks=[[0, 0]]))[0]


@pytest.mark.parametrize("exact_rows", [300, 20])
def test_groups_of_a_second_grouping_have_slopes(exact_rows, monkeypatch):
    monkeypatch.setattr(structures, "EXACT_ROWS", exact_rows)
    rng = np.random.default_rng(0)
    first, second, rows = rng.integers(10, size=200), rng.integers(8, size=200), rng.normal(size=(200, 1))
    slopes, both = rng.normal(size=8), np.column_stack([first, second])
    truth = rng.normal(size=10)[first] + slopes[second] * rows[:, 0]
    y, train = truth + 0.3 * rng.normal(size=200), np.arange(200) < 100
    model = KinRegressor(cv=2, random_state=0).fit(rows[train], y[train], tasks=both[train])
    assert np.mean((model.predict(rows[~train], tasks=both[~train]) - truth[~train]) ** 2) < 0.1
    assert model.variance_components_["slopes 2"] > 0.2
    found = model.task_effects(1)
    assert np.abs(found["slope of x0"] - (slopes - slopes.mean())).max() < 4 * found["standard_error of x0"].max()


@pytest.mark.parametrize("exact_rows", [600, 20])
def test_groups_of_a_second_grouping_have_curves(exact_rows, monkeypatch):
    monkeypatch.setattr(structures, "EXACT_ROWS", exact_rows)
    rng = np.random.default_rng(0)
    first, second, rows = rng.integers(15, size=300), rng.integers(6, size=300), rng.uniform(-2, 2, size=(300, 1))
    truth = rng.normal(size=15)[first] + np.sin(2.0 * rows[:, 0] + np.arange(6)[second])
    y, train, both = truth + 0.3 * rng.normal(size=300), np.arange(300) < 150, np.column_stack([first, second])
    models = [KinRegressor(cv=2, random_state=0) for _ in range(2)]
    models[0].fit(rows[train], y[train], tasks=both[train])
    monkeypatch.setattr("kernelkin.kin.fit.ROWS_OF_CURVES", 100)
    models[1].fit(rows[train], y[train], tasks=both[train])
    errors = [np.mean((model.predict(rows[~train], tasks=both[~train]) - truth[~train]) ** 2) for model in models]
    assert errors[0] < 0.4 * errors[1]
    assert models[0].best_structure_ == "slopes and curves of all groupings"
    assert models[0].variance_components_["own additive 2"] > 0.1
    assert np.isfinite(models[0].task_effects(1).to_numpy()).all()


def test_groups_never_seen_have_weights_from_folds_of_whole_groups():
    # The first column is constant in each group: known groups need no curve along it, since they have levels.
    rng = np.random.default_rng(0)
    codes, center = np.repeat(np.arange(25), 5), np.linspace(-4, 4, 25)
    rows = np.column_stack([center[codes], 0.2 * rng.normal(size=125)])
    level, slope = 2.0 * np.sin(1.2 * center) + 0.5 * rng.normal(size=25), 2.0 * rng.normal(size=25)
    y = level[codes] + slope[codes] * rows[:, 1] + 0.1 * rng.normal(size=125)
    functions = (model := KinRegressor(random_state=0).fit(rows, y, tasks=codes)).functions_
    asked = np.column_stack([np.linspace(-4, 4, 50), np.zeros(50)])
    means = np.array([m.predict(asked, [np.full(50, -1)])[0][:, 0] for m in functions.members])
    by_rows, by_groups = (
        functions.units.new_location + functions.units.new_spread * (weights @ means)
        for weights in (functions.weights, functions.new_weights)
    )
    np.testing.assert_allclose(model.predict(asked, tasks=np.full(50, 99)), by_groups, rtol=1e-7)
    errors = [np.mean((found - 2.0 * np.sin(1.2 * asked[:, 0])) ** 2) for found in (by_rows, by_groups)]
    assert errors[1] < 0.3 * errors[0]


def wide_problem():
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(20, 2))
    scale, shift = np.array([1.0, 50.0, 3.0]), np.array([0.0, -200.0, 10.0])
    targets = shift + scale * (rows[:, :1] + 0.3 * rows[:, 1:] * [1, -1, 0] + 0.2 * rng.normal(size=(20, 3)))
    return rows, targets, scale


def test_wide_targets_with_and_without_missing_labels():
    rows, targets, scale = wide_problem()
    holes = targets.copy()
    holes[[0, 3, 7, 12], [0, 1, 2, 1]] = np.nan
    Q = np.random.default_rng(5).normal(size=(6, 2))
    whole, some = (KinRegressor(cv=2, random_state=0).fit(rows, y) for y in (targets, holes))
    found = whole.predict(Q)
    assert found.shape == (6, 3)
    assert whole.predict_interval(Q).shape == (6, 3, 2)
    assert (np.abs(some.predict(Q) - found) / scale).max() < 0.4
    np.testing.assert_allclose(whole.predict(Q, tasks=np.full(6, 1)), found[:, 1])


def test_a_new_task_beside_wide_targets_is_none_of_those_known():
    rows, targets, _ = wide_problem()
    model = KinRegressor(cv=2, random_state=0).fit(rows, targets)
    Q = np.random.default_rng(5).normal(size=(3, 2))
    new, known = model.predict_interval(Q, tasks=["new"] * 3), model.predict_interval(Q)
    # Units of tasks differ, so that its level may be that of any of them.
    assert (new[:, 0] < known[..., 0].min(1)).all()
    assert (np.diff(new) > np.diff(known).max()).all()


def test_a_new_task_beside_wide_targets_has_what_these_have_in_common():
    rng = np.random.default_rng(6)
    rows = rng.normal(size=(30, 2))
    targets = rows[:, :1] + rows[:, 1:] * [-1.5, 0.0, 1.5] + 0.1 * rng.normal(size=(30, 3))
    model = KinRegressor(cv=2, random_state=0).fit(rows, targets)
    Q = rng.normal(size=(8, 2))
    new, known = model.predict(Q, tasks=["new"] * 8), model.predict(Q)
    center = known.mean(1)
    assert np.abs(new - center).max() < 0.3 * np.abs(known[:, 2] - center).max()


def test_rows_of_one_task_each_are_never_held_out_all_at_once():
    rows = np.array([[0.0], [1.0], [2.0]])
    for seed in range(6):
        model = KinRegressor(cv=2, random_state=seed).fit(rows, [1.0, 2.0, 4.0], tasks=["a", "b", "c"])
        low, high = model.predict_interval(rows, tasks=["a", "b", "new"]).T
        assert (low < high).all()


def test_deviations_are_those_of_held_out_residuals_on_average(fitted):
    held = fitted.held_out_
    np.testing.assert_allclose(np.mean(((Y - held.values) / held.deviations) ** 2), 1.0)
    scores, residuals = fitted.functions_.scores, np.abs(Y - held.values) / held.deviations
    np.testing.assert_allclose(scores.values / scores.scale, np.sort(residuals))
    _, deviation = fitted.predict(QUERIES, tasks=ASKED, return_std=True)
    low, high = fitted.predict_interval(QUERIES, tasks=ASKED, coverage=0.8).T
    place = 0.8 * (N + 1) - 1
    factor = np.interp(place, np.arange(N), np.sort(residuals))
    np.testing.assert_allclose(0.5 * (high - low), factor * deviation)
    # More than N rows can tell of: further out than the largest residual, and finite.
    far = np.diff(fitted.predict_interval(QUERIES, tasks=ASKED, coverage=0.999))[:, 0]
    assert (far > 2 * residuals.max() * deviation).all()


@pytest.mark.parametrize(
    "cv, match",
    [
        ([(np.arange(12), np.arange(10, N))], "fold 0 must hold out rows of no other fold, and train on"),
        ([CV[0], CV[0]], "fold 1 must"),
        ([(np.arange(6), np.arange(6, 12))], "fold 0 must"),
        ([CV[0], (np.arange(12), [])], "fold 1"),
        ([CV[0], (np.arange(12), [N + 5])], "fold 1 is not a pair"),
    ],
)
def test_folds_that_cannot_be_are_refused_by_number(cv, match):
    with pytest.raises(ValueError, match=match):
        KinRegressor(cv=cv).fit(X, Y, tasks=TASKS)


def folds_of(estimator, *data, **options):
    """The rows of X and the task of each labelled row, with its fold."""
    plan = estimator.specification().plan(estimator.training_data(*data, **options))
    return plan.labelled.rows, plan.labelled.codes, plan.folds


def test_folds_deal_out_the_rows_of_each_task():
    _, codes, found = folds_of(KinRegressor(cv=3, random_state=0), X, Y, tasks=TASKS)
    counts = np.array([np.bincount(found[codes == t], minlength=3) for t in range(6)])
    assert (counts.sum(1) == 4).all()
    assert (np.ptp(counts, axis=1) == 1).all()
    # The fold with one row more is not the same for all tasks.
    assert len(np.unique(counts.argmax(1))) > 1


def test_a_row_of_wide_data_is_held_out_for_all_tasks_at_once():
    rows, targets, _ = wide_problem()
    targets[[0, 3, 7, 12], [0, 1, 2, 1]] = np.nan
    at, codes, found = folds_of(KinRegressor(cv=3, random_state=0), rows, targets)
    assert len(codes) == 56
    for row in range(20):
        assert len(np.unique(found[at == row])) == 1
    assert len(np.unique(found)) == 3


def test_the_score_is_r2_over_all_rows_however_small_the_groups():
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(12), 5)
    X, level = rng.normal(size=(60, 1)), np.repeat(rng.normal(size=12), 5)
    y = 3 * level + 0.01 * X[:, 0] + 0.1 * rng.normal(size=60)
    train = np.tile([True, True, True, False, False], 12)
    model = KinRegressor(cv=2, random_state=0).fit(X[train], y[train], tasks=tasks[train])
    expected = r2_score(y[~train], model.predict(X[~train], tasks=tasks[~train]))
    assert model.score(X[~train], y[~train], tasks=tasks[~train]) == pytest.approx(expected)
    assert expected > 0.9 > 0 > np.mean(list(model.score_tasks(X[~train], y[~train], tasks=tasks[~train]).values()))


def test_without_further_groupings_rows_are_of_groups_never_seen():
    second = np.array(["u", "v", "w"])[np.arange(N) % 3]
    model = KinRegressor(cv=CV).fit(X, Y + 3.0 * (second == "v"), tasks=np.column_stack([TASKS, second]))
    unknown = np.column_stack([ASKED, np.full(5, "never seen")])
    codes = np.searchsorted(model.tasks_, ASKED)
    np.testing.assert_allclose(model.functions_.values(QUERIES, codes)[:, 0], model.predict(QUERIES, tasks=unknown))


def test_quantiles_of_weighted_scores_and_beyond_the_largest():
    values = np.sort(np.abs(np.random.default_rng(4).normal(size=9)))
    plain = Scores.of(values[:, None], values[:, None], np.ones(9))
    weights = np.r_[3.0, np.ones(6)]
    merged = Scores.of(values[2:, None], values[2:, None], weights)
    repeated = Scores.of(*[np.r_[values[[2, 2, 2]], values[3:]][:, None]] * 2, np.ones(9))
    for coverage in (0.15, 0.35, 0.55, 0.8, 0.9):
        assert merged.quantile(coverage) == pytest.approx(repeated.quantile(coverage))
    # Nine rows have a quantile up to 0.9; beyond it grows as that of normal residuals, without a jump.
    assert plain.quantile(0.9) == values[-1]
    assert plain.quantile(0.9 + 1e-9) == pytest.approx(values[-1], rel=1e-6)
    assert plain.quantile(0.99) == pytest.approx(values[-1] * norm.ppf(0.995) / norm.ppf(0.95))


def test_shares_of_variance_are_those_of_the_data_where_a_common_curve_is_flat():
    """A common smooth of long length scales has a large prior variance; levels may be part of own smooths."""
    rng = np.random.default_rng(0)
    groups, rows = np.arange(400) % 40, rng.normal(size=(400, 3))
    level, slope = rng.normal(size=(2, 40))
    parts = [level[groups], 0.5 * slope[groups] * rows[:, 0], 0.7 * np.sin(2 * rows[:, 1]), 0.3 * rng.normal(size=400)]
    model = KinRegressor(random_state=0).fit(rows, sum(parts), tasks=groups)
    shares = model.variance_components_
    own = sum(share for name, share in shares.items() if name == "slopes" or name.startswith("own "))
    common = sum(share for name, share in shares.items() if name in ("linear", "additive", "common smooth"))
    true = np.array([part.var() for part in parts]) / sum(part.var() for part in parts)
    np.testing.assert_allclose([shares["level"], own, common, shares["noise"]], true, atol=0.08)
    assert set(list(model.column_shares_)[:2]) == {"x0", "x1"}


def test_shares_of_columns_sum_to_one(fitted):
    assert list(fitted.column_shares_) and min(fitted.column_shares_.values()) >= 0
    assert sum(fitted.column_shares_.values()) == pytest.approx(1.0)


def test_folds_of_groups_hold_out_columns_of_y():
    rows, codes, held = folds_of(KinRegressor(cv="groups", random_state=0), X[:12], np.column_stack([Y[:12], Y[12:24]]))
    assert len(rows) == 24
    assert [len(set(held[codes == t])) for t in range(2)] == [1, 1]
    assert held[codes == 0][0] != held[codes == 1][0]


def test_columns_that_do_not_vary_have_no_share_and_categories_count_as_one_column():
    rng = np.random.default_rng(0)
    n, kinds = 240, np.arange(240) % 8
    level, x = np.array([1.0, -1.0] * 4), rng.normal(size=240)
    table = pd.DataFrame({"number": x, "kind": np.array(list("abcdefgh"))[kinds]})
    y = x + level[kinds] + 0.3 * rng.normal(size=n)
    shares = KinRegressor(random_state=0).fit(table, y, tasks=np.arange(n) % 10 // 2).column_shares_
    assert 0.35 < shares["number"] < 0.65
    shares = KinRegressor(cv=CV).fit(np.column_stack([X, np.full(N, 0.3)]), Y, tasks=TASKS).column_shares_
    assert shares["x2"] < 1e-12


@pytest.mark.parametrize("d, families", [(60, 60), (61, 1)])
def test_more_than_sixty_columns_share_their_parameters(d, families):
    X = np.random.default_rng(0).normal(size=(20, d))
    plan = KinRegressor().specification().plan(KinRegressor().training_data(X, X[:, 0], np.arange(20) % 4))
    assert len(set(plan.rows.of_column.tolist())) == families


def test_shares_of_columns_are_those_of_the_variance_of_the_function():
    rng = np.random.default_rng(0)
    rows, groups = rng.normal(size=(240, 3)), np.arange(240) % 12
    y = 2.0 * rows[:, 0] + np.sin(3.0 * rows[:, 1]) + rng.normal(size=12)[groups] + 0.1 * rng.normal(size=240)
    shares = KinRegressor(random_state=0).fit(rows, y, tasks=groups).column_shares_
    true = np.array([4.0, 0.5, 0.0]) / 4.5
    np.testing.assert_allclose([shares["x0"], shares["x1"], shares["x2"]], true, atol=0.04)


def test_scores_take_a_column_and_refuse_other_lengths(fitted):
    assert fitted.score(X, Y[:, None], tasks=TASKS) == fitted.score(X, Y, tasks=TASKS)
    with pytest.raises(ValueError, match=rf"y has shape \({N - 1},\), but the predictions have shape \({N},\)"):
        fitted.score(X, Y[1:], tasks=TASKS)
    gap = np.where(np.arange(N) == 3, np.nan, Y)
    for score in (fitted.score, fitted.score_tasks):
        with pytest.raises(ValueError, match=r"Input y contains NaN in row 3 \(counted from 0\): leave these rows out"):
            score(X, gap, tasks=TASKS)
        with pytest.raises(ValueError, match=rf"sample_weight.*\(3,\).*\({N},\)"):
            score(X, Y, tasks=TASKS, sample_weight=np.ones(3))
    with pytest.raises(TypeError, match="y='level' is a string, not the target of each row"):
        fitted.score(X, "level", tasks=TASKS)


def test_texts_that_were_not_in_training_are_told():
    table = pd.DataFrame({"x": X[:, 0], "kind": np.resize(["red", "blue"], N)})
    model = KinRegressor(cv=2, random_state=0).fit(table, Y, tasks=TASKS)
    with pytest.warns(UserWarning, match=r"column 'kind' has values that were not in training: .RED.; they are enc"):
        model.predict(table.assign(kind=table.kind.replace("red", "RED")), tasks=TASKS)


def test_folds_have_one_name():
    with pytest.raises(ValueError, match=r"cv must be a number, .* got 'tasks'"):
        KinRegressor(cv="tasks").fit(X, Y, tasks=TASKS)
