"""Fitted structures: against a linear mixed model of statsmodels, wide data against long, units and columns."""

import warnings

import numpy as np
import pytest
from scipy import sparse

from kernelkin.calibration import choose_units
from kernelkin.mixed import structures
from kernelkin.mixed.columns import Columns, weighted_quantiles
from kernelkin.mixed.covariance import Layout
from kernelkin.mixed.effects import GroupPosterior, variance_shares, wide_contrasts
from kernelkin.mixed.model import MixedModel, Part, flatten
from kernelkin.mixed.structures import (
    FittedStructure,
    MixedData,
    Structure,
    choose_knots,
    choose_landmarks,
    landmark_count,
)
from kernelkin.mixed.terms import Constant, Level, Linear


def test_levels_and_noise_are_those_of_a_linear_mixed_model():
    """With wide priors on mean and slope, and rho = 0, the evidence is the restricted likelihood."""
    from statsmodels.regression.mixed_linear_model import MixedLM

    rng = np.random.default_rng(0)
    T, n = 30, 6
    codes, x = np.repeat(np.arange(T), n), rng.normal(size=T * n)
    y = 0.5 + 0.8 * x + 0.7 * rng.normal(size=T)[codes] + 0.5 * rng.normal(size=T * n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reference = MixedLM(y, np.column_stack([np.ones_like(x), x]), groups=codes).fit(reml=True)
    model = MixedModel([Constant(), Level(), Linear(np.zeros(1, int))], rho=0.0)
    layout = Layout.dense(x[:, None], [codes])
    model.fit([Part(layout, y[:, None], np.ones(T * n), 1.0)], evaluations=500)
    # The variance of a single slope is not determined; a wide one makes it as free as the fixed effect is.
    model.set_parameters(flatten(model.p_ | {"linear": {"variances": np.log([100.0])}}))
    level = float(np.exp(model.p_["level"]["variance"][0]))
    np.testing.assert_allclose(level, reference.cov_re[0, 0], rtol=2e-3)
    np.testing.assert_allclose(model.noise_, reference.scale, rtol=2e-3)
    groups = [np.arange(T)]
    effects = model.predict(np.zeros((T, 1)), groups, terms=["level"])[0][:, 0]
    expected = np.array([reference.random_effects[t].item() for t in range(T)])
    np.testing.assert_allclose(effects, expected, atol=1e-3)
    slope = model.predict(np.ones((1, 1)), [np.array([-1])], terms=["linear"])[0].item()
    np.testing.assert_allclose(slope, reference.fe_params[1], atol=1e-3)
    assert expected.std() > 0.5


def wide_data(weights):
    rng = np.random.default_rng(1)
    N, T = 14, 3
    X = rng.normal(size=(N, 2))
    z = np.sin(X[:, :1]) + X[:, 1:] * np.array([0.2, 0.5, -0.4]) + 0.3 * rng.normal(size=(N, T))
    weight = rng.uniform(0.5, 2.0, N) if weights else np.ones(N)
    of = np.arange(2)
    wide = MixedData(X, (np.zeros(N, int),), (1,), z, weight, of, wide=True)
    codes = np.repeat(np.arange(T), N)
    long = MixedData(np.tile(X, (T, 1)), (codes,), (T,), z.T.reshape(-1, 1), np.tile(weight, T), of)
    return wide, long


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize(
    "structure",
    [
        Structure("slopes, common and own smooth", common=True, own=True),
        Structure("additive and own smooth", slopes=False, own=True, additive=True),
    ],
)
def test_wide_data_are_the_same_data_in_long_form(structure, weights):
    wide, long = wide_data(weights)
    first, second = (FittedStructure(structure, data, evaluations=3) for data in (wide, long))
    x = first.model.x_ + 0.2 * np.random.default_rng(2).normal(size=len(first.model.x_))
    value, gradient = second.model.objective(x)
    np.testing.assert_allclose(first.model.objective(x)[0], value, rtol=1e-6)
    np.testing.assert_allclose(first.model.objective(x)[1], gradient, atol=1e-4)
    for fitted in (first, second):
        fitted.model.set_parameters(x)
    q = 5
    X = np.random.default_rng(3).normal(size=(q, 2))
    mean, variance = first.predict(X, [np.zeros(q, int)])
    others = [second.predict(X, [np.full(q, t)]) for t in range(3)]
    np.testing.assert_allclose(mean, np.hstack([m for m, _ in others]), atol=1e-5)
    np.testing.assert_allclose(variance, np.hstack([v for _, v in others]), atol=1e-5)
    # Contrasts of groups: single functions, their mean, and one against the others.
    M = np.vstack([np.eye(3), np.full(3, 1 / 3), [1.0, -0.5, -0.5]])
    Q, A = first.columns(X)[None], np.array([np.eye(q)[:3]])
    means, variances, _ = wide_contrasts(first, Q, A, None, M)
    joint = GroupPosterior(second, 0, second.columns(X)[None], A).contrasts(sparse.csr_array(M), np.zeros(3))
    np.testing.assert_allclose(means, joint[0], atol=1e-5)
    np.testing.assert_allclose(variances, joint[1], atol=1e-5)
    new = first.predict(X, [np.full(q, -1)])
    expected = second.predict(X, [np.full(q, -1)])
    np.testing.assert_allclose(new[0][:, :1], expected[0], atol=1e-5)
    np.testing.assert_allclose(new[1][:, :1], expected[1], atol=1e-5)
    assert (new[1] > variance).all()
    shares = variance_shares([first], np.ones(1))
    assert shares["level"] > 0.01 and shares == pytest.approx(variance_shares([second], np.ones(1)), rel=1e-4)


def test_columns_go_on_for_one_and_a_half_times_their_range():
    X = np.linspace(2.0, 4.0, 21)[:, None]
    columns = Columns.fit(X, True, np.zeros(1, int), np.ones(len(X)))
    last, next_to, far, early = columns(np.array([[7.0], [6.9], [500.0], [-500.0]]))[:, 0]
    assert next_to < last == far
    np.testing.assert_allclose((far - early) * columns.scale[0], 2.0 + 2 * 1.5 * 2.0)
    # A column that is constant in training tells how new a row is.
    same = Columns.fit(np.ones((4, 1)), True, np.zeros(1, int), np.ones(4))
    assert same(np.array([[9.0]]))[0, 0] == 8.0


def test_columns_with_outliers_are_clipped_and_others_go_on():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(200, 2))
    X[0, 1] = 1000.0
    of = np.arange(2)
    clipped, free = (Columns.fit(X, clip, of, np.ones(len(X))) for clip in (True, False))
    far = np.array([[2.0, 500.0]])
    assert clipped(far)[0, 0] > 4
    assert clipped(far)[0, 1] < 5
    assert free(far)[0, 1] > 5
    np.testing.assert_allclose(clipped(X).mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(clipped(X).std(0), 1)


def test_columns_of_one_family_have_one_scale():
    X = np.random.default_rng(0).normal(size=(50, 3)) * np.array([1.0, 10.0, 3.0])
    Z = Columns.fit(X, False, np.array([0, 0, 1]), np.ones(len(X)))(X)
    np.testing.assert_allclose([Z[:, :2].var(0).sum(), Z[:, 2].var()], 1)
    np.testing.assert_allclose(Z[:, 1].std() / Z[:, 0].std(), X[:, 1].std() / X[:, 0].std())


def test_more_columns_than_rows_are_rotated_without_changing_products_or_distances():
    rng = np.random.default_rng(0)
    X, Q, of = rng.normal(size=(5, 20)), rng.normal(size=(3, 20)), np.zeros(20, int)
    columns = Columns.fit(X, False, of, np.ones(len(X)))
    Z, at = columns(X), columns(Q)
    assert Z.shape == (5, 6)
    assert len(columns.families(of)) == 6
    center, scale = X.mean(0), np.sqrt(X.var(0).sum())
    A, B = (X - center) / scale, (Q - center) / scale
    np.testing.assert_allclose(at @ Z.T, B @ A.T, atol=1e-12)
    np.testing.assert_allclose(((at[:, None] - Z) ** 2).sum(-1), ((B[:, None] - A) ** 2).sum(-1), atol=1e-12)
    np.testing.assert_allclose((at**2).sum(1), (B**2).sum(1))
    np.testing.assert_allclose(columns.restore(Z), X, atol=1e-12)


@pytest.mark.parametrize("spreads, own", [((1.0, 1.3, 0.8, 1.1), False), ((1e-4, 1.0, 1e4, 1e7), True)])
def test_tasks_have_units_of_their_own_where_spreads_differ_by_more_than_chance(spreads, own):
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(4), 10)
    y = np.array(spreads)[codes] * (3.0 + rng.normal(size=40))
    units = choose_units(y, codes, 4, np.ones(40))
    assert (np.ptp(units.spread) > 0) == own
    location, spread = units.of(codes)
    assert np.abs((y - location) / spread).max() < 6
    assert units.of(np.array([-1]))[1] == units.new_spread
    assert np.ptp(choose_units(y, codes, 4, np.ones(40), own=True).location) > 0


@pytest.mark.parametrize("factor, n, own", [(10.0, 20, True), (4.0, 20, False), (10.0, 4, False)])
def test_units_of_tasks_need_clear_differences_and_enough_rows(factor, n, own):
    codes = np.repeat(np.arange(4), n)
    y = np.array([1.0, 1.0, factor, factor])[codes] * np.random.default_rng(1).normal(size=4 * n)
    assert (np.ptp(choose_units(y, codes, 4, np.ones(4 * n)).spread) > 0) == own


def test_a_task_with_few_rows_has_a_spread_near_that_of_the_others():
    rng = np.random.default_rng(0)
    y = np.concatenate([[1.0, 1.001], *(10.0**t * rng.normal(size=40) for t in range(-2, 3))])
    codes = np.repeat(np.arange(6), [2, 40, 40, 40, 40, 40])
    units = choose_units(y, codes, 6, np.ones(202), own=True)
    raw = np.array([y[codes == t].std(ddof=1) for t in range(6)])
    assert units.spread[0] > 2 * raw[0]
    np.testing.assert_allclose(units.spread[1:], raw[1:], rtol=0.1)


def test_landmarks_and_knots_are_distinct_and_at_most_so_many():
    X = np.repeat(np.random.default_rng(0).normal(size=(30, 2)), 3, axis=0)
    assert len(choose_landmarks(X, 40)) == 30
    few = choose_landmarks(X, 8)
    assert len(np.unique(few, axis=0)) == 8
    assert {tuple(row) for row in few} <= {tuple(row) for row in X}
    knots = choose_knots(X[:, 0], 5)
    assert len(knots) == 5
    assert (knots[0], knots[-1]) == (X[:, 0].min(), X[:, 0].max())


def test_weighted_quantiles_are_those_of_copies():
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(40, 3)), rng.integers(1, 5, 40)
    for share in (0.02, 0.31, 0.98):
        found = weighted_quantiles(X, weight.astype(float), [share])[0]
        np.testing.assert_allclose(found, np.quantile(np.repeat(X, weight, axis=0), share, axis=0))


def test_parameters_are_learned_with_fewer_features_than_predictions_use(monkeypatch):
    monkeypatch.setattr("kernelkin.mixed.structures.LEARNING_LANDMARKS", 15)
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(400, 2)), np.repeat(np.arange(40), 10)
    z = np.sin(2 * X[:, :1]) + 0.1 * rng.normal(size=(400, 1))
    data = MixedData(X, (codes,), (40,), z, np.ones(400), np.arange(2))
    few, many = (FittedStructure(Structure("smooth", common=True), data, evaluations=8, n_features=m) for m in (15, 60))
    np.testing.assert_array_equal(few.model.x_, many.model.x_)
    assert [landmark_count(fitted) for fitted in (few, many)] == [15, 60]
    again = FittedStructure(Structure("smooth", common=True), data, evaluations=0, start=few.model.x_, n_features=60)
    np.testing.assert_allclose(many.predict(X, (codes,))[0], again.predict(X, (codes,))[0])


def test_rows_of_a_single_group_are_blocks_of_their_own(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    z = np.sin(X[:, :1]) + 0.1 * rng.normal(size=(40, 1))
    data = MixedData(X, (np.zeros(40, int),), (1,), z, np.ones(40), np.arange(2))
    structure = Structure("common smooth", slopes=False, common=True)
    exact = FittedStructure(structure, data)
    monkeypatch.setattr(structures, "EXACT_ROWS", 10)
    many = FittedStructure(structure, data)
    assert [table.shape for table in many.model.parts[0].layout.tables] == [(40, 1)]
    for codes in (np.zeros(5, int), np.full(5, -1)):
        for found, expected in zip(many.predict(X[:5], [codes]), exact.predict(X[:5], [codes]), strict=True):
            np.testing.assert_allclose(found, expected, atol=2e-3)


@pytest.mark.parametrize("n_groups, exact", [(20, False), (400, True)])
def test_more_features_of_further_groupings_than_rows_are_a_matrix_of_all_rows(n_groups, exact, monkeypatch):
    rng = np.random.default_rng(0)
    N = 320
    X, first, second = rng.normal(size=(N, 2)), np.arange(N) % 30, rng.integers(0, n_groups, N)
    z = X[:, :1] + 0.5 * rng.normal(size=n_groups)[second][:, None] + 0.3 * rng.normal(size=(N, 1))
    data = MixedData(X, (first, second), (30, n_groups), z, np.ones(N), np.arange(2))
    structure, found = Structure("slopes of all groupings", further=True), []
    for most in (600, 0):
        monkeypatch.setattr(structures, "MOST_EXACT_ROWS", most)
        fitted = FittedStructure(structure, data, evaluations=5)
        assert fitted.model.parts[0].layout.by_features == (not exact or most == 0)
        found.append((fitted.model.value_, *fitted.predict(X, (first, second))))
    # Without smooth terms, both forms are the same model.
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
