"""The average of structures: what folds hold out, how members are weighed, and what time that is over leaves."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from kernelkin.kin.losses import Poisson
from kernelkin.mixed import average, structures
from kernelkin.mixed.average import Member, Search
from kernelkin.mixed.batch import features
from kernelkin.mixed.covariance import Layout
from kernelkin.mixed.effects import column_shares, missed_variance, variance_shares
from kernelkin.mixed.likelihoods import Bernoulli, Gaussian
from kernelkin.mixed.model import MixedModel, Part
from kernelkin.mixed.structures import FittedStructure, MixedData, Structure
from kernelkin.mixed.terms import matern, squared_distances
from mixed.problems import layout_of, make_model, make_rows, terms_of

SLOPES = Structure("slopes")
SMOOTH = Structure("common smooth", slopes=False, common=True)


def make_data(seed=0, T=6, n=6, weight=None):
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(T), n)
    X = rng.normal(size=(T * n, 2))
    z = rng.normal(size=T)[codes] + X[:, 0] + 0.3 * rng.normal(size=T * n)
    weight = np.ones(T * n) if weight is None else weight
    return MixedData(X, (codes,), (T,), z[:, None], weight, np.arange(2)), np.arange(T * n) % 3


@pytest.mark.parametrize("warm", [False, True])
def test_held_out_rows_are_predicted_without_their_targets(warm, monkeypatch):
    if warm:
        monkeypatch.setattr(average, "REFIT_ROWS", 10)
    data, folds = make_data()
    other = data.z.copy()
    other[folds == 0] += 5.0
    changed = MixedData(data.X, data.groups, data.n_groups, other, data.weight, data.of_column)
    first, second = (Search(each, folds, structures=[SLOPES]).run()[0] for each in (data, changed))
    # Folds that go on from the parameters of all rows have these from the held-out rows, but no target.
    close = 1.0 if warm else 1e-12
    assert np.abs(first.mean[folds == 0] - second.mean[folds == 0]).max() < close
    assert np.abs(first.mean[folds == 1] - second.mean[folds == 1]).max() > 1.0
    np.testing.assert_allclose(first.loss, (first.mean[:, 0] - data.z[:, 0]) ** 2)
    # So is the noise around them, if folds do not begin at the parameters of all rows.
    assert warm or (first.noise[folds == 0] == second.noise[folds == 0]).all()
    assert (first.noise[folds == 1] < 0.5 * second.noise[folds == 1]).all()


def test_rows_of_no_fold_are_never_held_out():
    data, folds = make_data()
    folds = np.where(folds == 2, -1, folds)
    member = Search(data, folds, structures=[SLOPES]).run()[0]
    assert (np.isnan(member.loss) == (folds == -1)).all()
    assert np.isfinite(member.error)


@pytest.mark.parametrize("likelihood", [Gaussian(), Bernoulli()])
def test_a_deadline_in_the_past_leaves_one_fitted_member(likelihood):
    data, folds = make_data()
    if isinstance(likelihood, Bernoulli):
        data = MixedData(data.X, data.groups, data.n_groups, (data.z > 0) * 1.0, data.weight, data.of_column)
    search = Search(data, folds, likelihood, [SLOPES, SMOOTH], deadline=0.0)
    members = search.run()
    assert [member.structure.name for member in members] == ["slopes"]
    assert not search.is_complete
    assert members[0].weight == 1.0
    assert members[0].fitted.model.n_evaluations_ == 1
    assert np.isfinite(members[0].error)


def test_leave_one_out_variances_where_time_is_over_are_those_of_refits():
    """Rows with weights: the variance of the function, without the noise of a row of its weight."""
    weight = np.random.default_rng(1).uniform(0.5, 3.0, 36)
    data, folds = make_data(weight=weight)
    member = Search(data, folds, structures=[SLOPES], deadline=0.0).run()[0]
    model, X = member.fitted.model, member.fitted.columns(data.X)
    for i in (0, 20):
        rest = np.delete(np.arange(36), i)
        refit = MixedModel(model.terms, model.rho).set_parameters(model.x_)
        refit.parts = [Part(Layout.dense(X[rest], [data.groups[0][rest]]), data.z[rest], weight[rest], 1.0)]
        mean, variance = refit.predict(X[[i]], [data.groups[0][[i]]])
        np.testing.assert_allclose(member.mean[i], mean[0], rtol=1e-5)
        np.testing.assert_allclose(member.variance[i], variance, rtol=1e-4, atol=1e-5)


def test_values_where_time_is_over_contain_the_offsets():
    data, folds = make_data()
    data = replace(data, z=np.round(np.exp(data.z)), offset=np.linspace(-1.0, 1.0, 36))
    member = Search(data, folds, Poisson(), [SLOPES], deadline=0.0).run()[0]
    mean, variance = member.fitted.predict(data.X, data.groups)
    np.testing.assert_allclose(member.mean, mean + data.offset[:, None])
    rate = np.exp(mean + data.offset[:, None] + 0.5 * (variance + member.fitted.model.noise_))
    np.testing.assert_allclose(member.loss, Poisson().loss(data.z, rate)[:, 0])


def test_a_structure_far_behind_on_the_first_fold_is_dropped(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(90, 1))
    z = np.sin(2 * X) + 0.05 * rng.normal(size=(90, 1))
    data = MixedData(X, (np.repeat([0, 1, 2], 30),), (3,), z, np.ones(90), np.zeros(1, int))
    for structures_tried in ([SMOOTH, SLOPES], [SLOPES, SMOOTH]):
        search = Search(data, np.arange(90) % 3, structures=structures_tried)
        assert [member.structure.name for member in search.run()] == ["common smooth"]
        assert search.is_complete
    monkeypatch.setattr(average, "HOPELESS", 1e9)
    kept = Search(data, np.arange(90) % 3, structures=[SLOPES, SMOOTH]).run()
    assert [member.structure.name for member in kept] == ["common smooth", "slopes"]
    assert kept[1].weight < 1e-6
    monkeypatch.undo()
    # Effects of groups need the only structure without means of groups.
    means = Structure("means", slopes=False, common=True, two_lengths=True, means=True)
    found = Search(data, np.arange(90) % 3, structures=[means, SLOPES]).run()
    assert [member.structure.name for member in found] == ["means", "slopes"]


def test_threads_change_nothing(monkeypatch):
    monkeypatch.setattr(average, "THREADED_ROWS", 1)
    data, folds = make_data()
    one, two = (Search(data, folds, structures=[SLOPES, SMOOTH], n_jobs=n_jobs).run() for n_jobs in (1, 2))
    for first, second in zip(one, two, strict=True):
        assert first.structure == second.structure
        assert first.weight == second.weight
        np.testing.assert_array_equal(first.mean, second.mean)


def test_weights_fall_with_errors_by_half_the_standard_error_of_the_best():
    rng = np.random.default_rng(2)
    weight = rng.integers(1, 4, 36)
    data, folds = make_data(weight=weight.astype(float))
    # The best is not the one with the least standard error.
    loss = np.array([[1.0], [0.6], [0.7]]) * rng.exponential(size=(3, 36)) + np.array([[0.0], [0.45], [0.4]])
    members = [Member(SLOPES, None, None, None, None, each) for each in loss]
    search = Search(data, folds)
    search.members = list(members)
    search._weigh()
    copies = np.repeat(loss, weight, axis=1)
    errors, uncertain = copies.mean(1), copies.std(1) / np.sqrt(copies.shape[1])
    assert errors.argmin() != uncertain.argmin()
    scale = 0.5 * uncertain[errors.argmin()]
    expected = np.exp(-(errors - errors.min()) / scale)
    np.testing.assert_allclose([member.weight for member in members], expected / expected.sum())
    assert [member.weight for member in search.members] == sorted((m.weight for m in members), reverse=True)


def test_members_are_compared_on_the_rows_that_all_of_them_have_predicted():
    data, folds = make_data()
    loss = np.random.default_rng(0).exponential(size=(2, 36))
    loss[1, folds == 1] = np.nan
    search = Search(data, folds)
    search.members = members = [Member(SLOPES, None, None, None, None, each) for each in loss]
    search._weigh()
    both = loss[:, folds != 1]
    errors = {id(member): part.mean() for member, part in zip(members, both, strict=True)}
    for member in members:
        assert member.error == pytest.approx(errors[id(member)])


def test_the_average_has_the_mean_and_variance_of_the_mixture():
    rng = np.random.default_rng(0)
    means, variances, weights = np.array([0.0, 2.0]), np.array([1.0, 0.25]), [0.3, 0.7]
    which = rng.random(400_000) < weights[1]
    drawn = np.where(which, 2.0 + 0.5 * rng.normal(size=400_000), rng.normal(size=400_000))
    mean, variance = average.average([(m, v) for m, v in zip(means, variances, strict=True)], weights)
    np.testing.assert_allclose([mean, variance], [drawn.mean(), drawn.var()], rtol=0.01)


@pytest.mark.parametrize("exact_rows", [300, 10])
def test_shares_of_variance_are_those_of_common_functions_and_of_draws_of_groups(exact_rows, monkeypatch):
    """Exact, and in blocks. The level has the part of own smooths that shifts a group as a whole."""
    monkeypatch.setattr(structures, "EXACT_ROWS", exact_rows)
    weight = np.random.default_rng(4).uniform(0.5, 3.0, 36)
    data, folds = make_data(weight=weight)
    w = weight / weight.sum()
    fitted = Search(data, folds, structures=[Structure("slopes", own=True)], deadline=0.0).run()[0].fitted
    # Away from where parameters start, at which columns are alike.
    fitted.model.set_parameters(fitted.model.x_ + 0.3 * np.random.default_rng(3).normal(size=len(fitted.model.x_)))
    shares = variance_shares([fitted], np.ones(1))
    X, p = fitted.columns(data.X), {k: {f: np.exp(v) for f, v in part.items()} for k, part in fitted.model.p_.items()}
    kernel = matern(squared_distances(X / p["smooth"]["lengths"], X / p["smooth"]["lengths"]))[0]
    linear = fitted.model.predict(X, [np.full(len(X), -1)], terms=["linear"], variance=False)[0]
    differ = 1.0 - np.square(np.bincount(data.groups[0], w)).sum()
    raw = {
        "level": differ * (p["level"]["variance"][0] + p["smooth"]["own"][0] * (w @ kernel @ w)),
        "linear": w @ np.square(linear[:, 0] - w @ linear[:, 0]),
        "slopes": differ * (w @ X**2 @ p["slopes"]["variances"]),
        "own smooth": differ * p["smooth"]["own"][0] * (1.0 - w @ kernel @ w),
    }
    assert np.isclose(sum(shares.values()), 1.0)
    assert shares.keys() == {*raw, "noise"}
    for name, value in raw.items():
        np.testing.assert_allclose(shares[name] / shares["noise"], value / fitted.model.noise_, rtol=1e-6)


def test_shares_of_columns_count_rows_by_their_weights():
    """Each group has a column of its own."""
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(80, 2)), np.repeat([0, 1], 40)
    z = X[np.arange(80), codes] + 0.1 * rng.normal(size=80)
    data = MixedData(X, (codes,), (2,), z[:, None], np.ones(80), np.arange(2))
    fitted = FittedStructure(SLOPES, data)
    for group in (0, 1):
        weight = np.where(codes == group, 1.0, 1e-9)
        assert column_shares([fitted], np.ones(1), replace(data, weight=weight), ["0", "1"])[str(group)] > 0.95


def test_the_missed_variance_is_what_features_lack_of_the_prior_variance():
    rows = make_rows()
    terms = terms_of(rows, landmarks=rows.X[:4])
    model = make_model(rows, [terms[name] for name in ("mean", "level", "common smooth")], dense=False)
    weight, exact = model.parts[0].weight / model.parts[0].weight.sum(), layout_of(rows, dense=True).pairs[0]
    level, smooth = (np.diagonal(term.block(model.p_[term.name], exact)[0][0]) for term in model.terms[1:])
    Phi = features(model.terms[2:], model.p_, exact.A).dense[0]
    expected = weight @ (smooth - np.square(Phi).sum(1)) / (weight @ (level + smooth) + model.noise_)
    found = missed_variance(SimpleNamespace(model=model, likelihood=model.likelihood))
    assert 0.05 < found == pytest.approx(expected)


def test_with_very_many_rows_parameters_come_from_some_groups_and_predictions_from_all(monkeypatch):
    monkeypatch.setattr(average, "REFIT_ROWS", 50)
    monkeypatch.setattr(average, "MOST_ROWS", 100)
    monkeypatch.setattr(average, "SUBSET_ROWS", 60)
    monkeypatch.setattr(structures, "EXACT_ROWS", 50)
    data, folds = make_data(T=30)
    search = Search(data, folds, structures=[SMOOTH], n_features=20)
    (member,) = search.run()
    assert member.fitted.model.parts[0].layout.n_rows == 180
    np.testing.assert_array_equal(member.of_fold, member.fitted.model.x_)
    assert member.error < 0.4
    full, half = search.half_features
    assert full < 1.1 * half


def test_some_groups_are_whole():
    codes = np.repeat(np.arange(10), 7)
    rows = average.some_groups(codes, 20)
    assert len(rows) == 21
    assert len(np.unique(codes[rows])) == 3


def test_a_row_of_weight_three_counts_as_three_rows_in_shares_of_variance(monkeypatch):
    monkeypatch.setattr("kernelkin.mixed.model.STEEPNESS", 1e-5)
    weight = np.where(np.arange(36) < 6, 3.0, 1.0)
    data = make_data(weight=weight)[0]
    copies = replace(data.take(np.repeat(np.arange(36), weight.astype(int))), weight=np.ones(48))
    structure = Structure("slopes", common=True, own=True, additive=True)
    one, other = (variance_shares([FittedStructure(structure, each)], np.ones(1)) for each in (data, copies))
    assert one == pytest.approx(other, rel=1e-3)
